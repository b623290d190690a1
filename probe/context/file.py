"""What stands behind the errno of a file call: the mode in the way, the file system's room."""

from __future__ import annotations

import fcntl
import os
import stat
import struct

from probe.context.access import (
    CHOWN,
    EXECUTE,
    FOWNER,
    MKNOD,
    READ,
    WRITE,
    Caller,
    first_unsearchable,
    may,
    mode_text,
)
from probe.context.mount import Entry, mount_of
from probe.events import File

SHARED_MEMORY = "/dev/shm"
Facts = dict[str, object]
_MODES = frozenset({"EACCES", "EPERM"})
_ROOM = frozenset({"EROFS", "ENOSPC", "EDQUOT", "EACCES", "EPERM"})
# Calls that change a directory, not what they name in it.
_ENTRIES = frozenset(
    {"creat", "mkdir", "mkdirat", "mknod", "mknodat", "rmdir", "unlink", "unlinkat", "rename"}
    | {"renameat", "renameat2", "link", "linkat", "symlink", "symlinkat", "bind"}
)
_OWNERS = frozenset({"chmod", "fchmod", "fchmodat", "fchmodat2", "utimensat"})
_FS_IOC_GETFLAGS = 0x80086601  # ioctl_iflags(2)
_IMMUTABLE, _APPEND_ONLY = 0x10, 0x20
_ACL = "system.posix_acl_access"  # acl(5)


def facts(path: str, event: File, who: Caller) -> Facts:
    """Fields of a File event. To be called where the path means what it meant to the caller."""
    found: Facts = {}
    place = _nearest(path) if event.errno in _ROOM else None
    mount = mount_of(place) if place else None
    if event.errno in _MODES:
        found.update(_in_the_way(path, event, who, mount))
    if place:
        found.update(_file_system(place, mount))
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
    return f"{mount.path if mount else place} is full ({room.f_blocks * room.f_frsize} bytes)"


def _in_the_way(path: str, event: File, who: Caller, mount: Entry | None) -> Facts:
    """What refused it: a cause id, and the file or directory whose mode it was."""
    closed = first_unsearchable(path, who)
    if closed is not None:
        folder, found = closed
        return {"mode": mode_text(found), "obstacle": folder, "reason": "fs.permission"}
    folder = os.path.dirname(path) or "/"
    try:
        found, place = os.stat(path), path
    except OSError:
        try:
            found, place = os.stat(folder), folder
        except OSError:
            return {}
    reason = _reason(path, event, who, mount, found)
    if event.syscall in _ENTRIES and place != folder and reason == "fs.permission":
        found, place = os.stat(folder), folder
    told: Facts = {"mode": mode_text(found), "reason": reason}
    if place != path:
        told["obstacle"] = place
    return told


def _reason(path: str, event: File, who: Caller, mount: Entry | None, found: os.stat_result) -> str:
    """Modes, flags of the file and of its mount, and what nothing of these explains."""
    flags = mount.flags if mount else ()
    if event.syscall in ("mmap", "mmap2"):
        return "exec.noexec_mount" if "noexec" in flags else "lsm.denied"
    if _asks_to_execute(event) and stat.S_ISREG(found.st_mode):
        if "noexec" in flags:
            return "exec.noexec_mount"
        return "lsm.denied" if may(found, who, EXECUTE) else "exec.permission"
    if event.syscall.startswith("mknod") and event.errno == "EPERM" and not who.has(MKNOD):
        return "capability.missing"
    if event.syscall.startswith(("chown", "lchown", "fchown")):
        return "lsm.denied" if who.has(CHOWN) and not _is_locked(path) else "capability.missing"
    if event.syscall in _OWNERS and found.st_uid != who.uid and not who.has(FOWNER):
        return "fs.permission"
    if _is_locked(path) or _is_locked(os.path.dirname(path) or "/") or _has_acl(path):
        return "fs.permission"
    if stat.S_ISBLK(found.st_mode) or stat.S_ISCHR(found.st_mode):
        return (
            "fs.permission" if "nodev" in flags or not _allowed(path, event, who) else "lsm.denied"
        )
    return "lsm.denied" if _allowed(path, event, who) else "fs.permission"


def _allowed(path: str, event: File, who: Caller) -> bool:
    """Whether modes let the call through, so that something else refused it."""
    folder = os.path.dirname(path) or "/"
    try:
        above = os.stat(folder)
        found = os.stat(path) if os.path.exists(path) else None
    except OSError:
        return False
    if event.syscall in _ENTRIES or found is None:
        sticky = above.st_mode & stat.S_ISVTX and not who.has(FOWNER)
        foreign = found is not None and who.uid not in (found.st_uid, above.st_uid)
        return may(above, who, WRITE) and not (sticky and foreign)
    if event.syscall in _OWNERS:
        return True
    wanted = _wanted(event)
    protected = bool(above.st_mode & stat.S_ISVTX) and "O_CREAT" in (event.detail or "")
    if protected and found.st_uid not in (who.uid, above.st_uid):
        return False  # fs.protected_regular and fs.protected_fifos (proc(5))
    return all(may(found, who, bit) for bit in wanted)


def _asks_to_execute(event: File) -> bool:
    return "X_OK" in (event.detail or "")


def _wanted(event: File) -> tuple[int, ...]:
    words = event.detail or ""
    if "_OK" in words:
        bits = (("R_OK", READ), ("W_OK", WRITE), ("X_OK", EXECUTE))
        return tuple(bit for name, bit in bits if name in words)
    if "O_RDWR" in words:
        return READ, WRITE
    if "O_WRONLY" in words or event.syscall in ("truncate", "write", "pwrite64", "writev"):
        return (WRITE,)
    return (READ,)


def _is_locked(path: str) -> bool:
    """chattr(1) +i or +a: no mode and no capability helps."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        (flags,) = struct.unpack("l", fcntl.ioctl(fd, _FS_IOC_GETFLAGS, bytes(8)))
    except OSError:
        return False
    finally:
        os.close(fd)
    return bool(flags & (_IMMUTABLE | _APPEND_ONLY))


def _has_acl(path: str) -> bool:
    try:
        return bool(os.getxattr(path, _ACL))
    except OSError:
        return False


def _nearest(path: str) -> str:
    while path not in ("", "/") and not os.path.exists(path):
        path = os.path.dirname(path)
    return path or "/"


def _file_system(path: str, mount: Entry | None) -> Facts:
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
    if mount is not None:
        found |= {"mount": mount.path, "fstype": mount.fstype, "mount_flags": ",".join(mount.flags)}
    return found
