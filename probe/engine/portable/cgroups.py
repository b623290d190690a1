"""What the cgroups of a span count: OOM kills, and forks that the pids controller refused."""

from __future__ import annotations

import os
from dataclasses import dataclass

from probe.context.mount import Entry, parse

_DEPTH = 8
_UNLIMITED = 1 << 62  # v1 writes a limit that is none as the largest multiple of a page
MEMORY, PIDS = "memory", "pids"
# Where the count stands: the file and its key, in v1 and in v2.
_COUNTERS = {
    (MEMORY, 1): ("memory.oom_control", "oom_kill"),
    (MEMORY, 2): ("memory.events", "oom_kill"),
    (PIDS, 1): ("pids.events", "max"),
    (PIDS, 2): ("pids.events", "max"),
}
_LIMITS = {
    (MEMORY, 1): ("memory.limit_in_bytes", "memory.usage_in_bytes"),
    (MEMORY, 2): ("memory.max", "memory.current"),
    (PIDS, 1): ("pids.max", "pids.current"),
    (PIDS, 2): ("pids.max", "pids.current"),
}


@dataclass(frozen=True, slots=True)
class Cgroup:
    """One of a controller: `folder` is where it can be read, `name` its path in the hierarchy."""

    controller: str
    version: int
    folder: str
    name: str

    def count(self) -> int | None:
        """How often it has refused or killed; None where it does not say."""
        file, key = _COUNTERS[self.controller, self.version]
        text = _read(f"{self.folder}/{file}")
        return parse_counters(text).get(key) if text is not None else None

    @property
    def limit(self) -> int | None:
        return self._number(0)

    @property
    def usage(self) -> int | None:
        return self._number(1)

    def _number(self, which: int) -> int | None:
        text = _read(f"{self.folder}/{_LIMITS[self.controller, self.version][which]}")
        return parse_number(text) if text is not None else None

    def members(self) -> set[int] | None:
        """The processes in it and below, as far as a few folders go."""
        text = _read(f"{self.folder}/cgroup.procs")
        if text is None:
            return None
        return {int(word) for word in text.split() if word.isdecimal()}


def parse_counters(text: str) -> dict[str, int]:
    """Lines of a name and a number; others are left out."""
    found = {}
    for line in text.split("\n"):
        words = line.split(" ")
        if len(words) == 2 and words[1].isascii() and words[1].isdecimal():
            found[words[0]] = int(words[1])
    return found


def parse_number(text: str) -> int | None:
    """None for "max" and for what stands for it."""
    word = text.strip()
    if not (word.isascii() and word.isdecimal()) or int(word) >= _UNLIMITED:
        return None
    return int(word)


def parse_membership(text: str) -> dict[str, str]:
    """/proc/PID/cgroup: the path by controller, "" for that of v2 (cgroups(7))."""
    found: dict[str, str] = {}
    for line in text.split("\n"):
        fields = line.split(":", 2)
        if len(fields) == 3 and fields[2].startswith("/"):
            for controller in fields[1].split(","):
                found[controller] = fields[2]
    return found


class Hierarchies:
    """Where the two controllers are mounted in our own mount namespace."""

    def __init__(self, mounts: list[Entry] | None = None) -> None:
        self._mounts: dict[str, tuple[int, str, str]] = {}  # version, root and place
        for entry in mounts if mounts is not None else _mounts():
            if entry.fstype == "cgroup2":
                self._mounts.setdefault("", (2, entry.root, entry.path))
            elif entry.fstype == "cgroup":
                for controller in (MEMORY, PIDS):
                    if controller in entry.super_options:
                        self._mounts[controller] = (1, entry.root, entry.path)

    def of(self, pid: int) -> list[Cgroup]:
        """The cgroups of a process for both controllers, the innermost first."""
        text = _read(f"/proc/{pid}/cgroup")
        return self.named(parse_membership(text)) if text is not None else []

    def named(self, membership: dict[str, str]) -> list[Cgroup]:
        found = []
        for controller in (MEMORY, PIDS):
            place = controller if controller in self._mounts else ""
            if place in self._mounts and place in membership:
                found += self._line(controller, membership[place], *self._mounts[place])
        return found

    @staticmethod
    def _line(controller: str, path: str, version: int, root: str, place: str) -> list[Cgroup]:
        """It and those above it, as far as they are mounted; the root of all has no limits."""
        root = root.rstrip("/")
        if not (path + "/").startswith(root + "/") or "/../" in path + "/":
            return []
        inner = path[len(root) :].strip("/")
        names = inner.split("/") if inner else []
        lines = ["/".join(names[:size]) for size in range(len(names), -1, -1)][:_DEPTH]
        return [
            Cgroup(controller, version, os.path.join(place, line), f"{root}/{line}".rstrip("/"))
            for line in lines
            if line or root
        ] or [Cgroup(controller, version, place, "/")]


def _mounts() -> list[Entry]:
    text = _read("/proc/self/mountinfo")
    return parse(text) if text is not None else []


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read(1 << 20)
    except OSError:
        return None
