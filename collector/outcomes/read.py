"""Reads a file of outcomes in whichever format its content shows."""

from __future__ import annotations

from pathlib import Path

from collector.outcomes import junit
from collector.outcomes.outcome import Outcome, worst_of_each
from probe.problem import Problem


def read(path: Path) -> list[Outcome]:
    """One outcome a test. Problem, naming the file, where it cannot be read or understood."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise Problem(f"{path}: {error.strerror}", "name a file of test outcomes") from None
    if not content.strip():
        raise Problem(f"{path}: the file is empty", "the test run may have died before it wrote it")
    if not junit.recognises(content):
        raise Problem(f"{path}: not a known format of test outcomes", "give JUnit XML")
    try:
        return worst_of_each(junit.parse(content))
    except Problem as problem:
        raise Problem(f"{path}: {problem}") from None
