"""Why a program could not be started: what lies behind the errno of execve(2)."""

from __future__ import annotations

import os
import stat
import struct
from dataclasses import dataclass

from probe.context.access import EXECUTE, Caller, first_unsearchable, may, mode_text
from probe.context.mount import mount_of

_HEAD = 4096
_ELF_CLASS64 = 2
_PT_INTERP = 3
_MACHINES = {3: "x86", 8: "mips", 20: "ppc", 21: "ppc64", 22: "s390x", 40: "arm", 62: "x86_64"}
_MACHINES |= {183: "aarch64", 243: "riscv64", 258: "loongarch64"}
_NATIVE = {"x86_64": (62, 3), "aarch64": (183, 40)}


@dataclass(frozen=True, slots=True)
class Obstacle:
    """`reason` is a cause id of the exec family, `detail` names the thing in the way."""

    reason: str
    detail: str = ""


def obstacle(path: str, errno: str, who: Caller) -> Obstacle | None:
    """What kept `path` (absolute) from being started; None where nothing explains it.

    To be called where the path means what it meant to the caller.
    """
    if errno == "E2BIG":
        return Obstacle("exec.args_too_long")
    if errno in ("ENOENT", "ENOTDIR"):
        return _absent(path)
    if errno in ("EACCES", "EPERM"):
        return _forbidden(path, who)
    if errno == "ENOEXEC":
        return _unreadable(path)
    return None


def _absent(path: str) -> Obstacle:
    if path.endswith("\r"):
        return Obstacle("exec.crlf_shebang", path)
    if not os.path.exists(path):
        if os.path.islink(path):
            return Obstacle("exec.not_found", f"a link to {os.readlink(path)}, which is not there")
        return Obstacle("exec.not_found", f"nearest existing directory: {_nearest(path)}")
    head = _head(path)
    if head.startswith(b"#!"):
        return _absent_interpreter(head)
    loader = elf_interpreter(head)
    if loader and not os.path.exists(loader):
        return Obstacle("exec.loader_missing", loader)
    return Obstacle("exec.not_found", "it is there now")


def _absent_interpreter(head: bytes) -> Obstacle:
    line = head[2:].split(b"\n", 1)[0]
    words = line.strip(b" \t").split(None, 1)
    interpreter = os.fsdecode(words[0]) if words else ""
    if line.endswith(b"\r"):
        return Obstacle("exec.crlf_shebang", "#!" + os.fsdecode(line))
    if interpreter and os.path.exists(interpreter):
        loader = elf_interpreter(_head(interpreter))
        if loader and not os.path.exists(loader):
            return Obstacle("exec.loader_missing", loader)
    return Obstacle("exec.interpreter_missing", interpreter)


def _forbidden(path: str, who: Caller) -> Obstacle:
    closed = first_unsearchable(path, who)
    if closed is not None:
        folder, found = closed
        return Obstacle("exec.permission", f"{folder} cannot be searched ({mode_text(found)})")
    try:
        found = os.stat(path)
    except OSError:
        return _unexecutable(path) or Obstacle("exec.permission")
    if stat.S_ISDIR(found.st_mode):
        return Obstacle("exec.permission", "it is a directory")
    unexecutable = _unexecutable(path)
    if unexecutable is not None:
        return unexecutable
    if not may(found, who, EXECUTE):
        return Obstacle("exec.permission", f"mode {mode_text(found)}")
    head = _head(path)
    if head.startswith(b"#!"):
        words = head[2:].split(b"\n", 1)[0].split()
        if words and words[0] != os.fsencode(path):
            return _forbidden(os.fsdecode(words[0]), who)
    return Obstacle("lsm.denied", "its mode and its mount allow it")


def _unexecutable(path: str) -> Obstacle | None:
    """Where it lies nothing may be executed."""
    try:
        flags = os.statvfs(path).f_flag
    except OSError:  # it was removed in the meantime, its mount was not
        folder = _nearest(path)
        return _unexecutable(folder) if folder != path else None
    if not flags & os.ST_NOEXEC:
        return None
    mount = mount_of(path)
    return Obstacle("exec.noexec_mount", mount.path if mount else "")


def _unreadable(path: str) -> Obstacle:
    head = _head(path)
    if head[:4] == b"\x7fELF" and len(head) >= 20:
        machine = struct.unpack_from("<H" if head[5] == 1 else ">H", head, 18)[0]
        here = os.uname().machine
        if machine not in _NATIVE.get(here, (machine,)):
            name = _MACHINES.get(machine, f"machine {machine}")
            return Obstacle("exec.wrong_architecture", f"built for {name}, this is {here}")
    return Obstacle("exec.bad_format", f"starts with {head[:8].hex(' ') or 'nothing'}")


def elf_interpreter(head: bytes) -> str | None:
    """PT_INTERP of an ELF file, from its first bytes; None where it has none."""
    if head[:4] != b"\x7fELF" or len(head) < 64:
        return None
    order = "<" if head[5] == 1 else ">"
    if head[4] == _ELF_CLASS64:
        table, size, count = struct.unpack_from(order + "Q14xHH", head, 32)
        layout, place = order + "I4xQ8x8xQ", (1, 2)
    else:
        table, size, count = struct.unpack_from(order + "I10xHH", head, 28)
        layout, place = order + "II4x4xI", (1, 2)
    for number in range(min(count, 64)):
        at = table + number * size
        if at + struct.calcsize(layout) > len(head):
            break
        entry = struct.unpack_from(layout, head, at)
        if entry[0] == _PT_INTERP:
            start, length = entry[place[0]], entry[place[1]]
            return os.fsdecode(head[start : start + length].rstrip(b"\0"))
    return None


def _head(path: str) -> bytes:
    try:
        # O_NONBLOCK: the path may name a FIFO by now.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(fd, _HEAD)
    except OSError:
        return b""
    finally:
        os.close(fd)


def _nearest(path: str) -> str:
    folder = os.path.dirname(path)
    while folder not in ("", "/") and not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return folder or "/"
