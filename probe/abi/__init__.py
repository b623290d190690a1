"""The kernel's numbers and their names: syscalls, errnos, signals, address families.

Syscall tables are those of Linux 6.18: `<machine>.tbl`, a line "number<TAB>name" each.
"""

from __future__ import annotations

import errno as _errno
import functools
import os
import signal as _signal

AUDIT_ARCH = {"x86_64": 0xC000003E, "i386": 0x40000003, "aarch64": 0xC00000B7, "arm": 0x40000028}
COMPAT = {"x86_64": "i386", "aarch64": "arm"}

FAMILIES = {0: "unspec", 1: "unix", 2: "ipv4", 10: "ipv6", 16: "netlink", 17: "packet", 40: "vsock"}
SOCKET_TYPES = {1: "stream", 2: "datagram", 3: "raw", 5: "seqpacket"}


@functools.cache
def machine() -> str:
    """The machine of the running kernel, as uname(2) names it."""
    return os.uname().machine


@functools.cache
def _names(of: str) -> dict[int, str]:
    path = os.path.join(os.path.dirname(__file__), f"{of}.tbl")
    if not os.path.exists(path):
        return {}
    with open(path, encoding="ascii") as table:
        lines = (line.rstrip("\n").split("\t") for line in table)
        return {int(number): name for number, name in lines}


@functools.cache
def syscall_numbers(of: str) -> dict[str, int]:
    """Numbers by name for one machine."""
    return {name: number for number, name in _names(of).items()}


def syscall_name(number: int, of: str | None = None) -> str:
    """`syscall_466` where the number is newer than the table."""
    return _names(of or machine()).get(number, f"syscall_{number}")


def errno_name(number: int) -> str:
    """`EPERM` for 1; `E512` where libc has no name."""
    return _errno.errorcode.get(number, f"E{number}")


def errno_text(name: str) -> str:
    """What strerror(3) says: "Operation not permitted" for EPERM."""
    number = getattr(_errno, name, None)
    return os.strerror(number) if isinstance(number, int) else name


def signal_name(number: int) -> str:
    """`SIGKILL` for 9; `SIGRTMIN+3` style names are not used, but `SIG37`."""
    try:
        return _signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"
