"""Descriptors of processes (pidfd_open(2))."""

from __future__ import annotations

import errno


class ElsewhereError(ProcessLookupError):
    """The process has no number in our pid namespace."""


def pid_of(pidfd: int) -> int:
    """The process's number as we see it. ProcessLookupError where it has ended, or is none."""
    with open(f"/proc/self/fdinfo/{pidfd}", encoding="ascii") as info:
        for line in info:
            if line.startswith("Pid:") and int(line[4:]) > 0:
                return int(line[4:])
            if line.startswith("Pid:") and int(line[4:]) == 0:  # -1 where it has ended
                raise ElsewhereError(errno.ESRCH, "the process is in another pid namespace")
    raise ProcessLookupError(errno.ESRCH, "the process is gone")
