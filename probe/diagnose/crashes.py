"""Signals by which a program ends itself (signal(7)), as against those that others send."""

from __future__ import annotations

import signal

ACCIDENTS = frozenset({"SIGSEGV", "SIGBUS", "SIGFPE"})
GIVING_UP = frozenset({"SIGILL", "SIGABRT", "SIGTRAP"})  # abort(3), and traps of compilers
# Calls whose result nobody uses: no address, descriptor or number comes of them.
YIELD_NOTHING = frozenset(
    {"setrlimit", "prlimit64", "setpriority", "ioprio_set", "sched_setscheduler", "sched_setattr"}
    | {"sched_setparam", "sched_setaffinity", "mlock", "mlock2", "mlockall", "madvise", "fadvise64"}
    | {"setgroups", "sync_file_range", "umask", "personality", "prctl"}
)
CRASHES = ACCIDENTS | GIVING_UP | {"SIGSYS"}


def signal_number(name: str) -> int:
    """0 for a name that is none: reports may come from anywhere."""
    if name in signal.Signals.__members__:
        return signal.Signals[name].value
    number = name.removeprefix("SIG")
    return int(number) if number.isdecimal() and number.isascii() else 0
