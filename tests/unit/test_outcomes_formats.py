"""CTRF, Inspect, SWE-bench, TAP and JSON Lines, and what only looks like them.

tests/data/outcomes holds logs that Inspect itself wrote (0.3.285).
"""

from __future__ import annotations

import io
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.outcomes import Outcome, document, inspect_log, read
from collector.outcomes.outcome import MESSAGE_LIMIT, NAME_LIMIT
from collector.outcomes.read import parse
from probe.problem import Problem

DATA = Path(__file__).parent.parent / "data" / "outcomes"

CTRF: dict[str, Any] = {
    "reportFormat": "CTRF",
    "specVersion": "0.0.0",
    "results": {
        "tool": {"name": "playwright"},
        "summary": {"tests": 4},
        "tests": [
            {"name": "adds", "status": "passed", "duration": 12, "suite": ["cart.ts", "Cart"]},
            {
                "name": "pays",
                "status": "failed",
                "duration": 1500,
                "start": 1706828654274,
                "suite": "pay.ts",
                "message": "expect(a).toBe(b)",
                "trace": "expect(a).toBe(b)\n    at pay.ts:3",
            },
            {"name": "hangs", "status": "failed", "duration": 9, "rawStatus": "timedOut"},
            {"name": "later", "status": "pending", "duration": 0},
            {"name": "odd", "status": "other", "duration": 0},
        ],
    },
}

SWEBENCH_RUN: dict[str, Any] = {
    "total_instances": 5,
    "completed_ids": ["a__a-1", "b__b-2"],
    "incomplete_ids": ["e__e-5"],
    "empty_patch_ids": ["d__d-4"],
    "submitted_ids": ["a__a-1", "b__b-2", "c__c-3", "d__d-4"],
    "resolved_ids": ["a__a-1"],
    "unresolved_ids": ["b__b-2"],
    "error_ids": ["c__c-3"],
    "schema_version": 2,
}

SWEBENCH_INSTANCE: dict[str, Any] = {
    "b__b-2": {
        "patch_is_None": False,
        "patch_exists": True,
        "patch_successfully_applied": True,
        "resolved": False,
        "tests_status": {
            "FAIL_TO_PASS": {"success": ["t1"], "failure": ["t2"]},
            "PASS_TO_PASS": {"success": [], "failure": [f"u{n}" for n in range(25)]},
            "FAIL_TO_FAIL": {"success": [], "failure": ["v"]},
        },
    }
}

TAP = b"""noise of the program
TAP version 14
1..6
ok 1 - reads a file # a comment is part of the name
not ok 2 - writes a file
  ---
  duration_ms: 12.5
  message: 'EROFS: read-only'
  ...
ok 3 # SKIP no network
not ok 4 - one day # TODO not yet
# Subtest: server
    # Subtest: starts
        ok 1 - deep
        1..1
    ok 1 - starts
    not ok 2 - hangs
      ---
      failureType: 'testTimeoutFailure'
      duration_ms: 1000
      ...
    1..2
not ok 5 - server
"""

LINES = b"""{"test": "a::t1", "outcome": "passed", "duration_s": 1.5}

{"test": "a::t2", "name": "t2", "outcome": "TIMEOUT", "message": "slow", "sandbox": "s1", \
"started_at": "2026-01-01T00:00:00.5Z", "more": [1]}
"""


def outcomes(content: bytes | dict[str, Any]) -> dict[str, Outcome]:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    return {outcome.test: outcome for outcome in parse(raw)}


def kinds(content: bytes | dict[str, Any]) -> dict[str, str]:
    return {test: outcome.outcome for test, outcome in outcomes(content).items()}


def test_ctrf() -> None:
    assert kinds(CTRF) == {
        "cart.ts.Cart.adds": "passed",
        "pay.ts.pays": "failed",
        "hangs": "timeout",
        "later": "skipped",
        "odd": "error",
    }
    pays = outcomes(CTRF)["pay.ts.pays"]
    assert (pays.name, pays.duration_s, pays.started_ns) == ("pays", 1.5, 1706828654274 * 10**6)
    assert pays.message == "expect(a).toBe(b)"
    old = {"results": CTRF["results"]}
    assert outcomes(old) == outcomes(CTRF)


@pytest.mark.parametrize("form", ["eval", "json"])
def test_logs_of_inspect(form: str) -> None:
    found = {outcome.test: outcome for outcome in read(DATA / f"inspect.{form}")}
    assert {test: one.outcome for test, one in found.items()} == {
        f"shell/{name}/{epoch}": outcome
        for epoch in (1, 2)
        for name, outcome in (
            *(("good", "passed"), ("bad", "failed"), ("boom", "error")),
            *(("slow", "timeout"), ("7", "passed")),
        )
    }
    boom = found["shell/boom/1"]
    assert (boom.name, boom.message) == ("boom/1", "OSError(28, 'No space left on device')")
    assert found["shell/slow/1"].duration_s == pytest.approx(1.0, abs=0.1)
    assert (boom.started_ns or 0) // 10**9 in (1796007538, 1796007539)


