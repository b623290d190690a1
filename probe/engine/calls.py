"""Which syscalls the core engine listens to, and where their arguments are.

The numbers follow from the machine's syscall table, so the programs need no
knowledge of any architecture's numbering.
"""

from __future__ import annotations

import ctypes
import errno
from collections.abc import Iterable

from probe import abi

NO_ARG = 0xFF
OTHER, CONNECT, BIND, EXEC, EXECAT, FORK, FILE, PRIVILEGED = range(8)
(
    _SEND,
    _SEND_TO,
    _SEND_MESSAGE,
    _SEND_BATCH,
    _SEND_VECTOR,
    _RECEIVE,
    _RECEIVE_MESSAGE,
) = range(1, 8)


class Call(ctypes.Structure):
    """struct call of bpf/calls.h."""

    _fields_ = [
        ("sense", ctypes.c_uint8),
        ("path_arg", ctypes.c_uint8),
        ("dirfd_arg", ctypes.c_uint8),
        ("reported", ctypes.c_uint8),
        ("transfer", ctypes.c_uint8),
        ("change", ctypes.c_uint8),
        ("pad", ctypes.c_uint8 * 2),
    ]


_SENSES = {
    "connect": CONNECT,
    "bind": BIND,
    "execve": EXEC,
    "execveat": EXECAT,
    "fork": FORK,
    "vfork": FORK,
    "clone": FORK,
    "clone3": FORK,
}

_SYSCALLS = 512  # where the 32-bit table begins (bpf/calls.h)
_BEYOND = _SYSCALLS - 1  # stands for every number that is larger

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
    "mmap": (NO_ARG, 4),
    "mmap2": (NO_ARG, 4),
    "chmod": (0, NO_ARG),
    "fchmod": (NO_ARG, 0),
    "fchmodat": (1, 0),
    "fchmodat2": (1, 0),
    "chown": (0, NO_ARG),
    "lchown": (0, NO_ARG),
    "fchown": (NO_ARG, 0),
    "fchownat": (1, 0),
    "chdir": (0, NO_ARG),
    "access": (0, NO_ARG),
    "faccessat": (1, 0),
    "faccessat2": (1, 0),
}

# Of these only what was not found is kept, for the exit of a process that fails.
_LOOKUPS: dict[str, tuple[int, int]] = {
    "stat": (0, NO_ARG),
    "lstat": (0, NO_ARG),
    "newfstatat": (1, 0),
    "statx": (1, 0),
    "fstatat64": (1, 0),
}

_TRANSFERS = {
    "write": _SEND,
    "writev": _SEND_VECTOR,
    "sendto": _SEND_TO,
    "sendmsg": _SEND_MESSAGE,
    "sendmmsg": _SEND_BATCH,
    "read": _RECEIVE,
    "recvfrom": _RECEIVE,
    "recvmsg": _RECEIVE_MESSAGE,
}

_OPENS, _MAKES, _REMOVES, _RENAMES, _RENAMES_AT, _COPIES, _COPIES_BY = range(1, 8)
_CHANGES = {
    **dict.fromkeys(("open", "openat"), _OPENS),
    **dict.fromkeys(("creat", "mkdir", "mkdirat", "link", "linkat"), _MAKES),
    **dict.fromkeys(("symlink", "symlinkat"), _MAKES),
    **dict.fromkeys(("unlink", "unlinkat", "rmdir"), _REMOVES),
    "rename": _RENAMES,
    "renameat": _RENAMES_AT,
    "renameat2": _RENAMES_AT,
    **dict.fromkeys(("dup", "dup2", "dup3"), _COPIES),
    "fcntl": _COPIES_BY,
}
# What is heard of calls that succeed: the rest goes by unseen, which keeps it cheap.
_HEARD = {*_CHANGES, "connect", "brk", "write", "writev", "sendto", "sendmsg", "sendmmsg"}

# Calls that need a capability, with the position of a path that tells more. EPERM and
# EACCES of these are told; those of all others say nothing of a sandbox.
_PRIVILEGED: dict[str, int] = dict.fromkeys(
    (
        *("acct", "add_key", "adjtimex", "bpf", "capset", "clock_adjtime"),
        *("clock_settime", "delete_module", "finit_module", "fsmount", "fsopen", "fspick"),
        *("init_module", "ioperm", "iopl", "kcmp", "kexec_load", "keyctl", "kill", "mlock"),
        *("mlockall", "mount_setattr", "move_mount", "open_by_handle_at", "open_tree"),
        *("perf_event_open", "personality", "pidfd_getfd", "pidfd_send_signal"),
        *("process_madvise", "process_vm_readv", "process_vm_writev", "ptrace", "quotactl"),
        *("reboot", "request_key", "sched_setaffinity", "sched_setattr", "sched_setparam"),
        *("sched_setscheduler", "setdomainname", "setfsgid", "setfsuid", "setgid"),
        *("setgroups", "sethostname", "setns", "setpriority", "setregid", "setresgid"),
        *("setresuid", "setreuid", "setrlimit", "setsockopt", "settimeofday", "setuid"),
        *("socket", "syslog", "tgkill", "tkill", "unshare", "userfaultfd", "vhangup"),
        *("landlock_create_ruleset", "prlimit64", "io_uring_setup", "fanotify_init"),
    ),
    NO_ARG,
) | {"chroot": 0, "mount": 1, "pivot_root": 0, "swapoff": 0, "swapon": 0, "umount2": 0}

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
_CALL_ERRNOS = (errno.ENOSYS, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT)


def table(machine: str) -> dict[int, Call]:
    """The calls to listen to, by place in the map: the machine's own, then its 32-bit ones."""
    compat = _table(abi.COMPAT[machine])
    return _table(machine) | {_SYSCALLS + number: call for number, call in compat.items()}


def _table(machine: str) -> dict[int, Call]:
    numbers = abi.syscall_numbers(machine)
    return {_BEYOND: _call("")} | {number: _call(name) for name, number in numbers.items()}


def _call(name: str) -> Call:
    """Of the 32-bit calls those with wide arguments have a suffix: chown32, truncate64."""
    if name not in _TOLD:
        name = name.removesuffix("32").removesuffix("64")
    call = Call(OTHER, NO_ARG, NO_ARG, 1)
    if name in _SENSES:
        call.sense = _SENSES[name]
    elif name in _PRIVILEGED:
        call = Call(PRIVILEGED, _PRIVILEGED[name], NO_ARG, 1)
    elif name in _FILES:
        call = Call(FILE, *_FILES[name], 1)
    elif name in _LOOKUPS:
        call = Call(FILE, *_LOOKUPS[name], 0)
    call.transfer = _TRANSFERS.get(name, 0)
    call.change = _CHANGES.get(name, 0)
    return call


_TOLD = {*_SENSES, *_PRIVILEGED, *_FILES, *_LOOKUPS, *_TRANSFERS}


def successes(machine: str) -> tuple[int, ...]:
    """The calls whose success is heard, as the bit mask of struct settings."""
    numbers = abi.syscall_numbers(machine)
    return _mask((numbers[name] for name in _HEARD if name in numbers), 8)


Mask = tuple[int, ...]


def file_errnos() -> Mask:
    """The errnos of file calls that are reported, as the bit mask of struct settings."""
    return _mask(_FILE_ERRNOS, 3)


def call_errnos() -> Mask:
    """Those that are reported of the calls of no other sense."""
    return _mask(_CALL_ERRNOS, 3)


def _mask(numbers: Iterable[int], words: int) -> Mask:
    mask = sum(1 << number for number in numbers)
    return tuple(mask >> 64 * word & (1 << 64) - 1 for word in range(words))
