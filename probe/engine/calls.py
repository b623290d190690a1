"""Which syscalls the core engine listens to, and where their arguments are.

The numbers follow from the machine's syscall table, so the programs need no
knowledge of any architecture's numbering.
"""

from __future__ import annotations

import ctypes
import errno

from probe import abi

NO_ARG = 0xFF
CONNECT, EXEC, EXECAT, FORK, FILE = 1, 2, 3, 4, 5


class Call(ctypes.Structure):
    """struct call of bpf/files.h."""

    _fields_ = [
        ("sense", ctypes.c_uint8),
        ("path_arg", ctypes.c_uint8),
        ("dirfd_arg", ctypes.c_uint8),
        ("reported", ctypes.c_uint8),
    ]


_SENSES = {
    "connect": CONNECT,
    "execve": EXEC,
    "execveat": EXECAT,
    "fork": FORK,
    "vfork": FORK,
    "clone": FORK,
    "clone3": FORK,
}

# Name: position of the path, of the directory (or the file itself).
_FILES: dict[str, tuple[int, int]] = {
    "open": (0, NO_ARG),
    "creat": (0, NO_ARG),
    "openat": (1, 0),
    "openat2": (1, 0),
    "mkdir": (0, NO_ARG),
    "mkdirat": (1, 0),
    "mknod": (0, NO_ARG),
    "mknodat": (1, 0),
    "rmdir": (0, NO_ARG),
    "unlink": (0, NO_ARG),
    "unlinkat": (1, 0),
    "rename": (1, NO_ARG),
    "renameat": (3, 2),
    "renameat2": (3, 2),
    "link": (1, NO_ARG),
    "linkat": (3, 2),
    "symlink": (1, NO_ARG),
    "symlinkat": (2, 1),
    "truncate": (0, NO_ARG),
    "ftruncate": (NO_ARG, 0),
    "fallocate": (NO_ARG, 0),
    "write": (NO_ARG, 0),
    "pwrite64": (NO_ARG, 0),
    "writev": (NO_ARG, 0),
    "fsync": (NO_ARG, 0),
    "chmod": (0, NO_ARG),
    "fchmod": (NO_ARG, 0),
    "fchmodat": (1, 0),
    "fchmodat2": (1, 0),
    "chown": (0, NO_ARG),
    "lchown": (0, NO_ARG),
    "fchown": (NO_ARG, 0),
    "fchownat": (1, 0),
    "chdir": (0, NO_ARG),
}

# Of these only what was not found is kept, for the exit of a process that fails.
_LOOKUPS: dict[str, tuple[int, int]] = {
    "stat": (0, NO_ARG),
    "lstat": (0, NO_ARG),
    "newfstatat": (1, 0),
    "statx": (1, 0),
    "access": (0, NO_ARG),
    "faccessat": (1, 0),
    "faccessat2": (1, 0),
}

# ENOENT is not among them: programs probe for files all the time.
_FILE_ERRNOS = (
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EMFILE,
    errno.ENFILE,
    errno.EFBIG,
)


def table(machine: str) -> dict[int, Call]:
    """The calls to listen to, by number."""
    numbers = abi.syscall_numbers(machine)
    calls = {
        numbers[name]: Call(sense, NO_ARG, NO_ARG, 1)
        for name, sense in _SENSES.items()
        if name in numbers
    }
    for group, reported in ((_FILES, 1), (_LOOKUPS, 0)):
        for name, (path, directory) in group.items():
            if name in numbers:
                calls[numbers[name]] = Call(FILE, path, directory, reported)
    return calls


def file_errnos() -> tuple[int, int, int]:
    """The errnos of file calls that are reported, as the bit mask of struct settings."""
    mask = sum(1 << number for number in _FILE_ERRNOS)
    word = (1 << 64) - 1
    return mask & word, mask >> 64 & word, mask >> 128 & word
