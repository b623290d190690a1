"""Working something out in a child, so that what ends or holds up the child ends nobody else.

A seccomp filter may kill at any call, and a file system may keep whoever asks waiting.
"""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable
from typing import TypeVar

from probe import abi
from probe.doctor.section import deadly, reason

Value = TypeVar("Value")
_PATIENCE_S = 20


class LostError(RuntimeError):
    """The child did not come back with anything; the message says why."""


def apart(find: Callable[[], Value]) -> Value:
    """What `find` returns. LostError where it fails, is killed, or takes too long.

    Where no child can be had, this process does it. No other thread may run.
    """
    reading, writing = os.pipe()
    limited = not deadly("setitimer")
    try:
        child = os.fork()
    except OSError:
        os.close(reading)
        os.close(writing)
        return find()
    if child == 0:
        try:
            if limited:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.setitimer(signal.ITIMER_REAL, _PATIENCE_S)
            with open(writing, "wb") as pipe:
                pickle.dump(_outcome(find), pipe)
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        data = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status < 0:
        how = f"by {abi.signal_name(-status)}"
        if -status == signal.SIGALRM:
            how = f"after {_PATIENCE_S} s"
        raise LostError(f"whoever looks is ended {how}")
    value, failure = pickle.loads(data)
    if failure is not None:
        raise LostError(failure)
    found: Value = value
    return found


def _outcome(find: Callable[[], Value]) -> tuple[Value | None, str | None]:
    try:
        return find(), None
    except Exception as error:
        return None, f"looking failed: {reason(error)}"
