"""Arguments of syscalls in words: flags, families, paths."""

from __future__ import annotations

from collections.abc import Callable

from probe.abi import FAMILIES, SOCKET_TYPES

_NAMESPACES = {
    0x00000080: "CLONE_NEWTIME",
    0x00020000: "CLONE_NEWNS",
    0x02000000: "CLONE_NEWCGROUP",
    0x04000000: "CLONE_NEWUTS",
    0x08000000: "CLONE_NEWIPC",
    0x10000000: "CLONE_NEWUSER",
    0x20000000: "CLONE_NEWPID",
    0x40000000: "CLONE_NEWNET",
}
_CLONE = {
    0x00000100: "CLONE_VM",
    0x00004000: "CLONE_VFORK",
    0x00010000: "CLONE_THREAD",
    **{flag: name for flag, name in _NAMESPACES.items() if flag != 0x80},
}
_PROT = {1: "PROT_READ", 2: "PROT_WRITE", 4: "PROT_EXEC"}
_OPEN = {
    0o1: "O_WRONLY",
    0o2: "O_RDWR",
    0o100: "O_CREAT",
    0o200: "O_EXCL",
    0o1000: "O_TRUNC",
    0o2000: "O_APPEND",
    0o10000000: "O_PATH",
}
_ACCESS = {4: "R_OK", 2: "W_OK", 1: "X_OK"}
_MOUNT = {
    1: "MS_RDONLY",
    2: "MS_NOSUID",
    4: "MS_NODEV",
    8: "MS_NOEXEC",
    32: "MS_REMOUNT",
    4096: "MS_BIND",
    16384: "MS_REC",
    1 << 18: "MS_PRIVATE",
    1 << 19: "MS_SLAVE",
}
_PTRACE = {
    0: "PTRACE_TRACEME",
    16: "PTRACE_ATTACH",
    0x4206: "PTRACE_SEIZE",
    0x420C: "PTRACE_SECCOMP_GET_FILTER",
}
_PRCTL = {
    4: "PR_SET_DUMPABLE",
    8: "PR_SET_KEEPCAPS",
    15: "PR_SET_NAME",
    22: "PR_SET_SECCOMP",
    24: "PR_CAPBSET_DROP",
    28: "PR_SET_SECUREBITS",
    35: "PR_SET_MM",
    36: "PR_SET_CHILD_SUBREAPER",
    38: "PR_SET_NO_NEW_PRIVS",
    47: "PR_CAP_AMBIENT",
    0x53564D41: "PR_SET_VMA",
    0x59616D61: "PR_SET_PTRACER",
}
_PERSONALITY = {
    0x0008: "PER_LINUX32",
    0x0040000: "ADDR_NO_RANDOMIZE",
    0x0400000: "READ_IMPLIES_EXEC",
}
_IOCTL = {0x5401: "TCGETS", 0x5412: "TIOCSTI", 0x541C: "TIOCLINUX", 0x5413: "TIOCGWINSZ"}
_RESOURCES = {0: "RLIMIT_CPU", 1: "RLIMIT_FSIZE", 2: "RLIMIT_DATA", 3: "RLIMIT_STACK"}
_RESOURCES |= {4: "RLIMIT_CORE", 6: "RLIMIT_NPROC", 7: "RLIMIT_NOFILE", 8: "RLIMIT_MEMLOCK"}
_RESOURCES |= {9: "RLIMIT_AS", 14: "RLIMIT_RTPRIO"}
_BPF = {0: "BPF_MAP_CREATE", 5: "BPF_PROG_LOAD", 18: "BPF_BTF_LOAD"}
_SECCOMP = {0: "SECCOMP_SET_MODE_STRICT", 1: "SECCOMP_SET_MODE_FILTER"}
_KEYCTL = {0: "KEYCTL_GET_KEYRING_ID", 1: "KEYCTL_JOIN_SESSION_KEYRING", 11: "KEYCTL_READ"}

Args = tuple[int, ...]


def flags(value: int, names: dict[int, str]) -> str:
    """`A|B`, with what has no name in hexadecimal."""
    known = [name for flag, name in names.items() if value & flag == flag]
    rest = value & ~sum(flag for flag in names if value & flag == flag)
    return "|".join([*known, *([hex(rest)] if rest else [])]) or "0"


def _socket(args: Args) -> str:
    family = FAMILIES.get(args[0], str(args[0]))
    kind = SOCKET_TYPES.get(args[1] & 0xF, str(args[1] & 0xF))
    return f"family {family}, type {kind}, protocol {args[2]}"


def _one_of(index: int, names: dict[int, str], what: str) -> Callable[[Args], str]:
    """An argument that has a name, or what it is and its number."""

    def words(args: Args) -> str:
        value = args[index] & 0xFFFFFFFF
        return names.get(value, f"{what} {value:#x}")

    return words


def _flags(index: int, names: dict[int, str]) -> Callable[[Args], str]:
    return lambda args: f"flags {flags(args[index], names)}"


_request = _one_of(0, _PTRACE, "request")
_WORDS: dict[str, Callable[[Args], str]] = {
    "socket": _socket,
    "socketpair": _socket,
    "clone": lambda args: f"flags {flags(args[0] & ~0xFF, _CLONE)}",
    "unshare": _flags(0, _NAMESPACES),
    "setns": lambda args: f"type {flags(args[1], _NAMESPACES)}",
    "mmap": lambda args: f"{args[1]} bytes, {flags(args[2], _PROT)}",
    "mprotect": lambda args: f"{args[1]} bytes, {flags(args[2], _PROT)}",
    "brk": lambda args: f"up to {args[0]:#x}",
    "ptrace": lambda args: f"{_request(args)}, pid {args[1]}",
    "prctl": _one_of(0, _PRCTL, "option"),
    "ioctl": _one_of(1, _IOCTL, "request"),
    "bpf": _one_of(0, _BPF, "command"),
    "seccomp": _one_of(0, _SECCOMP, "operation"),
    "keyctl": _one_of(0, _KEYCTL, "operation"),
    "setrlimit": _one_of(0, _RESOURCES, "resource"),
    "prlimit64": _one_of(1, _RESOURCES, "resource"),
    "kill": lambda args: f"pid {_signed(args[0])}, signal {args[1]}",
    "tgkill": lambda args: f"thread {args[1]}, signal {args[2]}",
    "personality": lambda args: flags(args[0] & 0xFFFFFFFF, _PERSONALITY),
    "open": _flags(1, _OPEN),
    "openat": _flags(2, _OPEN),
    "mount": _flags(3, _MOUNT),
    "access": lambda args: f"mode {flags(args[1], _ACCESS)}",
    "faccessat": lambda args: f"mode {flags(args[2], _ACCESS)}",
    "faccessat2": lambda args: f"mode {flags(args[2], _ACCESS)}",
}


def _signed(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def describe(syscall: str, args: Args) -> str | None:
    """What is worth saying of the arguments, paths aside; None where nothing is."""
    words = _WORDS.get(syscall)
    return words(args) if words else None
