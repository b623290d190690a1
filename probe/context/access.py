"""Who may do what to a file, by its mode (inode(7))."""

from __future__ import annotations

import os
import stat

EXECUTE = 0o1  # for a directory: search


def may(found: os.stat_result, uid: int, bit: int) -> bool:
    """Judged by owner and others; the groups of `uid` are not known, so the file's is assumed."""
    if found.st_uid == uid:
        return bool(found.st_mode >> 6 & bit)
    return bool((found.st_mode >> 3 | found.st_mode) & bit)


def mode_text(found: os.stat_result) -> str:
    """Mode, owner and group: "0644 0:0"."""
    return f"{stat.S_IMODE(found.st_mode):04o} {found.st_uid}:{found.st_gid}"
