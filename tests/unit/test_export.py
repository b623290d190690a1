"""A run for other tools, held against what those take."""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import demo_run
import jsonschema
import pytest
from demo_run import Made

from collector.export import FORMATS, github
from collector.outcomes import Outcome, read
from collector.store import Store, open_store
from probe.causes import CAUSES

INTEGER, TEXT, OBJECT = {"type": "integer"}, {"type": "string"}, {"type": "object"}
STATUSES = ("passed", "failed", "skipped", "pending", "other")


def closed(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "required": list(required),
        "properties": {**required, **optional},
        "additionalProperties": False,
    }


# After schema/ctrf.schema.json of ctrf-io/ctrf: what it requires, and what it lets be there.
CTRF = closed(
    {
        "reportFormat": {"const": "CTRF"},
        "specVersion": {"type": "string", "pattern": r"^[0-9]+\.[0-9]+\.[0-9]+$"},
        "results": closed(
            {
                "tool": closed(
                    {"name": {"type": "string", "minLength": 1}}, version=TEXT, extra=OBJECT
                ),
                "summary": closed(
                    {
                        **dict.fromkeys(("tests", *STATUSES), INTEGER),
                        "start": INTEGER,
                        "stop": INTEGER,
                    },
                    duration=INTEGER,
                    extra=OBJECT,
                ),
                "tests": {
                    "type": "array",
                    "items": closed(
                        {
                            "name": {"type": "string", "minLength": 1},
                            "status": {"enum": list(STATUSES)},
                            "duration": INTEGER,
                        },
                        **dict.fromkeys(("start", "stop"), INTEGER),
                        **dict.fromkeys(("message", "trace", "rawStatus"), TEXT),
                        extra=OBJECT,
                    ),
                },
            },
            extra=OBJECT,
        ),
    },
    generatedBy=TEXT,
)

NUMBER = {"type": "string", "pattern": "^[0-9]+$"}
VALUE = {
    "oneOf": [
        closed({"stringValue": TEXT}),
        closed({"intValue": {"type": "string", "pattern": "^-?[0-9]+$"}}),
        closed({"doubleValue": {"type": "number"}}),
        closed({"boolValue": {"type": "boolean"}}),
    ]
}
ATTRIBUTES = {"type": "array", "items": closed({"key": TEXT, "value": VALUE})}
EVENT = closed({"timeUnixNano": NUMBER, "name": TEXT, "attributes": ATTRIBUTES})
SPAN = closed(
    {
        "traceId": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
        "spanId": {"type": "string", "pattern": "^[0-9a-f]{16}$"},
        "name": TEXT,
        "kind": {"const": 1},
        "startTimeUnixNano": NUMBER,
        "endTimeUnixNano": NUMBER,
        "attributes": ATTRIBUTES,
        "events": {"type": "array", "items": EVENT},
        "status": closed({"code": {"enum": [0, 1, 2]}}, message=TEXT),
    }
)
SCOPE = closed(
    {"scope": closed({"name": TEXT, "version": TEXT}), "spans": {"type": "array", "items": SPAN}}
)
# After opentelemetry/proto/collector/trace/v1/trace_service.proto and its mapping to JSON.
OTLP = closed(
    {
        "resourceSpans": {
            "type": "array",
            "items": closed(
                {
                    "resource": closed({"attributes": ATTRIBUTES}),
                    "scopeSpans": {"type": "array", "items": SCOPE},
                }
            ),
        }
    }
)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[tuple[list[Made], Store]]:
    path = str(tmp_path / "c.db")
    made = demo_run.fill(path, 200)
    with contextlib.closing(open_store(path)) as store, demo_run.told_by_clients():
        skipped = Outcome("suite/skipped", "skipped", "skipped")
        unseen = Outcome("suite/unseen", "unseen", "timeout", "late", 1.5)
        store.add_outcomes(demo_run.RUN, [skipped, unseen])
        yield made, store