def archive(members: dict[str, Any], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", compression) as target:
        for name, value in members.items():
            raw = value if isinstance(value, bytes) else json.dumps(value)
            target.writestr(name, raw)
    return packed.getvalue()


def test_a_log_of_inspect_that_was_not_finished() -> None:
    """It has no header and no summaries yet; older versions packed with deflate."""
    sample = {"id": 1, "epoch": 1, "scores": {"s": {"value": "I"}}}
    log = archive(
        {
            "_journal/start.json": {"version": 2, "eval": {"task": "t"}},
            "_journal/summaries/1.json": [sample],
            "_journal/summaries/2.json": [{**sample, "id": 2, "scores": {"s": {"value": 1.0}}}],
        }
    )
    assert kinds(log) == {"t/1": "failed", "t/2": "passed"}


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        *(("C", "passed"), ("I", "failed"), ("P", "failed"), ("N", "failed")),
        *((1, "passed"), (0.5, "failed"), (True, "passed"), (False, "failed")),
        *(("yes", "passed"), (None, "failed"), ({"a": 1, "b": 0}, "failed"), ([1, "C"], "passed")),
    ],
)
def test_scores_of_inspect(value: object, kind: str) -> None:
    sample = {"id": "x", "scores": {"s": {"value": value}}}
    log = {"version": 2, "status": "success", "eval": {"task": "t"}, "samples": [sample]}
    assert kinds(log) == {"t/x": kind}


def test_swebench() -> None:
    assert kinds(SWEBENCH_RUN) == {
        "a__a-1": "passed",
        "b__b-2": "failed",
        "c__c-3": "error",
        "d__d-4": "failed",
        "e__e-5": "skipped",
    }
    failed = outcomes(SWEBENCH_INSTANCE)["b__b-2"]
    assert failed.outcome == "failed"
    assert failed.message is not None
    assert failed.message.splitlines()[0] == "FAIL_TO_PASS: t2 failed"
    assert failed.message.endswith("u19 and 5 more failed")
    for changed, kind in (
        ({"resolved": True}, "passed"),
        ({"patch_successfully_applied": False}, "error"),
        ({"patch_is_None": True}, "failed"),
    ):
        assert kinds({"b": {**SWEBENCH_INSTANCE["b__b-2"], **changed}}) == {"b": kind}


def test_tap() -> None:
    assert kinds(TAP) == {
        "reads a file # a comment is part of the name": "passed",
        "writes a file": "failed",
        "test 3": "skipped",
        "one day": "skipped",
        "server > starts > deep": "passed",
        "server > starts": "passed",
        "server > hangs": "timeout",
        "server": "failed",
        "plan": "error",
    }
    found = outcomes(TAP)
    assert found["writes a file"].duration_s == 0.0125
    assert found["writes a file"].message == "duration_ms: 12.5\nmessage: 'EROFS: read-only'"
    assert found["server > hangs"].duration_s == 1
    assert found["plan"].message == "5 of 6 planned tests were reported"
    assert kinds(b"1..1\nok\n") == {"test 1": "passed"}
    assert kinds(b"1..2\nok 1 a\nBail out! no disk\n")["plan"] == "error"


def test_json_lines() -> None:
    assert parse(LINES) == [
        Outcome("a::t1", "a::t1", "passed", None, 1.5),
        Outcome("a::t2", "t2", "timeout", "slow", None, "s1", 1767225600500000000),
    ]


def test_the_name_of_a_file_does_not_count(tmp_path: Path) -> None:
    for content in (json.dumps(CTRF).encode(), TAP, LINES, (DATA / "inspect.eval").read_bytes()):
        path = tmp_path / "report.xml"
        path.write_bytes(content)
        assert read(path) == parse(content)


