"""Looking at files as a workload sees them, even after its processes are gone.

A mount namespace dies with its last process, often a millisecond after the
failure that is to be explained. So a descriptor is kept of each one that comes
into sight, which keeps it alive until the span ends.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")

_CLONE_FS = 0x00000200
_CLONE_NEWNS = 0x00020000
_KEPT = 64
_libc = ctypes.CDLL(None, use_errno=True)


class OutOfReachError(LookupError):
    """Nothing is left to look at this mount namespace through."""


class MountNamespaces:
    """The mount namespaces in sight, by inode number; the oldest make room for new ones."""

    def __init__(self) -> None:
        try:
            self._own = os.stat("/proc/self/ns/mnt").st_ino
        except OSError:
            self._own = 0  # gVisor does not tell them apart
        self._kept: OrderedDict[int, int] = OrderedDict()  # number: descriptor
        self._spans: dict[int, set[int]] = {}  # who wants it kept

    def note(self, number: int, pid: int, span: int) -> None:
        """Keeps the namespace of a living process for a span, if it is another one."""
        if number in (self._own, 0):
            return
        if number in self._kept:
            self._spans[number].add(span)
            return
        try:
            fd = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return
        if os.fstat(fd).st_ino != number:
            os.close(fd)
            return
        self._kept[number] = fd
        self._spans[number] = {span}
        if len(self._kept) > _KEPT:
            self._drop(next(iter(self._kept)))

    def forget(self, span: int) -> None:
        """Lets go of the namespaces that only this span had."""
        for number, spans in list(self._spans.items()):
            spans.discard(span)
            if not spans:
                self._drop(number)

    def _drop(self, number: int) -> None:
        os.close(self._kept.pop(number))
        del self._spans[number]

    def within(self, number: int, pid: int, look: Callable[[], Result]) -> Result:
        """What `look` finds where the process's root is, or was. OutOfReachError otherwise."""
        entrances = self._entrances(number, pid)
        if not entrances:
            return look()
        found: list[Result] = []

        def visit() -> None:
            # Root and working directory belong to this thread alone from here on,
            # which is also what setns(2) asks for before a change of mount namespace.
            _check(_libc.unshare(_CLONE_FS))
            for enter in entrances:
                try:
                    enter()
                    found.append(look())
                    return
                except OSError:
                    continue  # the process has gone in the meantime

        visitor = threading.Thread(target=visit)
        visitor.start()
        visitor.join()
        if not found:
            raise OutOfReachError("the mount namespace is gone")
        return found[0]

    def _entrances(self, number: int, pid: int) -> list[Callable[[], None]]:
        """The ways to get there, best first; none where we are there already."""
        try:
            root = os.readlink(f"/proc/{pid}/root")
            alive = os.stat(f"/proc/{pid}/ns/mnt").st_ino == number
        except OSError:
            root, alive = "/", False
        if number == self._own and root == "/":
            return []
        ways: list[Callable[[], None]] = []
        if alive:
            ways.append(lambda: _enter_root_of(pid, None if number == self._own else number))
        if number in self._kept:
            fd = self._kept[number]
            ways.append(lambda: _check(_libc.setns(fd, _CLONE_NEWNS)))
        return ways or [_no_way]


def _enter_root_of(pid: int, number: int | None) -> None:
    """The root of a living process: first its mount namespace, if it is another, then the place."""
    root = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if number is not None:
            namespace = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
            try:
                _check(_libc.setns(namespace, _CLONE_NEWNS))
            finally:
                os.close(namespace)
        os.fchdir(root)
        os.chroot(".")
    finally:
        os.close(root)


def _no_way() -> None:
    raise FileNotFoundError


def _check(result: int) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
