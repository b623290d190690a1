"""Finds out what seccomp filters answer by asking them, where their programs cannot be had.

A child lays a filter of its own on top, which hands each call under trial to a
supervisor (SECCOMP_RET_USER_NOTIF, seccomp_unotify(2)): a thread of that same child,
which answers in the kernel's stead. Of all filters the strictest answer counts
(seccomp(2)), so a refusal of the sandbox's shows as it is, and a call that it allows
comes to the supervisor and is never carried out. So any call can be tried, with any
arguments, and the answer is the filter's own, not that of the kernel behind it.

Needs no privilege. A rule that hands calls to a tracer is weaker than ours, and looks
like one that allows them; so does one that logs.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import select
import signal
import struct
import threading
from collections.abc import Sequence

from probe import abi
from probe.doctor.layer import NEW_LISTENER, lay
from probe.engine.filters import Instruction

Question = tuple[int, tuple[int, ...]]  # the call's number and arguments
ALLOWED, KILLED, TRAPPED = 1 << 20, 1 << 21, 1 << 22  # else the errno that was answered

_UNASKED, _UNDER_TRIAL = 1 << 24, 1 << 25
_ANSWER = 0x5EC0  # what the supervisor lets the call return
_KILLED_THREAD, _REFUSED, _UNFIT = 10, 11, 12  # exit statuses of the child
_PATIENCE_S = 30
_CONTROL = "close"  # a call that this process has made, so that it must be allowed

_PR_SET_DUMPABLE = 4  # prctl(2)
_ALLOW, _USER_NOTIF = 0x7FFF0000, 0x7FC00000
_RECEIVE, _SEND = 0xC0502100, 0xC0182101  # SECCOMP_IOCTL_NOTIF_RECV, _SEND
_NOTIFICATION_SIZE = 80  # struct seccomp_notif
_FUNCTION_SIZE = 128  # more than syscall(3) takes in any libc
_libc = ctypes.CDLL(None, use_errno=True)


class TrialError(RuntimeError):
    """Nothing can be tried here; the message says why."""


def answers(questions: Sequence[Question]) -> list[int]:
    """What the filters in force answer to each: ALLOWED, KILLED, TRAPPED, or an errno.

    TrialError where no filter can be laid on top. To be called while no other
    threads run, since children are made by fork alone.
    """
    try:
        return _answers(questions)
    except OSError as error:
        raise TrialError(f"nothing can be tried: {error.strerror}") from error


def _answers(questions: Sequence[Question]) -> list[int]:
    control = abi.syscall_numbers(abi.machine())[_CONTROL]
    asked = [(control, (0xFFFFFFFF,)), *questions]
    shared = mmap.mmap(-1, 4 * len(asked))
    results = (ctypes.c_uint32 * len(asked)).from_buffer(shared)
    results[:] = [_UNASKED] * len(asked)
    first = 0
    while first < len(asked):
        status = _child(asked, first, results)
        if status == 0:
            break
        at = next((i for i in range(first, len(asked)) if results[i] == _UNDER_TRIAL), None)
        if at is None or at == 0 or status not in (-signal.SIGSYS, _KILLED_THREAD):
            raise TrialError(_obstacle(status, results[0]))
        results[at] = KILLED
        first = at + 1
    if results[0] != ALLOWED:
        raise TrialError("the filter does not let a supervisor answer")
    return list(results)[1:]


def _obstacle(status: int, noted: int) -> str:
    if status == _REFUSED:
        if abi.errno_name(noted) == "EBUSY":
            return "a supervisor listens to this filter already, and would carry calls out"
        return f"seccomp(2) is answered {abi.errno_name(noted)}, so no filter can be laid on top"
    if status < 0:
        return f"the trial was ended by {abi.signal_name(-status)}"
    return "the filter does not let a supervisor answer"


def _child(asked: Sequence[Question], first: int, results: ctypes.Array[ctypes.c_uint32]) -> int:
    """Tries from `first` on in a child; its exit status, negative for a signal."""
    child = os.fork()
    if child == 0:
        try:
            _try_all(asked, first, results)
        finally:
            os._exit(_UNFIT)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _try_all(asked: Sequence[Question], first: int, results: ctypes.Array[ctypes.c_uint32]) -> None:
    trapped: list[int] = []
    signal.signal(signal.SIGSYS, lambda number, frame: trapped.append(number))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, _PATIENCE_S)
    _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)  # a kill would leave a core
    listening = threading.Event()
    listener: list[int] = []
    threading.Thread(target=_supervise, args=(listening, listener), daemon=True).start()
    address = ctypes.cast(_libc.syscall, ctypes.c_void_p).value or 0
    fd = lay(_interceptor(address), NEW_LISTENER)
    if fd < 0:
        results[0] = ctypes.get_errno()
        os._exit(_REFUSED)
    listener.append(fd)
    listening.set()
    syscall = _libc.syscall
    for at in range(first, len(asked)):
        number, arguments = asked[at]
        results[at] = _UNDER_TRIAL
        value = syscall(number, *(ctypes.c_ulong(argument) for argument in arguments))
        results[at] = _told(value, trapped)
        trapped.clear()
    os._exit(0)


def _told(value: int, trapped: list[int]) -> int:
    if trapped:
        return TRAPPED
    if value == _ANSWER:
        return ALLOWED
    return ctypes.get_errno() if value == -1 else 0


def _interceptor(function: int) -> list[Instruction]:
    """A filter that intercepts what is called from within `function`, and nothing else.

    Only the trial calls through libc's syscall(3), so all else that this thread
    needs goes on undisturbed, and all six arguments are free.
    """
    low, high = function & 0xFFFFFFFF, function >> 32
    load, equal, at_least, give = 0x20, 0x15, 0x35, 0x06
    instruction_pointer = 8  # its offset in struct seccomp_data
    return [
        (load, 0, 0, instruction_pointer + 4),
        (equal, 0, 4, high),
        (load, 0, 0, instruction_pointer),
        (at_least, 0, 2, low),
        (at_least, 1, 0, low + _FUNCTION_SIZE),
        (give, 0, 0, _USER_NOTIF),
        (give, 0, 0, _ALLOW),
    ]


def _supervise(listening: threading.Event, listener: list[int]) -> None:
    """Answers each call that comes through, until the thread that makes them is gone."""
    listening.wait()
    fd = listener[0]
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    try:
        while True:
            if not any(happened & select.POLLIN for _, happened in poll.poll()):
                os._exit(_KILLED_THREAD)  # POLLHUP: no task has the filter any more
            notification = bytearray(_NOTIFICATION_SIZE)
            fcntl.ioctl(fd, _RECEIVE, notification)
            # struct seccomp_notif_resp: id, value, error, flags
            fcntl.ioctl(fd, _SEND, struct.pack("=8sqiI", notification[:8], _ANSWER, 0, 0))
    except OSError:
        os._exit(_UNFIT)