BOMB = archive({"header.json": b"[" + b" " * (300 << 20), "summaries.json": []})
LONG = b'{"test": "t", "outcome": "passed"}\n'


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "broken JSON .*cut off"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"a":' * 200_000, "nested too deeply"),
        (
            b'{"eval":{},"status":"x","samples":[{"id":1,"scores":{"s":{"value":%s0%s}}}]}'
            % (b"[" * 900, b"]" * 900),
            "nested too deeply",
        ),
        (b"[" + b"[]," * 3_000_000 + b"0]", "more than 5,000,000 values"),
        (b"<a/>" * 6_000_000, "more than 5,000,000 values"),
        (b'{"results": {"tool": {}, "tests": [{}]}}', "without a name or a status"),
        (b'{"eval": {}, "status": "success", "samples": [{}]}', "without an id"),
        (b'{"a": 1}', "JSON, but not of a known form"),
        (b"{}", "JSON, but not of a known form"),
        (b"1" * 5000, "not a known format"),
        (b'{"a": ' + b"1" * 5000 + b"}", "broken JSON"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (LONG + b"{}", "line 2: no test is named"),
        (LONG + b'{"test": "u", "outcome": "fine"}', "line 2: outcome 'fine'"),
        (LONG + b'{"test": "u"', "line 2: broken JSON"),
        (LONG + b"7", "line 2: not an object"),
        (LONG + b"[" * 100_000, "nested too deeply"),
        (b"1..1\n" + b" " * 4000 + b"ok 1\n", "nested too deeply"),
        (b"PK\x03\x04 and then nothing", "a broken archive"),
        (archive({"x": b""}), "a zip file, but no log of Inspect"),
        (archive({"header.json": b"\xff"}), "not UTF-8"),
        (BOMB, "more than 256 MiB"),
        (b"PK\x03\x04" + b"PK\x01\x02" * 200_001, "more than 200,000 files"),
        ((DATA / "inspect.eval").read_bytes()[:9000], "a broken archive"),
    ],
    ids=range(25),
)
def test_what_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "report"
    path.write_bytes(content)
    with pytest.raises(Problem, match=words) as problem:
        read(path)
    assert str(problem.value).startswith(str(path))
    assert "\n" not in str(problem.value)
    assert len(str(problem.value)) < 300


def test_what_a_database_could_not_keep() -> None:
    lines = [
        {"test": "x" * 5000 + end, "outcome": "failed", "message": "m\0" * MESSAGE_LIMIT}
        for end in "ab"
    ]
    lines.append({"test": "t\ud800\0", "outcome": "passed", "sandbox": "é" * 1000})
    found = parse("\n".join(map(json.dumps, lines)).encode())
    assert len({outcome.test for outcome in found}) == 3
    for outcome in found:
        for text in (outcome.test, outcome.name, outcome.sandbox or ""):
            assert len(text.encode()) <= NAME_LIMIT
            assert "\0" not in text
        assert len(outcome.message or "") <= MESSAGE_LIMIT + 3
    assert found[2].test == "t?\ufffd"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["id", "epoch", "scores", "error", "limit"]), JSON), JSON)
def test_samples_of_any_shape(sample: dict[str, Any], config: Any) -> None:
    log = {"status": "x", "eval": {"config": config}, "samples": [{"id": 1, **sample}, config]}
    _parses_or_tells(log)


@given(st.dictionaries(st.sampled_from(["name", "status", "suite", "start", "duration"]), JSON))
def test_tests_of_any_shape(test: dict[str, Any]) -> None:
    case = {"name": "t", "status": "failed", **test}
    _parses_or_tells({"reportFormat": "CTRF", "results": {"tests": [case]}})


@given(st.dictionaries(st.text(max_size=4), JSON), JSON)
def test_instances_of_any_shape(report: dict[str, Any], ids: Any) -> None:
    _parses_or_tells({"x": {"resolved": False, **report}})
    _parses_or_tells({"resolved_ids": ids, "error_ids": ids})


@given(st.lists(st.sampled_from(TAP.decode().splitlines()) | st.text(max_size=20)))
def test_tap_in_any_order(lines: list[str]) -> None:
    _parses_or_tells("\n".join(["1..3", *lines]).encode("utf-8", "replace"))


def _parses_or_tells(content: bytes | dict[str, Any]) -> None:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    try:
        for outcome in parse(raw):
            assert outcome.test
            outcome.test.encode()
            assert outcome.started_ns is None or 0 <= outcome.started_ns < 1 << 63
    except Problem:
        pass


def test_values_are_counted_before_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "VALUES", 3)
    assert document.load(b"[1, 2]") == [1, 2]
    with pytest.raises(Problem, match="more than 3 values"):
        document.load(b"[1, 2, 3, 4]")


def test_the_limit_of_an_archive_is_for_all_that_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    header, parts = {"eval": {}}, [{"id": n, "scores": {}} for n in range(9)]
    members = {f"_journal/summaries/{n}.json": [part] for n, part in enumerate(parts)}
    log = archive({"header.json": header, **members})
    size = sum(len(json.dumps(one)) for one in (header, *([part] for part in parts)))
    monkeypatch.setattr(sys.modules[inspect_log.__name__], "MEMBER_LIMIT", size)
    assert len(parse(log)) == 9
    monkeypatch.setattr(sys.modules[inspect_log.__name__], "MEMBER_LIMIT", size - 1)
    with pytest.raises(Problem, match=r"summaries/8.json: more than"):
        parse(log)
