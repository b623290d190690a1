"""ptrace(2), as far as a tracer of syscalls needs it."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import struct
from dataclasses import dataclass

FORK, VFORK, CLONE, EXEC, EXIT, STOP = 1, 2, 3, 4, 6, 128  # PTRACE_EVENT_…
SYSCALL_STOP = 0x80 | 5
_OPTIONS = 1 | 1 << FORK | 1 << VFORK | 1 << CLONE | 1 << EXEC | 1 << EXIT
_SEIZE, _INTERRUPT, _LISTEN, _SYSCALL, _DETACH = 0x4206, 0x4207, 0x4208, 24, 17
_GET_INFO, _GET_REGISTERS, _GET_MESSAGE, _GET_SIGNAL = 0x420E, 12, 0x4201, 0x4202
_PR_SET_PDEATHSIG = 1
_PR_SET_PTRACER, _PR_SET_PTRACER_ANY = 0x59616D61, (1 << 64) - 1
_INFO_SIZE = 88
_ENTRY, _LEAVE = 1, 2
_PAGE = os.sysconf("SC_PAGE_SIZE")
_REGISTERS = 27  # struct user_regs_struct of x86-64, which all fallbacks are for
_ARGUMENTS, _RESULT, _NUMBER = (14, 13, 12, 7, 9, 8), 10, 15

_libc = ctypes.CDLL(None, use_errno=True)
_ptrace = _libc.ptrace
_ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_ptrace.restype = ctypes.c_long


# The system call itself: the library's wrapper takes a word of -1 for an error.
_PTRACE, _PEEK = {"x86_64": 101, "aarch64": 117}.get(os.uname().machine, 101), 2
_PEEKED_MAX = 512
_raw_ptrace = _libc.syscall
_raw_ptrace.argtypes = [ctypes.c_long] * 3 + [ctypes.c_void_p] * 2
_raw_ptrace.restype = ctypes.c_long


class _Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]


def _call(request: int, tid: int, address: int, data: int) -> int:
    result: int = _ptrace(request, tid, address, data)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def allow_tracing() -> None:
    """By anybody of our user, also where only those above may trace (Yama's ptrace_scope 1)."""
    _libc.prctl(_PR_SET_PTRACER, ctypes.c_ulong(_PR_SET_PTRACER_ANY), 0, 0, 0)


def end_with_parent() -> None:
    """Whoever is traced by this process goes on untraced then."""
    _libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)


def seize(pid: int) -> None:
    """From now on it stops at syscalls, and so does what it creates. OSError."""
    _call(_SEIZE, pid, 0, _OPTIONS)
    _call(_INTERRUPT, pid, 0, 0)


def resume(tid: int, number: int = 0) -> None:
    """Until the next stop. OSError where it was killed meanwhile."""
    _call(_SYSCALL, tid, 0, number)


def release(tid: int, number: int) -> None:
    """It goes on untraced, with a signal."""
    _call(_DETACH, tid, 0, number)


def stay(tid: int) -> None:
    """In its group's stop, until that ends."""
    _call(_LISTEN, tid, 0, 0)


def message(tid: int) -> int:
    """Of an event: the number of who was created, or the wait status of who ends."""
    number = ctypes.c_ulong()
    _call(_GET_MESSAGE, tid, 0, ctypes.addressof(number))
    return number.value


def signal_information(tid: int) -> bytes:
    """The siginfo_t of the signal that it stands before."""
    buffer = ctypes.create_string_buffer(128)
    _call(_GET_SIGNAL, tid, 0, ctypes.addressof(buffer))
    return buffer.raw


@dataclass(frozen=True, slots=True)
class Entry:
    number: int
    arguments: tuple[int, ...]


class Stops:
    """What a stop at a syscall is about: an Entry, or the result of the last one."""

    def __init__(self, machine: str) -> None:
        self._buffer = ctypes.create_string_buffer(_REGISTERS * 8)
        self._address = ctypes.addressof(self._buffer)
        self._told = True  # PTRACE_GET_SYSCALL_INFO: Linux 5.3, not gVisor
        self._machine = machine
        self._inside: set[int] = set()  # those in a call, where the kernel does not say

    def at(self, tid: int) -> Entry | int | None:
        """None for what is neither. OSError where it was killed meanwhile."""
        if self._told:
            try:
                _call(_GET_INFO, tid, _INFO_SIZE, self._address)
            except ProcessLookupError:
                raise
            except OSError:
                if self._machine != "x86_64":
                    raise
                self._told = False
            else:
                return self._from_info()
        return self._from_registers(tid)

    def _from_info(self) -> Entry | int | None:
        operation = self._buffer.raw[0]
        if operation == _ENTRY:
            number, *arguments = struct.unpack_from("=7Q", self._buffer, 24)
            return Entry(number & 0xFFFFFFFF, tuple(arguments))
        if operation == _LEAVE:
            result: int = struct.unpack_from("=q", self._buffer, 24)[0]
            return result
        return None

    def _from_registers(self, tid: int) -> Entry | int | None:
        _call(_GET_REGISTERS, tid, 0, self._address)
        registers = struct.unpack_from(f"={_REGISTERS}Q", self._buffer)
        if tid in self._inside:
            self._inside.discard(tid)
            value = registers[_RESULT]
            return int(value - (1 << 64) if value >> 63 else value)
        self._inside.add(tid)
        return Entry(registers[_NUMBER], tuple(registers[at] for at in _ARGUMENTS))

    def forget(self, tid: int) -> None:
        self._inside.discard(tid)


def read(pid: int, address: int, size: int) -> bytes:
    """So much of a process's memory, or what can be read of it."""
    if size <= 0 or not address:
        return b""
    buffer = ctypes.create_string_buffer(size)
    ours, theirs = _Vector(ctypes.addressof(buffer), size), _Vector(address, size)
    got = _libc.process_vm_readv(
        pid, ctypes.byref(ours), ctypes.c_ulong(1), ctypes.byref(theirs), ctypes.c_ulong(1), 0
    )
    if got < 0 and ctypes.get_errno() in (errno.ENOSYS, errno.EPERM):
        return _peek(pid, address, min(size, _PEEKED_MAX))  # gVisor, or a seccomp filter
    return buffer.raw[: max(0, got)]


def _peek(pid: int, address: int, size: int) -> bytes:
    """Word by word, of a process that stands still."""
    found = b""
    word = ctypes.c_ulong()
    while len(found) < size:
        if _raw_ptrace(_PTRACE, _PEEK, pid, address + len(found), ctypes.addressof(word)) < 0:
            break
        found += word.value.to_bytes(8, "little")
    return found[:size]


def read_string(pid: int, address: int, most: int = 4096) -> bytes:
    """Up to its NUL, page by page, as the next one may not be there."""
    found = b""
    while address and len(found) < most:
        size = min(most - len(found), 256, _PAGE - address % _PAGE)
        piece = read(pid, address, size)
        text, ended, _ = piece.partition(b"\0")
        found += text
        if ended or len(piece) < size:
            break
        address += size
    return found


def read_strings(pid: int, address: int, count: int = 32) -> list[bytes]:
    """Of a vector of pointers that a null ends."""
    raw = read(pid, address, 8 * count)
    found = []
    for at in range(0, len(raw) - 7, 8):
        pointer = int.from_bytes(raw[at : at + 8], "little")
        if not pointer:
            break
        found.append(read_string(pid, pointer, 1024))
    return found
