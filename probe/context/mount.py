"""Mounts, as the calling thread's mount namespace has them (proc(5), mountinfo)."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

_OCTAL = re.compile(r"\\([0-7]{3})")
# Our own procfs: where a thread has gone to look at a workload's files there may be none.
_PROC = (
    os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) if os.path.isdir("/proc") else -1
)


@dataclass(frozen=True, slots=True)
class Mount:
    """Where a file system is attached, its type, and how: "ro,noexec"."""

    point: str
    fstype: str
    flags: str


def mount_of(path: str) -> Mount | None:
    """The mount that `path` (absolute) lies on; None where the table cannot be read."""
    here = os.path.realpath(path)
    found = None
    for line in _table():
        mount = _parse(line)
        # The last of those at one place is the one seen, and the innermost place counts.
        if (
            mount
            and _covers(mount.point, here)
            and (not found or len(mount.point) >= len(found.point))
        ):
            found = mount
    return found


def _covers(point: str, path: str) -> bool:
    return point == "/" or path == point or path.startswith(point + "/")


def _parse(line: str) -> Mount | None:
    place, _, rest = line.partition(" - ")
    fields, super_fields = place.split(" "), rest.split(" ", 2)
    if len(fields) < 6 or len(super_fields) < 3:
        return None
    # A file system may be read-only as a whole, beside the flags of this mount.
    whole = ["ro"] if "ro" in super_fields[2].split(",") else []
    flags = dict.fromkeys([*whole, *fields[5].split(",")])
    if whole:
        flags.pop("rw", None)
    return Mount(_unescaped(fields[4]), super_fields[0], ",".join(flags))


def _unescaped(text: str) -> str:
    """Blanks and the like are written as \\040."""
    return _OCTAL.sub(lambda found: chr(int(found[1], 8)), text)


def _table() -> list[str]:
    try:
        table = os.open("thread-self/mountinfo", os.O_RDONLY | os.O_CLOEXEC, dir_fd=_PROC)
    except OSError:
        return []
    with open(table, encoding="utf-8", errors="surrogateescape") as file:
        return file.read().splitlines()
