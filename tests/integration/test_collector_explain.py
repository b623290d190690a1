"""`collector import` and `collector explain` on a real database."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import validated

from collector import cli
from collector.store import Delivery, Hello, Observation, open_store
from collector.store.rows import event_row
from probe.coverage import SENSES, Coverage, Losses
from probe.events import Event, Exec, Exit, File
from probe.message import event_message
from probe.span import Span

COVERAGE = Coverage("core", dict.fromkeys(SENSES, "full"))
PID, CHILD = 100, 101


class Database:
    """A database that is filled as a probe would, and asked through the command line."""

    def __init__(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.path = path
        self._capsys = capsys
        self._sequence = 0
        self._key = 0

    def span(self, test: str, exit_code: int | None, run: str = "r1", **fields: Any) -> None:
        """A command that passed, or failed because a program was not there.

        A test of pytest's has no exit code; it handles a refusal, and fails by itself.
        """
        self._key += 1
        started = self._key * 1_000_000_000
        outcome = "passed" if exit_code == 0 else "failed"
        given = {"command": ("sh", "job.sh"), "outcome": outcome, "ended_ns": started + 900}
        span = Span(
            key=self._key,
            run=run,
            test=test,
            sandbox="s1",
            boot="b1",
            pid=PID,
            started_ns=started,
            exit_code=exit_code,
            **given | fields,
        )
        seen = [] if exit_code == 0 else self._events(span)
        events = tuple(event_row(event_message(event)) for event in seen)
        self._sequence += 1
        observation = (self._sequence, Observation(span, COVERAGE, Losses()))
        with contextlib.closing(open_store(str(self.path))) as store:
            store.greet(Hello("s1", "b1", "0.1.0", COVERAGE, 0))
            store.add([Delivery("s1", "b1", self._sequence, events, (observation,))])

    def _events(self, span: Span) -> list[Event]:
        if span.exit_code is None:
            refused = {"path": "/etc/shadow", "errno": "EACCES", "mode": "0600 0:0"}
            return [File(**self._common(span, PID, 1), syscall="openat", **refused)]
        missing = {"path": "/usr/bin/jq", "argv": ("jq",), "errno": "ENOENT"}
        missing |= {"reason": "exec.not_found", "searched": ("/usr/bin",)}
        said = "sh: jq: not found"
        return [
            Exec(**self._common(span, CHILD, 1), **missing),
            Exit(**self._common(span, CHILD, 2), code=127, reaper=PID, last_words=said),
            Exit(**self._common(span, PID, 3), code=span.exit_code, reaper=1),
        ]

    def _common(self, span: Span, pid: int, offset: int) -> dict[str, Any]:
        self._sequence += 1
        return {
            "sequence": self._sequence,
            "time_ns": span.started_ns + offset,
            "pid": pid,
            "ppid": PID if pid == CHILD else 1,
            "comm": "sh",
            "exe": "/bin/sh",
            "span": span.key,
        }

    def junit(self, cases: str, run: str = "r1") -> str:
        path = self.path.with_name("junit.xml")
        path.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
        return self.run("import", str(path), "--run", run)

    def run(self, *arguments: str, status: int = 0) -> str:
        """What it prints on stdout, or on stderr where it is to fail."""
        assert cli.main([*arguments, "--db", str(self.path)]) == status
        captured = self._capsys.readouterr()
        return captured.err if status else captured.out

    def report(self, *arguments: str) -> dict[str, Any]:
        report: dict[str, Any] = json.loads(self.run("explain", "--json", *arguments))
        return report


@pytest.fixture
def database(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Database:
    return Database(tmp_path / "c.db", capsys)


def test_one_test(database: Database) -> None:
    database.span("t1", 127)
    report = database.report("t1")
    assert report["schema"] == "probe.report/1"
    assert (report["span"]["test"], report["outcome"]) == ("t1", "failed")
    assert report["verdict"]["cause"] == "exec.not_found"
    known = {event["id"] for event in report["events"]}
    assert set(report["verdict"]["evidence"]) <= known
    assert "exec.not_found" in database.run("explain", "t1")


def test_the_run_grouped_by_cause(database: Database) -> None:
    database.span("passes", 0)
    database.span("lone", 1, outcome="failed", command=("false",))
    for number in range(3):
        database.span(f"jq{number}", 127)
    database.junit('<testcase name="skipped"><skipped/></testcase>')
    found = database.report()
    assert (found["run"], found["passed"], found["skipped"], found["failed"]) == ("r1", 1, 1, 4)
    first = found["groups"][0]
    assert first["cause"] == "exec.not_found"
    assert first["count"] == len(first["tests"])
    assert {report["span"]["test"] for report in found["reports"]} == {
        test for group in found["groups"] for test in group["tests"]
    }
    text = database.run("explain")
    assert "run r1: 4 failed, 1 passed, 1 skipped" in text
    for word in (first["cause"], "jq0", "jq1", "jq2", "lone"):
        assert word in text


def test_a_large_group_is_shown_in_part(database: Database) -> None:
    database.junit("".join(f'<testcase name="t{n:02}"><failure/></testcase>' for n in range(25)))
    lines = database.run("explain").splitlines()
    [summary] = [line for line in lines if "no probe reported t00" in line]
    assert summary.endswith("(and 24 alike)")
    assert [line.strip() for line in lines[-2:]] == [
        "t19",
        "… and 5 more: collector explain --json",
    ]
    [group] = database.report()["groups"]
    assert (group["count"], len(group["tests"])) == (25, 25)
    assert "alike" not in group["summary"]


def test_one_summary_for_all_that_have_the_same(database: Database) -> None:
    for number in range(20):
        database.span(f"t{number}", 127)
    text = database.run("explain")
    assert "alike" not in text
    assert "more" not in text


def test_a_test_that_no_harness_reported_may_have_been_skipped(database: Database) -> None:
    database.span("t1", 0, whole_process=False)
    database.span("t2", 0)
    assert "run r1: 0 failed, 2 passed or skipped" in database.run("explain")
    database.junit('<testcase name="t1"><skipped/></testcase>')
    assert "run r1: 0 failed, 1 passed, 1 skipped" in database.run("explain")


def test_a_run_without_a_name(database: Database, capsys: pytest.CaptureFixture[str]) -> None:
    database.span("t1", 127, run="")
    assert cli.main(["explain", "--db", str(database.path)]) == 0
    captured = capsys.readouterr()
    assert captured.err == "collector: the latest run is ''\n"
    assert captured.out.startswith("run '': 1 failed")
    assert "known, the latest first: ''" in database.run("explain", "--run", "r9", status=2)
    assert database.report("--run", "")["failed"] == 1


@pytest.mark.parametrize(
    ("cases", "words"),
    [
        ("", "no outcomes (the files name no test)"),
        ('<testcase name="t1"/>', "1 outcome (1 passed)"),
        ('<testcase name="t1"/><testcase name="t2"/>', "2 outcomes (2 passed)"),
    ],
)
def test_what_was_imported(database: Database, cases: str, words: str) -> None:
    assert database.junit(cases) == f"imported {words} into run r1\n"


def test_the_harness_has_the_last_word(database: Database) -> None:
    database.span("tests/test_x.py::TestC::test_a[1/2]", 0)
    database.span("tests/test_x.py::test_b", 127)
    printed = database.junit(
        '<testcase classname="tests.test_x.TestC" name="test_a[1/2]">'
        '<failure message="AssertionError: 1 != 2"/></testcase>'
        '<testcase classname="tests.test_x" name="test_b"/>'
    )
    assert printed == "imported 2 outcomes (1 failed, 1 passed) into run r1\n"
    found = database.report()
    [report] = found["reports"]
    assert report["span"]["test"] == "tests/test_x.py::TestC::test_a[1/2]"
    assert report["outcome"] == "failed"
    assert found["passed"] == 1
    for spelling in ("tests.test_x.TestC.test_a[1/2]", "test_a[1/2]"):
        assert database.report(spelling) == report
    assert database.report("test_b")["verdict"] is None


FAILURE = """<testcase name="t1"><failure message="ValueError: no plan">def t1():
        try:
            open("/etc/shadow")
        except PermissionError:  # EACCES, Permission denied
            pass
        try:
&gt;           plans["a"]
E           KeyError: 'a'

test_x.py:7: KeyError

During handling of the above exception, another exception occurred:

def t1():
        try:
            open("/etc/shadow")
        except PermissionError:  # EACCES, Permission denied
            pass
        try:
            plans["a"]
        except KeyError:
&gt;           raise ValueError("no plan")
E           ValueError: no plan

test_x.py:9: ValueError</failure></testcase>"""


@pytest.mark.parametrize("message", ["KeyError: 'a'\nValueError: no plan", None])
def test_the_source_in_a_report_is_no_evidence(database: Database, message: str | None) -> None:
    """The test handled an error that its source names, and then failed by itself."""
    database.span("t1", None, whole_process=False, message=message)
    database.junit(FAILURE)
    assert database.report("t1")["verdict"]["cause"] == "workload.failed"


def test_spans_that_go_by_the_bare_name(database: Database) -> None:
    database.span("TestPay", 127)
    database.junit('<testcase classname="shop" name="TestPay"><failure/></testcase>')
    [report] = database.report()["reports"]
    assert report["verdict"]["cause"] == "exec.not_found"


def test_a_test_that_no_probe_saw(database: Database) -> None:
    database.junit('<testcase name="t1" time="1.5"><error message="boo"/></testcase>')
    report = database.report("t1")
    assert (report["verdict"]["cause"], report["outcome"]) == ("unknown", "error")
    assert report["span"]["duration_s"] == 1.5
    assert all("no probe" in state for state in report["coverage"]["senses"].values())


def test_the_last_failing_command_of_a_test_is_explained(database: Database) -> None:
    database.span("t1", 0, command=("setup",))
    database.span("t1", 1, command=("first",))
    database.span("t1", 127, command=("second",))
    database.span("t1", 0, command=("cleanup",))
    assert database.report("t1")["span"]["command"] == ["second"]
    assert database.report()["failed"] == 1


def test_a_command_without_a_test_goes_by_its_words(database: Database) -> None:
    database.span("", 127, command=("sh", "-c", "jq ."))
    assert database.report()["groups"][0]["tests"] == ["sh -c 'jq .'"]
    assert database.report("sh -c 'jq .'")["verdict"]["cause"] == "exec.not_found"


def test_importing_again_changes_nothing(database: Database) -> None:
    database.span("t1", 127)
    cases = '<testcase name="t1"><failure/></testcase><testcase name="t2"/>'
    printed = database.junit(cases)
    before = database.report()
    assert database.junit(cases) == printed
    assert database.report() == before


def test_the_latest_run_is_taken_and_named(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    database.span("t1", 127, run="r1")
    database.span("t1", 0, run="r2")
    assert cli.main(["explain", "--db", str(database.path)]) == 0
    captured = capsys.readouterr()
    assert "the latest run is r2" in captured.err
    assert "0 failed, 1 passed" in captured.out
    assert database.report("--run", "r1")["failed"] == 1


def test_names_from_the_sandbox_cannot_reach_the_terminal(database: Database) -> None:
    database.span("t\x1b[31m\n", 127, command=("sh", "\x1b]0;x\x07"))
    for arguments in (["explain"], ["explain", "t\x1b[31m\n"], ["explain", "--json"]):
        assert "\x1b" not in database.run(*arguments)


def test_one_broken_file_of_several_imports_nothing(database: Database, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.xml", tmp_path / "bad.xml"
    good.write_text('<testsuite><testcase name="t1"/></testsuite>')
    bad.write_text("<testsuite><testcase")
    assert "bad.xml" in database.run("import", str(good), str(bad), "--run", "r1", status=2)
    assert not database.path.exists()


def _missing(_: Path) -> None:
    pass


def _directory(path: Path) -> None:
    path.mkdir()


def _text(path: Path) -> None:
    path.write_text("not a database\n" * 100)


def _empty_run(path: Path) -> None:
    open_store(str(path)).close()


@pytest.mark.parametrize("make", [_missing, _directory, _text, _empty_run])
def test_databases_that_explain_cannot_use(
    database: Database, make: Callable[[Path], None]
) -> None:
    make(database.path)
    message = database.run("explain", status=2)
    assert message.startswith("collector: ")
    assert message.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["explain", "--run", "r9"], "no run 'r9': known, the latest first: r1"),
        (["explain", "t9"], "did you mean: t1"),
        (["import", "/nix/junit.xml", "--run", "r1"], "/nix/junit.xml: No such file"),
        (["import", "/", "--run", "r1"], "Is a directory"),
        (["import", __file__, "--run", "r1"], "not a known format"),
    ],
)
def test_bad_input_is_named(database: Database, arguments: list[str], words: str) -> None:
    database.span("t1", 127)
    message = database.run(*arguments, status=2)
    assert words in message
    assert message.count("\n") == 1


def test_the_console_script_ends_with_status_2_and_no_traceback(tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("collector")), "explain"]
    environment = {**os.environ, "COLLECTOR_DB": str(tmp_path / "\udcff.db")}
    ran = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert ran.returncode == 2
    assert ran.stderr.count("\n") == 1


def test_a_test_that_is_known_by_sandbox_and_time_alone(database: Database) -> None:
    """The harness has names of its own; the explanation says what it rests on, and is less sure."""
    database.span("", 127, command=("sh", "job.sh"))  # from second 1 on, for 900 ns
    sure = database.report("sh job.sh")
    assert (sure["match"], sure["coverage"]["attribution"]) == (None, "exact")
    line = {"test": "their-7", "outcome": "failed", "sandbox": "s1"}
    line |= {"started_at": "1970-01-01T00:00:00.9Z", "duration_s": 1}
    path = database.path.with_name("lines")
    path.write_text(json.dumps(line))
    database.run("import", str(path), "--run", "r1")
    report = database.report("their-7")
    assert (report["match"], report["coverage"]["attribution"]) == ("time", "time")
    assert report["verdict"]["cause"] == sure["verdict"]["cause"] == "exec.not_found"
    assert report["verdict"]["confidence"] < 0.8 * sure["verdict"]["confidence"]
    assert database.report()["failed"] == 1  # the span is the test's, not one of its own
    assert "matched by sandbox and time" in database.run("explain", "their-7")
    assert "1 of them matched by sandbox and time" in database.run("explain")


def test_a_test_that_is_known_by_its_id_says_so(database: Database) -> None:
    database.span("a/test_x.py::t1", 127)
    database.junit('<testcase classname="a.test_x" name="t1"><failure/></testcase>')
    assert database.report("t1")["match"] == "id"
    assert "matched" not in database.run("explain")


@pytest.mark.parametrize("name", ["inspect.eval", "inspect.json"])
def test_any_format_again_and_again(database: Database, name: str) -> None:
    log = Path(__file__).parent.parent / "data" / "outcomes" / name
    said = database.run("import", str(log), "--run", "r1")
    assert said == "imported 10 outcomes (2 error, 2 failed, 4 passed, 2 timeout) into run r1\n"
    before = database.report()
    assert database.run("import", str(log), "--run", "r1") == said
    assert database.report() == before


JQ = "exec ENOENT jq by sh"
SHADOW = "file EACCES /etc/shadow by sh"


def test_what_separates_failing_tests_from_passing_ones(database: Database) -> None:
    for number in range(6):
        database.span(f"f{number}", 1, features=(JQ, SHADOW))
    for number in range(20):
        database.span(f"p{number}", 0, features=(SHADOW,))
    told = database.report()["separating"]
    assert told == [{"feature": JQ, "suspicion": 1.0, "failing": 6, "passing": 0}]
    assert f"{JQ}: 6 of 6 failing, 0 of 20 passing" in database.run("explain")


def test_a_few_tests_separate_nothing(database: Database) -> None:
    database.span("f", 1, features=(JQ,))
    database.span("p", 0)
    assert database.report()["separating"] == []


def test_what_passing_tests_show_as_well_is_less_of_a_suspect(database: Database) -> None:
    database.span("alone", None, run="one")
    database.span("among", None, run="two", features=(SHADOW,))
    for number in range(20):
        database.span(f"p{number}", 0, run="two", features=(SHADOW,))

    def odds(report: dict[str, Any]) -> float:
        found = [report["verdict"], *report["alternatives"]]
        sure = max(one["confidence"] for one in found if one["cause"] == "fs.permission")
        return float(sure / (1 - sure))

    alone = database.report("--run", "one", "alone")
    among = database.report("--run", "two", "among")
    assert odds(among) < odds(alone) / 10


def test_a_call_that_never_arrived(database: Database) -> None:
    database.span("t1", 0)
    lines = [
        {"test": "t2", "outcome": "error", "client": {"error": "transport"}},
        {"test": "t3", "outcome": "error"},
    ]
    path = database.path.with_name("outcomes.jsonl")
    path.write_text("\n".join(map(json.dumps, lines)))
    database.run("import", str(path), "--run", "r1")
    assert database.report("t2")["verdict"]["cause"] == "interface.not_delivered"
    assert database.report("t3")["verdict"]["cause"] == "unknown"
    path.write_text('{"test": "t4", "outcome": "error", "client": {"error": "boredom"}}')
    told = database.run("import", str(path), "--run", "r1", status=2)
    assert "line 1: client: an error is one of timeout, transport" in told


@pytest.fixture
def begun(database: Database) -> Database:
    """With a test that has begun, and has not ended."""
    database.span("t1", None, outcome="lost", ended_ns=None)
    return database


def test_a_test_that_still_runs_has_not_failed(begun: Database) -> None:
    assert begun.run("explain").startswith("run r1: 0 failed, 0 passed, 1 still running")
    assert "still running" in begun.run("explain", "t1", status=2)


def test_a_sandbox_that_fell_silent_is_lost(
    begun: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = time.time_ns() + 61_000_000_000
    monkeypatch.setattr("time.time_ns", lambda: later)
    report = validated(begun.report("t1"))
    assert report["verdict"]["cause"] == "sandbox.lost"
    assert report["sandbox"]["silent_since"] in report["verdict"]["summary"]
    assert report["outcome"] == "lost"
    assert "sandbox.lost" in begun.run("explain")


def test_a_sandbox_that_came_back_as_another_boot_was_restarted(begun: Database) -> None:
    with contextlib.closing(open_store(str(begun.path))) as store:
        store.greet(Hello("s1", "b2", "0.1.0", COVERAGE, 0))
    report = validated(begun.report("t1"))
    assert report["verdict"]["cause"] == "sandbox.restarted"
    assert report["sandbox"]["next_boot"] == "b2"
    assert all(boot in report["verdict"]["summary"] for boot in ("b1", "b2"))


def test_what_ended_before_its_sandbox_was_lost_keeps_its_cause(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.span("t1", 127)
    with contextlib.closing(open_store(str(database.path))) as store:
        store.greet(Hello("s1", "b2", "0.1.0", COVERAGE, 0))
    later = time.time_ns() + 3600_000_000_000
    monkeypatch.setattr("time.time_ns", lambda: later)
    assert database.report("t1")["verdict"]["cause"] == "exec.not_found"


def test_a_harness_that_timed_out_while_the_sandbox_was_away(begun: Database) -> None:
    with contextlib.closing(open_store(str(begun.path))) as store:
        store.greet(Hello("s1", "b2", "0.1.0", COVERAGE, 0))
    begun.junit('<testcase name="t1"><error message="no answer"/></testcase>')
    report = begun.report("t1")
    assert report["outcome"] == "error"
    assert report["verdict"]["cause"] == "sandbox.restarted"
