"""Who may do what to a file, by its mode (inode(7)) and the caller's capabilities."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

READ, WRITE, EXECUTE = 0o4, 0o2, 0o1  # for a directory the last is: search

# Numbers of capabilities(7).
CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, MKNOD = 0, 1, 2, 3, 27


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose access is judged. `groups` is None where they could not be learnt."""

    uid: int
    groups: frozenset[int] | None = None
    capabilities: int = 0

    def has(self, capability: int) -> bool:
        return bool(self.capabilities >> capability & 1)


def caller(
    pid: int, uid: int, capabilities: int | None = None, user_ns: int | None = None
) -> Caller:
    """From what the event knows and, while the process lives, what /proc shows of it.

    Capabilities in a nested user namespace reach only files whose owner has a place
    there (capabilities(7)), so they are not counted on.
    """
    fields = _status(pid)
    if capabilities is None:
        # The kernel said no: where it hangs on a capability, it was not there.
        capabilities = int(fields["CapEff"], 16) if "CapEff" in fields else 0
    groups = None
    if "Groups" in fields and "Gid" in fields:
        effective = int(fields["Gid"].split()[1])
        groups = frozenset({effective, *map(int, fields["Groups"].split())})
    return Caller(uid, groups, 0 if user_ns else capabilities)


def _status(pid: int) -> dict[str, str]:
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as status:
            return dict(line.rstrip("\n").split(":\t", 1) for line in status if ":\t" in line)
    except OSError:
        return {}


def may(found: os.stat_result, who: Caller, bit: int) -> bool:
    """Whether the mode grants it, or a capability in its stead."""
    if who.has(DAC_OVERRIDE) and (bit != EXECUTE or _executable(found)):
        return True
    if bit == READ and who.has(DAC_READ_SEARCH):
        return True
    if bit == EXECUTE and stat.S_ISDIR(found.st_mode) and who.has(DAC_READ_SEARCH):
        return True
    if found.st_uid == who.uid:
        return bool(found.st_mode >> 6 & bit)
    if who.groups is None:  # the kernel said no, so where it hangs on the group, it was not in it
        return bool(found.st_mode >> 3 & found.st_mode & bit)
    if found.st_gid in who.groups:
        return bool(found.st_mode >> 3 & bit)
    return bool(found.st_mode & bit)


def _executable(found: os.stat_result) -> bool:
    """CAP_DAC_OVERRIDE does not make a program of a file that nobody may execute."""
    return stat.S_ISDIR(found.st_mode) or bool(found.st_mode & 0o111)


def first_unsearchable(path: str, who: Caller) -> tuple[str, os.stat_result] | None:
    """The first directory on the way that the caller may not pass; what is not there ends it."""
    folder = "/"
    for name in [part for part in os.path.dirname(path).split("/") if part]:
        folder = os.path.join(folder, name)
        try:
            found = os.stat(folder)
        except OSError:
            return None
        if not may(found, who, EXECUTE):
            return folder, found
    return None


def mode_text(found: os.stat_result) -> str:
    """Mode, owner and group: "0644 0:0"."""
    return f"{stat.S_IMODE(found.st_mode):04o} {found.st_uid}:{found.st_gid}"
