"""OTLP in JSON (ExportTraceServiceRequest): a span for each test, its evidence as span events.

Attributes follow OpenTelemetry's semantic conventions for tests and processes where there are
any; the others begin with `probe.`. Ids derive from the names, so that whoever gets a run twice
has it once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

import probe
from collector import explanation
from collector.outcomes.outcome import PASSED, SKIPPED
from collector.report.labels import application, domain
from collector.run import RUNNING, Test
from collector.store import Store
from probe.events import JsonObject, time_from_text
from probe.text import describe

Value = str | int | float | bool | None
_INTERNAL = 1  # SpanKind
_UNSET, _OK, _ERROR = 0, 1, 2  # StatusCode
_RESULT = {PASSED: "pass", SKIPPED: "skipped"}


def render(store: Store, run: str) -> str:
    """The whole request, without the tests that still run."""
    tests = [one for one in explanation.each(store, run) if one[0].outcome != RUNNING]
    begun_ns = min((start for test, _ in tests if (start := _start_ns(test))), default=0)
    spans = [_span(run, test, report, begun_ns) for test, report in tests]
    resource: dict[str, Value] = {
        "service.name": "sandbox-probe",
        "service.version": probe.__version__,
        "probe.run": run,
    }
    scope = {"name": "sandbox-probe", "version": probe.__version__}
    request = {
        "resourceSpans": [
            {
                "resource": {"attributes": _attributes(resource)},
                "scopeSpans": [{"scope": scope, "spans": spans}],
            }
        ]
    }
    return json.dumps(request, indent=1) + "\n"


def _span(run: str, test: Test, report: JsonObject | None, begun_ns: int) -> JsonObject:
    """One that nobody knows the time of begins with its run."""
    start = _start_ns(test) or begun_ns
    evidence = list(_evidence(report)) if report is not None else []
    return {
        "traceId": _hex("trace", run, test.id, digits=32),
        "spanId": _hex("span", run, test.id, digits=16),
        "name": test.id,
        "kind": _INTERNAL,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(_end_ns(test, start, evidence)),
        "attributes": _attributes(_about(run, test, report)),
        "events": [_event(event) for event in evidence],
        "status": _status(test, report),
    }


def _hex(*names: str, digits: int) -> str:
    whole = "\0".join(names).encode("utf-8", "surrogatepass")
    return hashlib.sha256(whole).hexdigest()[:digits]


def _start_ns(test: Test) -> int:
    """0 where nobody knows."""
    if test.deciding is not None:
        return test.deciding.span.started_ns
    return (test.reported.started_ns if test.reported is not None else None) or 0


def _end_ns(test: Test, start_ns: int, evidence: list[JsonObject]) -> int:
    """Of a test that came to no end, when it was last seen alive."""
    if test.deciding is None:
        told_s = test.reported.duration_s if test.reported is not None else None
        return start_ns + int((told_s or 0) * 1e9)
    last = max((time_from_text(event["time"]) for event in evidence), default=start_ns)
    return max(start_ns, test.deciding.span.ended_ns or last)


def _about(run: str, test: Test, report: JsonObject | None) -> dict[str, Value]:
    about: dict[str, Value] = {
        "test.case.name": test.id,
        "test.case.result.status": _RESULT.get(test.outcome, "fail"),
        "test.suite.name": domain(test),
        "probe.run": run,
        "probe.application": application(test),
        "probe.outcome": test.outcome,
    }
    if test.deciding is not None:
        span = test.deciding.span
        about["probe.sandbox"] = span.sandbox
        about["process.pid"] = span.pid
        about["process.exit.code"] = span.exit_code
    if report is not None:
        verdict = report["verdict"]
        about["error.type"] = verdict["cause"]
        for name in ("cause", "layer", "primitive", "confidence", "summary", "advice"):
            about[f"probe.{name}"] = verdict[name]
        about["probe.lost"] = report["lost"]["total"]
    return about


def _status(test: Test, report: JsonObject | None) -> JsonObject:
    if report is not None:
        return {"code": _ERROR, "message": report["verdict"]["summary"]}
    return {"code": _OK if test.outcome == PASSED else _UNSET}


def _evidence(report: JsonObject) -> Iterable[JsonObject]:
    wanted = set(report["verdict"]["evidence"])
    return (event for event in report["events"] if event["id"] in wanted)


def _event(event: JsonObject) -> JsonObject:
    about: dict[str, Value] = {
        "probe.event.id": event["id"],
        "probe.event.summary": describe(event),
        "process.pid": event["pid"],
        "process.parent_pid": event["ppid"],
        "process.executable.name": event["comm"],
        "process.executable.path": event["exe"] or None,
        "error.type": event.get("errno") or event.get("signal"),
    }
    return {
        "timeUnixNano": str(time_from_text(event["time"])),
        "name": f"probe.{event['kind']}",
        "attributes": _attributes(about),
    }


def _attributes(values: dict[str, Value]) -> list[JsonObject]:
    """Without those that are not known."""
    return [
        {"key": key, "value": _value(value)} for key, value in values.items() if value is not None
    ]


def _value(value: Value) -> JsonObject:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}  # JSON of protocol buffers spells 64 bits so
    if isinstance(value, float):
        return {"doubleValue": value}
    return {"stringValue": value}
