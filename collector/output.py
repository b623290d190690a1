"""What commands print: results on stdout, which arrive or end the command, and notes on stderr."""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path

from probe.problem import Problem
from probe.terminal import Terminal, escape

_NAME_KEPT = 100  # characters: the whole name has to fit into 255 bytes


def settle() -> None:
    """Makes sure that descriptors 0 to 2 are open, so that no database becomes one of them."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest that is free
    if sys.stderr is None:  # it was closed before we began
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115


class Output(Terminal):
    """stdout. Problem where it cannot be written; BrokenPipeError where nobody reads any more."""

    def __init__(self) -> None:
        if sys.stdout is None:
            raise Problem("stdout is closed", "send it to /dev/null where nobody wants it")
        if isinstance(sys.stdout, io.TextIOWrapper):  # a locale may lack our arrows and dots
            sys.stdout.reconfigure(errors="backslashreplace")
        super().__init__(sys.stdout)

    def line(self, *parts: str) -> None:
        self.write("".join(parts) + "\n")

    def write(self, text: str) -> None:
        with _complaining():
            sys.stdout.write(text)


def flush() -> None:
    """Everything printed is out when it returns. Raises what Output does."""
    with contextlib.suppress(ValueError):  # closed meanwhile
        _flush_notes()
        if sys.stdout is not None:
            with _complaining():
                sys.stdout.flush()


def note(text: str, *styles: str) -> None:
    """One line on stderr, if that takes it."""
    terminal = Terminal(sys.stderr)
    with contextlib.suppress(OSError):
        terminal.line(terminal.style(text, *styles))
    _flush_notes()


def write_file(path: Path, text: str) -> None:
    """The whole file or nothing of it: what was there stays until all is written. Or Problem.

    Through what is no plain file (a pipe, /dev/stdout) it is written as it comes.
    """
    try:
        data = text.encode("utf-8", "backslashreplace")
        target = Path(os.path.realpath(path))
        if target.exists() and not target.is_file():
            target.write_bytes(data)
            return
        beside = target.with_name(f".{target.name[:_NAME_KEPT]}.{secrets.token_hex(4)}")
        try:
            with beside.open("xb") as file:
                file.write(data)
            os.replace(beside, target)
        finally:
            beside.unlink(missing_ok=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise Problem(f"{escape(str(path))}: {reason}", "name a file to write to") from None


def abandon(descriptor: int) -> None:
    """What is still buffered goes nowhere: the interpreter would fail on it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def _flush_notes() -> None:
    try:
        sys.stderr.flush()
    except OSError:
        abandon(2)


@contextlib.contextmanager
def _complaining() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        abandon(1)
        raise
    except OSError as error:
        abandon(1)
        raise Problem(f"cannot write to stdout: {error.strerror}", "send it elsewhere") from error
