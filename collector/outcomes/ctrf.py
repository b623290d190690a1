"""CTRF, the Common Test Report Format (https://ctrf.io, schema/ctrf.schema.json of ctrf-io/ctrf).

Its reporters differ: `suite` is a list or one string, and older ones leave out reportFormat.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from collector.outcomes import fields
from collector.outcomes import outcome as kinds
from collector.outcomes.outcome import Outcome
from collector.outcomes.words import spoken
from probe.problem import Problem

_MS = 1_000_000  # ns
_STATUS = {"pending": kinds.SKIPPED, "other": kinds.ERROR}
_TIMEOUT = frozenset(("timedout", "timeout"))  # Playwright's rawStatus, and others'


def recognises(value: Any) -> bool:
    """Whether the document is CTRF's."""
    document = fields.mapping(value)
    results = fields.mapping(document.get("results"))
    named = document.get("reportFormat") == "CTRF" or "tool" in results
    return named and isinstance(results.get("tests"), list)


def parse(value: Any) -> list[Outcome]:
    """Problem where a test has no name or no status."""
    return [_outcome(fields.mapping(test)) for test in value["results"]["tests"]]


def _outcome(test: Mapping[str, Any]) -> Outcome:
    name, status = fields.text(test.get("name")), fields.kind(test.get("status"), _STATUS)
    if name is None or status is None:
        raise Problem("a test without a name or a status", "CTRF gives each test both")
    raw = fields.text(test.get("rawStatus"))
    if raw and raw.lower() in _TIMEOUT and status != kinds.PASSED:
        status = kinds.TIMEOUT
    message, trace = (fields.text(test.get(key)) or "" for key in ("message", "trace"))
    return Outcome(
        ".".join([*_suite(test.get("suite")), name]),
        name,
        status,
        spoken("", message.strip(), trace.strip()) or None,
        fields.duration_s(test.get("duration"), 1e-3),
        started_ns=fields.moment_ns(test.get("start"), _MS),
    )


def _suite(value: Any) -> list[str]:
    parts = [value] if isinstance(value, str) else fields.items(value)
    return [part for part in parts if fields.text(part)]
