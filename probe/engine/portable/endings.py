"""How a process ended, asked of a pidfd: since Linux 6.15 it tells that after the end too."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import select

_INFO_EXIT = 1 << 3


class _Info(ctypes.Structure):
    """struct pidfd_info of linux/pidfd.h, its first version."""

    _fields_ = [
        ("mask", ctypes.c_uint64),
        ("cgroup", ctypes.c_uint64),
        ("numbers", ctypes.c_uint32 * 11),
        ("exit_code", ctypes.c_int32),
    ]


_GET_INFO = 3 << 30 | ctypes.sizeof(_Info) << 16 | 0xFF << 8 | 11  # _IOWR(0xFF, 11, …)


class Endings:
    """Descriptors of processes, for their wait statuses. Without pidfds there are none."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: dict[int, int] = {}

    def watch(self, pid: int) -> None:
        if pid not in self._kept and len(self._kept) < self._most:
            with contextlib.suppress(OSError):
                self._kept[pid] = os.pidfd_open(pid)

    def has_ended(self, pid: int) -> bool | None:
        """None where it cannot be told."""
        fd = self._kept.get(pid)
        if fd is None:
            return None
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        return bool(poll.poll(0))

    def status(self, pid: int) -> int | None:
        """The wait status of one that was reaped; None where it is not told."""
        fd = self._kept.get(pid)
        if fd is None:
            return None
        info = _Info(mask=_INFO_EXIT)
        try:
            fcntl.ioctl(fd, _GET_INFO, info)
        except OSError:
            return None
        return int(info.exit_code) if info.mask & _INFO_EXIT else None

    def forget(self, pid: int) -> None:
        fd = self._kept.pop(pid, None)
        if fd is not None:
            os.close(fd)

    def close(self) -> None:
        for pid in list(self._kept):
            self.forget(pid)
