"""What stands behind the errno of a file call: the mode in the way, the file system's room."""

from __future__ import annotations

import os

from probe.context.access import EXECUTE, may, mode_text
from probe.context.program import mount_point

SHARED_MEMORY = "/dev/shm"
Facts = dict[str, object]
_MODES = frozenset({"EACCES", "EPERM"})
_ROOM = frozenset({"EROFS", "ENOSPC", "EDQUOT", "EACCES", "EPERM"})


def facts(path: str, errno: str, uid: int) -> Facts:
    """Fields of a File event. To be called where the path means what it meant to the caller."""
    found: Facts = {}
    if errno in _MODES:
        found.update(_in_the_way(path, uid))
    if errno in _ROOM:
        found.update(_file_system(_nearest(path)))
    return found


def full_shared_memory() -> str | None:
    """A page of a file on a full tmpfs cannot be had, and touching it is SIGBUS (mmap(2))."""
    try:
        room = os.statvfs(SHARED_MEMORY)
    except OSError:
        return None
    if room.f_bavail or not room.f_blocks:
        return None
    return f"{SHARED_MEMORY} is full ({room.f_blocks * room.f_frsize} bytes)"


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
    mount = mount_point(path)
    found: Facts = {
        "mount": mount,
        "size": room.f_blocks * room.f_frsize,
        "free": room.f_bavail * room.f_frsize,
    }
    if room.f_files:  # file systems without a fixed number of inodes say 0
        found["free_inodes"] = room.f_favail
    fstype = _type_of(mount)
    if fstype:
        found["fstype"] = fstype
    return found


def _type_of(mount: str) -> str | None:
    """From mountinfo (proc(5)) of the calling thread; the last mount at a place is the one seen."""
    try:
        with open("/proc/thread-self/mountinfo", encoding="utf-8", errors="replace") as table:
            lines = table.read().splitlines()
    except OSError:
        return None
    found = None
    for line in lines:
        place, _, rest = line.partition(" - ")
        fields = place.split(" ")
        if len(fields) > 4 and fields[4].encode().decode("unicode_escape") == mount:
            found = rest.split(" ")[0]
    return found
