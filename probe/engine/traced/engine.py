"""The tracing engine: see Engine. It watches one command, by a process beside it that traces."""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import time
from collections.abc import Callable

from probe.coverage import SENSES, Coverage, Losses
from probe.engine.engine import NamespaceSeen, SpanNamed
from probe.engine.errors import EngineError
from probe.engine.traced import ptrace
from probe.engine.traced.tracer import HEAD, Tracer
from probe.events import Event, Exit
from probe.pidfd import pid_of

_READY_S, _LAST_S = 5.0, 2.0
_SENSES = {
    "seccomp": "partial: an errno of a filter looks like one of the kernel's own, "
    "and is taken for it where both are likely",
    "exec": "full",
    "fork": "full",
    "connect": "full",
    "dns": "full",
    "oom": "partial: by the counters of cgroups",
    "files": "partial: files that are not there are told of failed processes only",
}


class TracingEngine:
    """For `probe run` alone: nobody else's processes are stopped, and none that runs already."""

    name = "ptrace"

    def __init__(self, everyone: bool = False) -> None:
        if everyone:
            raise EngineError("ptrace watches one command and not everybody", "use another engine")
        obstacle = _obstacle()
        if obstacle:
            raise EngineError(f"ptrace: {obstacle}", "allow it, or give CAP_SYS_PTRACE")
        self.coverage = Coverage(self.name, dict(_SENSES))
        self._readable, self._writable = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._readable, False)
        self._data = b""
        self._root = self._span = self._tracer = 0
        self._over = self._ended = False

    def tell_namespaces(self, seen: NamespaceSeen) -> None:
        """They are seen by the events themselves."""

    def tell_named(self, seen: SpanNamed) -> None:
        """Spans begin with `mark` alone."""

    def fileno(self) -> int:
        return self._readable

    def mark(self, pidfd: int, span: int) -> None:
        """Returns when the process is traced."""
        if not span or self._tracer:
            return
        self._root, self._span = pid_of(pidfd), span
        self._tracer = os.fork()
        if self._tracer == 0:
            self._trace()
        os.close(self._writable)
        told = [one for one in self._await(bool, _READY_S) if isinstance(one, str)]
        if told != [""]:
            why = told[0] if told else "the tracer did not answer"
            self.coverage = Coverage(self.name, dict.fromkeys(SENSES, f"none: ptrace: {why}"))

    def _trace(self) -> None:
        """In the tracing process, which leaves the terminal's signals to the command."""
        try:
            os.setsid()
            ptrace.end_with_parent()
            with contextlib.suppress(BrokenPipeError):
                Tracer(self._root, self._span, self._writable).run()
        finally:
            os._exit(0)

    def span_of(self, pidfd: int) -> int:
        return self._span if pid_of(pidfd) == self._root else 0

    def read(self) -> list[Event]:
        return [event for event in self._received() if isinstance(event, Event)]

    def _received(self) -> list[Event | str]:
        with contextlib.suppress(BlockingIOError):
            while not self._over:
                piece = os.read(self._readable, 1 << 16)
                self._over = not piece
                self._data += piece
        found: list[Event | str] = []
        at = 0
        while len(self._data) - at >= HEAD.size:
            size = HEAD.unpack_from(self._data, at)[0]
            if len(self._data) - at < HEAD.size + size:
                break
            event = pickle.loads(self._data[at + HEAD.size : at + HEAD.size + size])
            self._ended |= isinstance(event, Exit) and event.pid == self._root
            found.append(event)
            at += HEAD.size + size
        self._data = self._data[at:]
        return found

    def flush(self, span: int) -> list[Event]:
        """The end of the command is told a moment after it."""

        told = self._await(lambda _: self._ended, _LAST_S)
        return [event for event in told if isinstance(event, Event)]

    def unfold(self, span: int) -> list[Event]:
        return self.read()

    def _await(
        self, complete: Callable[[list[Event | str]], bool], limit_s: float
    ) -> list[Event | str]:
        """What is told until that is complete, or the tracer has ended."""
        end, found = time.monotonic() + limit_s, self._received()
        poll = select.poll()
        poll.register(self._readable, select.POLLIN)
        while not complete(found) and not self._over and time.monotonic() < end:
            poll.poll(10)
            found += self._received()
        return found

    def losses(self, span: int) -> Losses:
        return Losses()

    def close(self) -> None:
        """What still runs goes on, and is traced no more."""
        if self._tracer:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._tracer, signal.SIGKILL)
            os.waitpid(self._tracer, 0)
        else:
            os.close(self._writable)
        os.close(self._readable)


def _obstacle() -> str:
    """Why a process beside us may not trace our child, tried with both; empty where it may."""
    waiting, go = os.pipe()
    answer, answering = os.pipe()

    def wait_for_it() -> None:
        ptrace.allow_tracing()
        os.write(answering, b"!")
        os.read(waiting, 1)

    child = _forked(wait_for_it)
    os.read(answer, 1)
    tracer = _forked(lambda: os.write(answering, _tried(child).encode() or b"\0"))
    told = os.read(answer, 256).decode().strip("\0")
    os.kill(child, signal.SIGKILL)
    for pid in (tracer, child):
        os.waitpid(pid, 0)
    for fd in (waiting, go, answer, answering):
        os.close(fd)
    return told


def _tried(pid: int) -> str:
    try:
        ptrace.seize(pid)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _forked(do: Callable[[], object]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            do()
        finally:
            os._exit(0)
    return pid
