"""Who holds the memory of a cgroup: for the moment after the OOM killer was there."""

from __future__ import annotations

import psutil

_SHOWN = 3
_MIB = 1 << 20


def biggest(cgroup: str, victim: int) -> tuple[str, ...]:
    """The largest processes of a cgroup, its victim aside, as "name (pid 12) 34.5 MiB"."""
    found: list[tuple[int, str]] = []
    for process in psutil.process_iter(["pid", "name", "memory_info"]):
        memory = process.info["memory_info"]
        if process.pid == victim or memory is None or not _within(process.pid, cgroup):
            continue
        words = f"{process.info['name']} (pid {process.pid}) {memory.rss / _MIB:.1f} MiB"
        found.append((memory.rss, words))
    return tuple(words for _, words in sorted(found, reverse=True)[:_SHOWN])


def pressure(cgroup: str) -> float | None:
    """Percent of the last ten seconds that some task there waited for memory (PSI).

    Of the cgroup where the kernel counts by cgroup (v2), else of the whole machine.
    """
    for path in (f"/sys/fs/cgroup{cgroup}/memory.pressure", "/proc/pressure/memory"):
        try:
            with open(path, encoding="ascii") as file:
                first = file.readline()
            return float(first.partition("avg10=")[2].partition(" ")[0])
        except (OSError, ValueError):
            continue
    return None


def _within(pid: int, cgroup: str) -> bool:
    """By cgroups(7): the memory controller's line of v1, the only one of v2."""
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                _, controllers, path = line.rstrip("\n").split(":", 2)
                if controllers in ("", "memory") and (path + "/").endswith(cgroup + "/"):
                    return True
    except (OSError, ValueError):
        pass
    return False
