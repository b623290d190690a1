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
_SOCKET_FLAGS = {0o2000000: "SOCK_CLOEXEC", 0o4000: "SOCK_NONBLOCK"}
_PROT = {1: "PROT_READ", 2: "PROT_WRITE", 4: "PROT_EXEC"}
_PTRACE = {0: "PTRACE_TRACEME", 16: "PTRACE_ATTACH", 0x4206: "PTRACE_SEIZE"}

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


def _ptrace(args: Args) -> str:
    return f"{_PTRACE.get(args[0], f'request {args[0]}')}, pid {args[1]}"


_WORDS: dict[str, Callable[[Args], str]] = {
    "socket": _socket,
    "socketpair": _socket,
    "clone": lambda args: f"flags {flags(args[0] & ~0xFF, _CLONE)}",
    "unshare": lambda args: f"flags {flags(args[0], _NAMESPACES)}",
    "setns": lambda args: f"type {flags(args[1], _NAMESPACES)}",
    "mmap": lambda args: f"{args[1]} bytes, {flags(args[2], _PROT)}",
    "mprotect": lambda args: f"{args[1]} bytes, {flags(args[2], _PROT)}",
    "ptrace": _ptrace,
    "prctl": lambda args: f"option {args[0]}",
    "kill": lambda args: f"pid {_signed(args[0])}, signal {args[1]}",
    "personality": lambda args: hex(args[0]),
}


def _signed(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def describe(syscall: str, args: Args, path: str) -> str:
    """What is worth saying of the arguments; empty where nothing is."""
    if path:
        return path
    words = _WORDS.get(syscall)
    return words(args) if words else ""
