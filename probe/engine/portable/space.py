"""File systems that are full, of those that we see and that can be written to."""

from __future__ import annotations

import os
from dataclasses import dataclass

from probe.context.mount import entries

_MOST = 64
_TYPES = frozenset({"tmpfs", "ext2", "ext3", "ext4", "xfs", "btrfs", "overlay", "f2fs", "9p"})


@dataclass(frozen=True, slots=True)
class Full:
    """`of` is "space" (`size` in bytes) or "inodes" (`size` is their number)."""

    mount: str
    of: str
    size: int


def full() -> set[Full]:
    """Those that have nothing left for whoever is not root."""
    try:
        mounts = entries()
    except OSError:
        return set()
    places = [entry.path for entry in mounts if entry.fstype in _TYPES and "ro" not in entry.flags]
    return {found for place in places[:_MOST] for found in _full_at(place)}


def _full_at(place: str) -> list[Full]:
    try:
        told = os.statvfs(place)
    except OSError:
        return []
    found = []
    if told.f_blocks and not told.f_bavail:
        found.append(Full(place, "space", told.f_blocks * told.f_frsize))
    if told.f_files and not told.f_favail:
        found.append(Full(place, "inodes", told.f_files))
    return found
