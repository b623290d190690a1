"""What a process reads from and writes to, as /proc shows it."""

from __future__ import annotations

import os
import stat

_PIPE = "pipe:["


def stream(pid: int, descriptor: int) -> str | None:
    """The last part of a regular file's path, or pipe:NUMBER; None for all else, and for one that
    is gone."""
    place = f"/proc/{pid}/fd/{descriptor}"
    try:
        link = os.readlink(place)
        if link.startswith(_PIPE):
            return f"pipe:{link[len(_PIPE) : -1]}"
        regular = stat.S_ISREG(os.stat(place).st_mode)
    except OSError:
        return None
    return os.path.basename(link.removesuffix(" (deleted)")) if regular else None
