"""Reads a file of outcomes in whichever format its content shows."""

from __future__ import annotations

import os
import stat
import sys
from typing import Any, BinaryIO

from collector.outcomes import ctrf, document, inspect_log, json_lines, junit, swebench, tap
from collector.outcomes.outcome import Outcome, storable, worst_of_each
from probe.problem import Problem
from probe.terminal import shorten

STDIN = "-"
LIMIT = 256 << 20  # bytes
_PART = 1 << 20
_WORDS = 300  # characters of a complaint
_MEND = "name a file of test outcomes"
FORMATS = "JUnit XML, CTRF, a log of Inspect, a SWE-bench report, TAP or JSON Lines"


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
    try:
        return parse(content)
    except Problem as problem:
        raise Problem(f"{name}: {problem}") from None


def parse(content: bytes) -> list[Outcome]:
    """One outcome a test, whatever the format: the content tells, never a file's name."""
    try:
        return worst_of_each([storable(outcome) for outcome in _parse(content)])
    except Problem as problem:  # it may quote the file
        raise Problem(shorten(str(problem), _WORDS)) from None
    except RecursionError:
        raise Problem("nested too deeply", "test reports need no such depth") from None


def _parse(content: bytes) -> list[Outcome]:
    if inspect_log.is_archive(content):
        return inspect_log.parse_archive(content)
    for form in (junit, json_lines):
        if form.recognises(content):
            outcomes: list[Outcome] = form.parse(content)
            return outcomes
    if document.recognises(content):
        return _document(document.load(content))
    if tap.recognises(content):
        return tap.parse(content)
    raise Problem("not a known format of test outcomes", f"give {FORMATS}")


def _document(value: Any) -> list[Outcome]:
    for form in (ctrf, inspect_log, swebench):
        if form.recognises(value):
            outcomes: list[Outcome] = form.parse(value)
            return outcomes
    raise Problem("JSON, but not of a known form", f"give {FORMATS}")


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
