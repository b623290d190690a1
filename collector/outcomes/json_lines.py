"""JSON Lines: our own minimal form, which any harness can write (docs/outcomes.md)."""

from __future__ import annotations

import json

from collector.outcomes import document, fields
from collector.outcomes.outcome import OUTCOMES, Outcome
from probe.exchange import Exchange, exchange_from
from probe.problem import Problem

_SHOWN = 40


def recognises(content: bytes) -> bool:
    """Whether its first line is a whole object that names a test and an outcome."""
    first = content.lstrip(b"\xef\xbb\xbf \t\r\n").split(b"\n", 1)[0]
    try:
        value = json.loads(first)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and "test" in value and "outcome" in value


def parse(content: bytes) -> list[Outcome]:
    """Problem, naming the line, where one is not of the form."""
    document.check_size(content, b",", b"[", b"{")
    lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    return [_outcome(line, number) for number, line in enumerate(lines, 1) if line.strip()]


def _outcome(line: bytes, number: int) -> Outcome:
    try:
        value = document.load(line)
    except Problem as problem:
        raise Problem(f"line {number}: {problem}") from None
    if not isinstance(value, dict):
        raise Problem(f"line {number}: not an object", "write one object a line")
    test, outcome = fields.text(value.get("test")), fields.kind(value.get("outcome"))
    if test is None:
        raise Problem(f"line {number}: no test is named", 'give "test", a string')
    if outcome is None:
        given = repr(value.get("outcome"))[:_SHOWN]
        raise Problem(f"line {number}: outcome {given}", f"give one of {', '.join(OUTCOMES)}")
    return Outcome(
        test,
        fields.text(value.get("name")) or test,
        outcome,
        fields.text(value.get("message")),
        fields.duration_s(value.get("duration_s")),
        fields.text(value.get("sandbox")),
        fields.moment_ns(value.get("started_at")),
        _exchange(value.get("client"), number),
    )


def _exchange(value: object, number: int) -> Exchange | None:
    if value is None:
        return None
    try:
        return exchange_from(dict(fields.mapping(value)))
    except ValueError as error:
        raise Problem(f"line {number}: client: {error}", "docs/interface.md has the form") from None
