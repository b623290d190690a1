"""What stands behind the errno of a file call: the mode in the way, the file system's room."""

from __future__ import annotations

import os

from probe.context.access import EXECUTE, may, mode_text
from probe.context.mount import mount_of
from probe.events import File

SHARED_MEMORY = "/dev/shm"
Facts = dict[str, object]
_MODES = frozenset({"EACCES", "EPERM"})
_ROOM = frozenset({"EROFS", "ENOSPC", "EDQUOT", "EACCES", "EPERM"})


def facts(path: str, event: File) -> Facts:
    """Fields of a File event. To be called where the path means what it meant to the caller."""
    found: Facts = {}
    if event.errno in _MODES:
        found.update(_in_the_way(path, event.uid))
    if event.errno in _ROOM:
        found.update(_file_system(_nearest(path)))
    return found


def full_file_system(path: str | None) -> str | None:
    """A page of a file on a full file system cannot be had, and touching it is SIGBUS (mmap(2)).

    Where it is not known which file was touched, it may have been shared memory.
    """
    place = path if path and os.path.exists(path) else SHARED_MEMORY
    try:
        room = os.statvfs(place)
    except OSError:
        return None
    if room.f_bavail or not room.f_blocks:
        return None
    mount = mount_of(place)
    return f"{mount.point if mount else place} is full ({room.f_blocks * room.f_frsize} bytes)"


def _in_the_way(path: str, uid: int) -> Facts:
    """The first directory that may not be searched, else what is there, else its directory."""
    folder = "/"
    for name in [part for part in os.path.dirname(path).split("/") if part]:
        folder = os.path.join(folder, name)
        try:
            found = os.stat(folder)
        except OSError:
            break
        if uid and not may(found, uid, EXECUTE):
            return {"mode": mode_text(found), "obstacle": folder}
    for candidate in (path, os.path.dirname(path) or "/"):
        try:
            found = os.stat(candidate)
        except OSError:
            continue
        return {"mode": mode_text(found), **({"obstacle": candidate} if candidate != path else {})}
    return {}


def _nearest(path: str) -> str:
    while path not in ("", "/") and not os.path.exists(path):
        path = os.path.dirname(path)
    return path or "/"


def _file_system(path: str) -> Facts:
    try:
        room = os.statvfs(path)
    except OSError:
        return {}
    found: Facts = {
        "size": room.f_blocks * room.f_frsize,
        "free": room.f_bavail * room.f_frsize,
    }
    if room.f_files:  # file systems without a fixed number of inodes say 0
        found["free_inodes"] = room.f_favail
    mount = mount_of(path)
    if mount is not None:
        found |= {"mount": mount.point, "fstype": mount.fstype, "mount_flags": mount.flags}
    return found
