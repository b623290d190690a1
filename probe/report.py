"""The report of one span: probe.report/1, as JSON and as its schema."""

from __future__ import annotations

from probe.diagnose import Case, Explanation
from probe.events import JsonObject

SCHEMA_ID = "probe.report/1"


def build(case: Case, explanation: Explanation) -> JsonObject:
    """The report as a JSON object (docs/report.md, probe/report.schema.json)."""
    return {
        "schema": SCHEMA_ID,
        "span": case.span.as_json(),
        "outcome": case.span.outcome,
        "verdict": explanation.verdict.as_json() if explanation.verdict else None,
        "alternatives": [finding.as_json() for finding in explanation.alternatives],
        "dismissed": [dismissal.as_json() for dismissal in explanation.dismissed],
        "coverage": case.coverage.as_json(),
        "lost": case.losses.as_json(),
        **({"sandbox": case.sandbox.as_json()} if case.sandbox else {}),
        "events": [event.as_json() for event in case.events],
    }
