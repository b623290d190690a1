"""Reads a file of outcomes in whichever format its content shows."""

from __future__ import annotations

import os
import stat
import sys
from typing import BinaryIO

from collector.outcomes import junit
from collector.outcomes.outcome import Outcome, worst_of_each
from probe.problem import Problem

STDIN = "-"
LIMIT = 256 << 20  # bytes
_PART = 1 << 20
_MEND = "name a file of test outcomes"


def read(path: str | os.PathLike[str]) -> list[Outcome]:
    """One outcome a test. Problem, naming the file, where it cannot be read or understood."""
    name = "standard input" if path == STDIN else os.fspath(path)
    try:
        content = _stdin() if path == STDIN else _file(name)
    except OSError as error:
        raise Problem(f"{name}: {error.strerror}", _MEND) from None
    if len(content) > LIMIT:
        raise Problem(f"{name}: more than {LIMIT >> 20} MiB", "import it in smaller files")
    if not content.strip():
        raise Problem(f"{name}: the file is empty", "the test run may have died before it wrote it")
    if not junit.recognises(content):
        raise Problem(f"{name}: not a known format of test outcomes", "give JUnit XML")
    try:
        return worst_of_each(junit.parse(content))
    except Problem as problem:
        raise Problem(f"{name}: {problem}") from None


def _file(name: str) -> bytes:
    mode = os.stat(name).st_mode
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):  # a device may have no end
        raise Problem(f"{name}: a device, not a file", _MEND)
    with open(name, "rb") as file:
        return _content(file)


def _stdin() -> bytes:
    if sys.stdin is None:
        raise Problem("standard input: closed", _MEND)
    return _content(sys.stdin.buffer)


def _content(file: BinaryIO) -> bytes:
    """All of it, or enough to show that it is above the limit."""
    parts, size = [], 0
    while size <= LIMIT and (part := file.read(_PART)):
        parts.append(part)
        size += len(part)
    return b"".join(parts)
