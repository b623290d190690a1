"""A seccomp filter of our own, laid on top of those in force."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterable

from probe import abi
from probe.engine.filters import Instruction

NEW_LISTENER = 1 << 3  # SECCOMP_FILTER_FLAG_NEW_LISTENER, seccomp(2)
_SET_MODE_FILTER = 1
_PR_SET_NO_NEW_PRIVS = 38
_libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


def lay(instructions: Iterable[Instruction], flags: int = 0) -> int:
    """Puts a filter on this thread, for good. The result of seccomp(2): -1 with errno in ctypes."""
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    code = [struct.pack("=HBBI", *instruction) for instruction in instructions]
    program = _Program(len(code), b"".join(code))
    number = abi.syscall_numbers(abi.machine())["seccomp"]
    return int(_libc.syscall(number, _SET_MODE_FILTER, flags, ctypes.byref(program)))
