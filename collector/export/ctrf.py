"""CTRF, the Common Test Report Format (https://ctrf.io, schema/ctrf.schema.json of ctrf-io/ctrf).

What a test says of itself stays in its own fields; what the probe says is its `message`, and in
full in `extra`. `collector import` reads it back.
"""

from __future__ import annotations

import json
from collections import Counter

import probe
from collector import explanation
from collector.outcomes.outcome import PASSED, SKIPPED
from collector.report.labels import application, domain
from collector.run import RUNNING, Test
from collector.store import Store
from probe.events import JsonObject

SPEC_VERSION = "0.1.0"
_STATUS = {PASSED: "passed", SKIPPED: "skipped", RUNNING: "pending"}
_STATUSES = ("passed", "failed", "pending", "skipped", "other")
_UNNAMED = "(no name)"
_MS = 1_000_000  # nanoseconds


def render(store: Store, run: str) -> str:
    """The whole document, one test a line."""
    tests = [_test(test, report) for test, report in explanation.each(store, run)]
    document = {
        "reportFormat": "CTRF",
        "specVersion": SPEC_VERSION,
        "generatedBy": f"sandbox-probe {probe.__version__}",
        "results": {
            "tool": {"name": "sandbox-probe", "version": probe.__version__},
            "summary": _summary(tests),
            "tests": tests,
            "extra": {"run": run},
        },
    }
    return json.dumps(document, indent=1) + "\n"


def _summary(tests: list[JsonObject]) -> JsonObject:
    counts = Counter(test["status"] for test in tests)
    start = min((test["start"] for test in tests if "start" in test), default=0)
    stop = max((test["stop"] for test in tests if "stop" in test), default=start)
    return {
        "tests": len(tests),
        **{status: counts[status] for status in _STATUSES},
        "start": start,
        "stop": stop,
    }


def _test(test: Test, report: JsonObject | None) -> JsonObject:
    shown: JsonObject = {
        "name": test.id or _UNNAMED,
        "status": _STATUS.get(test.outcome, "failed"),
        "rawStatus": test.outcome,
        **_times(test),
    }
    if report is not None:
        verdict = report["verdict"]
        shown["message"] = f"{verdict['cause']}: {verdict['summary']}"
        said = test.span(report["span"]["run"]).message
        if said:
            shown["trace"] = said
        shown["extra"] = {"probe": _probe(test, report)}
    return shown


def _times(test: Test) -> JsonObject:
    """Milliseconds. Of a test that no probe saw, what the harness says."""
    seen, reported = test.deciding, test.reported
    if seen is not None:
        start = seen.span.started_ns // _MS
        duration = round((seen.span.duration_s or 0) * 1e3)
        return {"duration": duration, "start": start, "stop": start + duration}
    told_s = reported.duration_s if reported is not None else None
    return {"duration": round((told_s or 0) * 1e3)}


def _probe(test: Test, report: JsonObject) -> JsonObject:
    kept = ("verdict", "alternatives", "coverage", "lost", "match")
    return {
        "application": application(test),
        "domain": domain(test),
        "sandbox": report["span"]["sandbox"],
        "command": report["span"]["command"],
        **{name: report[name] for name in kept},
    }
