"""Which limit on processes is reached, when no pids cgroup is (fork(2), EAGAIN)."""

from __future__ import annotations

import os

Facts = dict[str, object]


def limits(uid: int) -> Facts:
    """Fields of a Fork event: the tasks of this user and of all, and the kernel's limits."""
    return {
        "tasks_of_user": _tasks_of(uid),
        "tasks": _tasks(),
        "threads_max": _number("/proc/sys/kernel/threads-max"),
        "pid_max": _number("/proc/sys/kernel/pid_max"),
    }


def _tasks_of(uid: int) -> int:
    """Threads count against RLIMIT_NPROC as processes do (getrlimit(2))."""
    count = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if os.stat(f"/proc/{name}").st_uid == uid:
                    count += len(os.listdir(f"/proc/{name}/task"))
            except OSError:
                continue
    return count


def _tasks() -> int | None:
    """The fourth field of /proc/loadavg is "running/all" (proc(5))."""
    try:
        with open("/proc/loadavg", encoding="ascii") as file:
            return int(file.read().split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        return None


def _number(path: str) -> int | None:
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None
