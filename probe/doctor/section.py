"""What all sections of an examination share: facts with a weight, and what was not to be learned.

A section is a dataclass. Its fields are facts; the metadata of each says how much a
difference in it matters between two sandboxes (0 to 1), or that it changes by itself.
JSON, schema, documentation and comparison are derived from that.
"""

from __future__ import annotations

import ctypes
import dataclasses
import mmap
import os
import struct
import types
import typing
from collections.abc import Callable
from typing import Any, TypeVar

from probe import abi

_libc = ctypes.CDLL(None, use_errno=True)
Value = TypeVar("Value")
Whole = TypeVar("Whole", bound="Section")


def fact(weight: float, doc: str, none_is_unknown: bool = False) -> Any:
    """A field that two sandboxes are compared by; `weight` is how likely it breaks work."""
    metadata = {"weight": weight, "doc": doc, "none_is_unknown": none_is_unknown}
    return dataclasses.field(metadata=metadata)


def passing(doc: str) -> Any:
    """A field that says how things are at this moment, or which sandbox it is: never compared."""
    return dataclasses.field(metadata={"weight": None, "doc": doc})


@dataclasses.dataclass(kw_only=True)
class Section:
    """`unknown` has, for each field that could not be learned, the reason."""

    unknown: dict[str, str] = dataclasses.field(
        metadata={"weight": None, "doc": "fields that could not be learned, each with the reason"}
    )

    @classmethod
    def lost(cls: type[Whole], why: str) -> Whole:
        """The section where nothing at all could be learned."""
        hints = typing.get_type_hints(cls)
        names = [field.name for field in dataclasses.fields(cls) if field.name != "unknown"]
        blank = {
            name: (typing.get_origin(hints[name]) or hints[name])()
            for name in names
            if types.NoneType not in typing.get_args(hints[name])
        }
        nothing = dict.fromkeys(names)
        return cls(**{**nothing, **blank}, unknown=dict.fromkeys(names, why))

    @property
    def loss(self) -> str | None:
        """Why nothing at all could be learned; None where something was."""
        reasons = set(self.unknown.values())
        whole = len(self.unknown) == len(dataclasses.fields(self)) - 1
        return reasons.pop() if whole and len(reasons) == 1 else None


class Learner:
    """Asks for facts one by one, so that one that cannot be had does not take others with it."""

    def __init__(self) -> None:
        self.unknown: dict[str, str] = {}

    def learn(self, name: str, find: Callable[[], Value]) -> Value | None:
        """What `find` returns; None, and the reason in `unknown`, where the system refuses."""
        try:
            return find()
        except (OSError, ValueError, LookupError, ImportError, RuntimeError) as error:
            self.unknown[name] = reason(error)
            return None


def reason(error: BaseException) -> str:
    """An exception in a few words, with the file that it is about."""
    if isinstance(error, OSError) and error.strerror:
        where = (
            f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
        )
        return f"{where}{error.strerror}"
    if isinstance(error, LookupError) and not isinstance(error, KeyError):
        return str(error)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def attempt(call: Callable[[], int], alters: bool = False) -> int:
    """What a call returns, made in a child, since a seccomp filter may end whoever makes it.

    Where no child can be had, this process makes it, unless it `alters` its maker. A
    negative result is taken for a failure that left its errno with ctypes. OSError
    where it failed or the child was ended. No other thread may run.
    """
    shared = mmap.mmap(-1, 16)
    try:
        child = os.fork()
    except OSError:
        if alters:
            raise
        return _checked(call(), ctypes.get_errno())
    if child == 0:
        try:
            value = call()
            shared[:16] = struct.pack("=qq", value, ctypes.get_errno() if value < 0 else 0)
            os._exit(0)
        finally:
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    value, error = struct.unpack("=qq", shared[:16])
    if status:
        how = f"by {abi.signal_name(-status)}" if status < 0 else "in disorder"
        raise OSError(0, f"whoever tries is ended {how}")
    return _checked(value, error)


def _checked(value: int, error: int) -> int:
    if value < 0:
        raise OSError(error, os.strerror(error))
    return int(value)


def deadly(call: str) -> bool:
    """Whether a syscall ends whoever makes it, here with arguments that mean nothing (-1, 0)."""
    number = abi.syscall_numbers(abi.machine())[call]
    try:
        attempt(lambda: _libc.syscall(number, -1, None, 0, 0, 0, 0))
    except OSError as error:
        return error.errno == 0
    return False


def read(path: str) -> str:
    """A small file of the kernel's, without the line end. OSError where there is none."""
    with open(path, encoding="utf-8", errors="backslashreplace") as file:
        return file.read(1 << 20).rstrip("\n")


def sysctls(*names: str) -> dict[str, str]:
    """Those of the kernel's settings that can be read (proc(5), /proc/sys)."""
    found = {}
    for name in names:
        try:
            found[name] = " ".join(read("/proc/sys/" + name.replace(".", "/")).split())
        except OSError:
            continue  # this kernel does not have it, or does not tell
    return found
