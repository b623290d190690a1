"""Descriptors of processes (pidfd_open(2))."""

from __future__ import annotations

import errno
import os


def handle(pid: int) -> int:
    """A pidfd of a process; where there are none (gVisor), a descriptor of its folder in /proc.

    OSError where it has gone.
    """
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EPERM):
            raise
        return os.open(f"/proc/{pid}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


class ElsewhereError(ProcessLookupError):
    """The process has no number in our pid namespace."""


def pid_of(pidfd: int) -> int:
    """The process's number as we see it. ProcessLookupError where it has ended, or is none."""
    folder, name = os.path.split(os.readlink(f"/proc/self/fd/{pidfd}"))
    if folder == "/proc" and name.isdecimal():
        return int(name)
    with open(f"/proc/self/fdinfo/{pidfd}", encoding="ascii") as info:
        for line in info:
            if line.startswith("Pid:") and int(line[4:]) > 0:
                return int(line[4:])
            if line.startswith("Pid:") and int(line[4:]) == 0:  # -1 where it has ended
                raise ElsewhereError(errno.ESRCH, "the process is in another pid namespace")
    raise ProcessLookupError(errno.ESRCH, "the process is gone")
