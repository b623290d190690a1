"""Descriptors of processes (pidfd_open(2))."""

from __future__ import annotations

import errno


def pid_of(pidfd: int) -> int:
    """The process's number as we see it. ProcessLookupError where it has ended, or is none."""
    with open(f"/proc/self/fdinfo/{pidfd}", encoding="ascii") as info:
        for line in info:
            if line.startswith("Pid:") and int(line[4:]) > 0:
                return int(line[4:])
    raise ProcessLookupError(errno.ESRCH, "the process is gone")
