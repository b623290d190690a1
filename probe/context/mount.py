"""The mounts that the calling thread can see (proc(5), mountinfo)."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

# Our own procfs: where a thread has gone to look at a workload's files there may be none.
_PROC = (
    os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) if os.path.isdir("/proc") else -1
)
_ESCAPE = re.compile(r"\\([0-7]{3})")
_FLAGS = ("ro", "noexec", "nosuid", "nodev")


@dataclass(frozen=True)
class Entry:
    """One mount: `root` is the directory of the file system that is seen at `path`."""

    root: str
    path: str
    options: frozenset[str]
    fstype: str
    source: str
    super_options: frozenset[str]

    @property
    def flags(self) -> tuple[str, ...]:
        """What it keeps from happening: read-only may be the mount or all of the file system."""
        here = self.options | (self.super_options & {"ro"})
        return tuple(flag for flag in _FLAGS if flag in here)


def entries() -> list[Entry]:
    """OSError without /proc."""
    table = os.open("thread-self/mountinfo", os.O_RDONLY | os.O_CLOEXEC, dir_fd=_PROC)
    with open(table, encoding="utf-8", errors="surrogateescape") as file:
        return visible(parse(file.read()))


def mount_of(path: str) -> Entry | None:
    """The mount that an absolute path lies on; None where the table cannot be read."""
    try:
        return holding(os.path.realpath(path), entries())
    except OSError:
        return None


def visible(table: list[Entry]) -> list[Entry]:
    """Without those that a later mount, at the same place or above, covers."""
    found: list[Entry] = []
    for entry in table:
        found = [one for one in found if not _lies_on(one.path, entry.path)]
        found.append(entry)
    return found


def _lies_on(path: str, mount: str) -> bool:
    return (path + "/").startswith(mount.rstrip("/") + "/")


def parse(table: str) -> list[Entry]:
    """Lines that are not of the documented form are left out."""
    found = []
    for line in table.split("\n"):
        place, _, kind = line.partition(" - ")
        fields, words = place.split(" "), kind.split(" ")
        if len(fields) < 6 or len(words) < 3:
            continue
        found.append(
            Entry(
                root=_plain(fields[3]),
                path=_plain(fields[4]),
                options=frozenset(fields[5].split(",")),
                fstype=words[0],
                source=_plain(words[1]),
                super_options=frozenset(words[2].split(",")),
            )
        )
    return found


def _plain(text: str) -> str:
    r"""Space, tab, newline and backslash stand there as \040 and the like."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), text)


def holding(path: str, table: list[Entry]) -> Entry | None:
    """The visible mount that an absolute, resolved path lies on: the deepest."""
    above = (entry for entry in table if _lies_on(path, entry.path))
    return max(above, key=lambda entry: len(entry.path), default=None)
