"""Events as a test run makes them, for the benches that need many."""

from __future__ import annotations

from typing import Any

from probe.events import Connect, Event, Exec, Exit, File, Seccomp


def event(sequence: int, *, time_ns: int, pid: int, parent: int, span: int) -> Event:
    """Five kinds, in turns; the fourth is the end of its process."""
    common: dict[str, Any] = {
        **{"sequence": sequence, "time_ns": time_ns, "pid": pid, "tid": pid, "ppid": parent},
        **{"comm": "python3", "exe": "/usr/bin/python3.11", "span": span, "mnt_ns": 4026531840},
    }
    match sequence % 5:
        case 0:
            return Exec(**common, path="/usr/bin/git", argv=("git", "status"), cwd="/work")
        case 1:
            return File(**common, syscall="openat", path="/srv/lib/x.so", errno="ENOENT")
        case 2:
            return Seccomp(**common, syscall="clone3", args=(1, 88), errno="ENOSYS")
        case 3:
            return Connect(**common, family="inet", address="127.0.0.1", port=5432)
        case _:
            return Exit(**common, code=0, reaper=parent, duration_s=0.25)
