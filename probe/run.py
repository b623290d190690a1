"""`probe run`: a command under watch, as transparent as time(1) or env(1).

The command shares our process group, so the terminal reaches both with ^C and ^Z
and job control stays the shell's. What is sent to us alone is handed on.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

from probe.pidfd import handle

TYPE_CHECKING = False  # not from typing, which takes two milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn

FORWARDED = frozenset(
    {
        signal.SIGHUP,
        signal.SIGINT,
        signal.SIGQUIT,
        signal.SIGTERM,
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGALRM,
        signal.SIGCONT,
        signal.SIGWINCH,
    }
)
_FROM_TERMINAL = frozenset({signal.SIGINT, signal.SIGQUIT, signal.SIGWINCH})
_SI_USER = 0
NOT_FOUND, NOT_EXECUTABLE = 127, 126


class Child:
    """The command: forked at once, but started only when it is released."""

    def __init__(self, command: Sequence[str], prepare: Callable[[], None] | None = None) -> None:
        """`prepare` is called in the child, before anything else."""
        self.command = list(command)
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED | {signal.SIGCHLD})
        ignored_children = signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        gate, self._gate = os.pipe()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # it may have been closed before we began
                stream.flush()
        self.started_ns = time.time_ns()
        try:
            self.pid = os.fork()
        except OSError:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
            raise
        if self.pid == 0:
            os.close(self._gate)
            if prepare is not None:
                prepare()
            self._become(gate, ignored_children)
        os.close(gate)
        self.pidfd = handle(self.pid)

    def _become(self, gate: int, ignored_children: bool) -> None:
        """In the child: waits for the release, then is the command."""
        status = NOT_EXECUTABLE
        try:
            if not os.read(gate, 1):
                os._exit(status)  # whoever was to release us is gone
            if ignored_children:
                signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            # What Python ignores for itself (signal(7) survives execve).
            for number in (signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
            os.execvp(self.command[0], self.command)
        except (OSError, ValueError) as error:
            if isinstance(error, (FileNotFoundError, NotADirectoryError, ValueError)):
                status = NOT_FOUND
            name = self.command[0].encode("unicode_escape").decode()
            why = getattr(error, "strerror", None) or "No such file or directory"
            os.write(2, f"probe: {name or repr(name)}: {why}\n".encode())
        finally:
            os._exit(status)

    def release(self) -> None:
        os.write(self._gate, b"x")
        os.close(self._gate)

    def wait(self) -> int:
        """Hands signals on until the command ends; its wait status."""
        while True:
            received = signal.sigwaitinfo(FORWARDED | {signal.SIGCHLD})
            number = signal.Signals(received.si_signo)
            if number != signal.SIGCHLD:
                self._forward(number, received.si_code)
                continue
            pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
            if pid == 0:
                self._bury_orphans()
                continue
            if os.WIFSTOPPED(status):
                _stop_along()
                continue
            return status

    def _bury_orphans(self) -> None:
        """The first process of a container has them for children; else they fill its pids limit."""
        look = os.WEXITED | os.WNOHANG | os.WNOWAIT
        while (ended := os.waitid(os.P_ALL, 0, look)) and ended.si_pid != self.pid:
            os.waitpid(ended.si_pid, 0)

    def _forward(self, number: signal.Signals, code: int) -> None:
        if number in _FROM_TERMINAL and code != _SI_USER:
            return  # the terminal has told the whole group
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)  # nobody else has its number until it is waited for


def become(command: Sequence[str]) -> NoReturn:
    """This process becomes the command itself, as env(1) would."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(command[0], list(command))
    except (OSError, ValueError) as error:
        os.write(2, f"probe: {command[0]!r}: {error}\n".encode())
        os._exit(NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE)


def _stop_along() -> None:
    """A stopped job must look stopped to the shell, if a shell is there to see it."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if os.tcgetpgrp(terminal) == os.getpgrp():
            os.kill(os.getpid(), signal.SIGSTOP)
    finally:
        os.close(terminal)


def exit_status(status: int) -> int:
    """What a shell would say of a wait status: the exit code, or 128+N after signal N."""
    if os.WIFSIGNALED(status):
        return 128 + os.WTERMSIG(status)
    return os.WEXITSTATUS(status)