def test_ctrf(run: tuple[list[Made], Store], tmp_path: Path) -> None:
    made, store = run
    text = FORMATS["ctrf"](store, demo_run.RUN)
    document = json.loads(text)
    jsonschema.validate(document, CTRF)
    results = document["results"]
    failed = {one.test: one.cause for one in made if one.cause}
    assert results["summary"] == {
        "tests": len(made) + 2,
        "passed": len(made) - len(failed),
        "failed": len(failed) + 1,
        "skipped": 1,
        "pending": 0,
        "other": 0,
        "start": min(test["start"] for test in results["tests"] if "start" in test),
        "stop": max(test["stop"] for test in results["tests"] if "stop" in test),
    }
    tests = {test["name"]: test for test in results["tests"]}
    for name, cause in failed.items():
        verdict = tests[name]["extra"]["probe"]["verdict"]
        assert verdict["cause"] == cause
        assert tests[name]["message"] == f"{cause}: {verdict['summary']}"
    assert tests["suite/unseen"]["duration"] == 1500
    assert tests["suite/unseen"]["trace"] == "late"
    path = tmp_path / "ctrf.json"
    path.write_text(text)
    back = {one.test: one.outcome for one in read(str(path))}
    assert back.keys() == tests.keys()
    assert back["suite/unseen"] == "timeout"


def attributes(told: list[dict[str, Any]]) -> dict[str, Any]:
    return {one["key"]: next(iter(one["value"].values())) for one in told}


def test_otlp(run: tuple[list[Made], Store]) -> None:
    made, store = run
    text = FORMATS["otlp"](store, demo_run.RUN)
    request = json.loads(text)
    jsonschema.validate(request, OTLP)
    [resource] = request["resourceSpans"]
    spans = resource["scopeSpans"][0]["spans"]
    assert Counter(span["name"] for span in spans) == Counter(
        [*(one.test for one in made), "suite/skipped", "suite/unseen"]
    )
    assert len({span["spanId"] for span in spans}) == len(spans)
    causes = {one.test: one.cause for one in made}
    for span in spans:
        about = attributes(span["attributes"])
        cause = causes.get(span["name"])
        assert 0 < int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
        assert about["test.case.name"] == span["name"]
        if span["name"] in causes:
            assert about["test.case.result.status"] == ("fail" if cause else "pass")
            assert span["status"]["code"] == (2 if cause else 1)
            assert about.get("probe.cause") == about.get("error.type") == cause
        for event in span["events"]:
            assert int(event["timeUnixNano"]) >= int(span["startTimeUnixNano"])
    killed = next(span for span in spans if causes.get(span["name"]) == "memory.cgroup_oom")
    assert "probe.oom" in {event["name"] for event in killed["events"]}
    assert FORMATS["otlp"](store, demo_run.RUN) == text


COMMAND = re.compile(r"^::(error|warning|notice) title=([^:,\r\n]*)::([^\r\n]*)$")


def test_github(run: tuple[list[Made], Store]) -> None:
    made, store = run
    lines = FORMATS["github"](store, demo_run.RUN).splitlines()
    found = [COMMAND.match(line) for line in lines]
    assert all(found)
    levels = Counter(one[1] for one in found if one)
    assert levels["error"] <= 10 and levels["warning"] <= 10
    causes = Counter(
        one.cause for one in made if one.cause and CAUSES[one.cause].layer == "sandbox"
    )
    cause, count = causes.most_common(1)[0]
    assert lines[0].startswith(f"::error title={cause}%3A {count} tests::")
    assert "%0A→ " in lines[0]


def test_github_escapes() -> None:
    line = github._command("error", "50%: a,b\n", "100%\r\n::error::\x1b[0m")
    assert line == "::error title=50%25%3A a%2Cb\\n::100%25\\r%0A::error::\\x1b[0m"
    assert line.isprintable()


def test_github_has_nothing_to_say_of_a_run_that_passed(tmp_path: Path) -> None:
    with contextlib.closing(open_store(str(tmp_path / "c.db"))) as store:
        store.add_outcomes("r", [Outcome("t", "t", "passed")])
        assert FORMATS["github"](store, "r") == ""
