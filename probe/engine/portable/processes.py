"""Processes as /proc shows them. What a workload writes there (its name) may be anything."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

COMMAND_LINE_MAX = 4096  # bytes that are read of it
_WORDS_MAX = 64
_HZ = os.sysconf("SC_CLK_TCK")
_STARTED, _EXIT_STATUS = 22 - 3, 52 - 3  # proc(5): fields counted from the state, the third


@dataclass(frozen=True, slots=True)
class Stat:
    """`started_s` is seconds since boot; `status` a wait status, 0 where it is not shown."""

    comm: bytes
    state: str
    parent: int
    session: int
    started_s: float
    status: int = 0


def parse_stat(raw: bytes) -> Stat:
    """/proc/PID/stat. The name may hold anything, also parentheses. ValueError."""
    start, end = raw.find(b"("), raw.rfind(b")")
    fields = raw[end + 1 :].split()
    if not 0 < start < end or len(fields) <= _STARTED:
        raise ValueError("not the form of /proc/PID/stat")
    return Stat(
        comm=raw[start + 1 : end],
        state=fields[0].decode("ascii", "replace"),
        parent=int(fields[1]),
        session=int(fields[3]),
        started_s=int(fields[_STARTED]) / _HZ,
        status=int(fields[_EXIT_STATUS]) if len(fields) > _EXIT_STATUS else 0,
    )


def stat_of(pid: int) -> Stat | None:
    """None where it has gone."""
    try:
        return parse_stat(_read(f"/proc/{pid}/stat", 1024))
    except (OSError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class Status:
    """The effective user, and the number in the innermost pid namespace (0: not told)."""

    uid: int = 0
    inner_pid: int = 0


def parse_status(raw: bytes) -> Status:
    """/proc/PID/status; a name with line ends is escaped there. Lines out of form are left out."""
    uid = inner = 0
    for line in raw.split(b"\n"):
        name, _, rest = line.partition(b":")
        words = rest.split()
        if not words or not words[-1].isdigit():
            continue
        if name == b"Uid" and len(words) > 1 and words[1].isdigit():
            uid = int(words[1])
        elif name == b"NSpid":
            inner = int(words[-1])
    return Status(uid, inner)


def status_of(pid: int) -> Status:
    try:
        return parse_status(_read(f"/proc/{pid}/status", 4096))
    except OSError:
        return Status()


def command_line(pid: int) -> tuple[bytes, ...]:
    """Its words; empty where it has gone or is a zombie."""
    try:
        raw = _read(f"/proc/{pid}/cmdline", COMMAND_LINE_MAX)
    except OSError:
        return ()
    return tuple(raw.removesuffix(b"\0").split(b"\0")[:_WORDS_MAX]) if raw else ()


def program(pid: int) -> str:
    """The path of what it executes; empty where that is not shown."""
    try:
        return os.fsencode(os.readlink(f"/proc/{pid}/exe")).decode(errors="backslashreplace")
    except OSError:
        return ""


def mount_namespace(pid: int) -> int:
    """Its inode number, 0 where that is not shown."""
    try:
        return os.stat(f"/proc/{pid}/ns/mnt").st_ino & 0xFFFFFFFF
    except OSError:
        return 0


def threads(pid: int) -> set[int]:
    try:
        return {int(name) for name in os.listdir(f"/proc/{pid}/task")}
    except OSError:
        return set()


def everybody() -> list[int]:
    """The numbers of all processes that can be seen."""
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return []


class Children:
    """Who the children of processes are: by proc(5)'s list, else by everybody's parent."""

    def __init__(self) -> None:
        own = os.getpid()
        self._listed = os.path.exists(f"/proc/{own}/task/{own}/children")

    def of(self, pids: Iterable[int]) -> list[tuple[int, int]]:
        """Pairs of a child and its parent, which is one of `pids`."""
        if self._listed:
            return [(child, pid) for pid in pids for child in self._of_one(pid)]
        wanted = set(pids)
        pairs = ((pid, stat_of(pid)) for pid in everybody() if pid not in wanted)
        return [(pid, stat.parent) for pid, stat in pairs if stat and stat.parent in wanted]

    @staticmethod
    def _of_one(pid: int) -> list[int]:
        found: list[int] = []
        for thread in threads(pid):
            try:
                listed = _read(f"/proc/{pid}/task/{thread}/children", 1 << 16)
            except OSError:
                continue
            found.extend(int(word) for word in listed.split())
        return found


def _read(path: str, most: int) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, most)
    finally:
        os.close(fd)
