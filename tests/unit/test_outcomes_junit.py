"""JUnit XML in the dialects of its writers, and everything that only looks like it."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.outcomes import Outcome, junit, read
from collector.outcomes.outcome import MESSAGE_LIMIT
from probe.problem import Problem

PYTEST = b"""<?xml version="1.0" encoding="utf-8"?>
<testsuites name="pytest tests"><testsuite name="pytest" errors="1" failures="2" skipped="1"
 tests="5" time="1.5" timestamp="2026-01-01T00:00:00" hostname="h">
<testcase classname="tests.test_x.TestC" name="test_name[a/b::c]" time="0.010" />
<testcase classname="tests.test_x" name="test_fails" time="0.020">
<failure message="AssertionError: assert 1 == 2">def test_fails():
&gt;   assert 1 == 2
E   AssertionError: assert 1 == 2</failure></testcase>
<testcase classname="tests.test_x" name="test_hangs" time="10.0">
<failure message="Failed: Timeout (&gt;10.0s) from pytest-timeout.">stack</failure></testcase>
<testcase classname="tests.test_x" name="test_skipped" time="0">
<skipped type="pytest.skip" message="no network">tests/test_x.py:9: no network</skipped></testcase>
<testcase classname="tests.test_x" name="test_teardown" time="0.1" />
<testcase classname="tests.test_x" name="test_teardown" time="0.1">
<error message='failed on teardown with "OSError"'>OSError: [Errno 28]</error></testcase>
</testsuite></testsuites>"""

GO = b"""<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="2" failures="1">
<testsuite name="example.com/shop" tests="2" failures="1" errors="0" id="0">
<properties><property name="go.version" value="go1.22"></property></properties>
<testcase name="TestCart/empty" classname="example.com/shop" time="0.000"></testcase>
<testcase name="TestPay" classname="example.com/shop" time="0.030">
<failure message="Failed"><![CDATA[    pay_test.go:12: dial tcp 10.0.0.1:443: refused]]></failure>
</testcase></testsuite></testsuites>"""

SUREFIRE = b"""<?xml version="1.0" encoding="UTF-8"?>
<testsuite xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
 xsi:noNamespaceSchemaLocation="https://maven.apache.org/surefire.xsd" version="3.0"
 name="com.acme.PayTest" time="1,234.5" tests="3" errors="1" skipped="0" failures="0">
<properties><property name="java.version" value="17"/></properties>
<testcase name="charges" classname="com.acme.PayTest" time="1,234.5">
<error message="Connection refused" type="java.net.ConnectException"><![CDATA[
java.net.ConnectException: Connection refused
	at com.acme.Pay.charge(Pay.java:10)]]></error>
<rerunError message="again" type="java.net.ConnectException"/>
<system-out>noise</system-out></testcase>
<testcase name="flaky" classname="com.acme.PayTest" time="0.1">
<flakyFailure message="once" type="AssertionError">x</flakyFailure></testcase>
<testcase name="hangs" classname="com.acme.PayTest" time="0.1"><error
 type="org.junit.runners.model.TestTimedOutException"
>org.junit.runners.model.TestTimedOutException: test timed out after 100 milliseconds</error>
</testcase></testsuite>"""


def outcomes(path: Path, content: bytes) -> dict[str, Outcome]:
    path.write_bytes(content)
    return {outcome.test: outcome for outcome in read(path)}


def test_pytest(tmp_path: Path) -> None:
    found = outcomes(tmp_path / "x.xml", PYTEST)
    assert {test.removeprefix("tests.test_x."): one.outcome for test, one in found.items()} == {
        "TestC.test_name[a/b::c]": "passed",
        "test_fails": "failed",
        "test_hangs": "timeout",
        "test_skipped": "skipped",
        "test_teardown": "error",
    }
    failure = found["tests.test_x.test_fails"]
    assert failure.duration_s == 0.02
    assert failure.message is not None
    assert failure.message.count("AssertionError: assert 1 == 2") == 1


def test_go(tmp_path: Path) -> None:
    found = outcomes(tmp_path / "x.xml", GO)
    assert found["example.com/shop.TestCart/empty"].outcome == "passed"
    failure = found["example.com/shop.TestPay"]
    assert (failure.outcome, failure.name) == ("failed", "TestPay")
    assert failure.message == "Failed\npay_test.go:12: dial tcp 10.0.0.1:443: refused"


def test_surefire(tmp_path: Path) -> None:
    found = outcomes(tmp_path / "x.xml", SUREFIRE)
    error = found["com.acme.PayTest.charges"]
    assert (error.outcome, error.duration_s) == ("error", 1234.5)
    assert error.message is not None
    assert error.message.startswith("java.net.ConnectException: Connection refused")
    assert found["com.acme.PayTest.flaky"].outcome == "passed"
    assert found["com.acme.PayTest.hangs"].outcome == "timeout"


SOURCE = """def test_reads():
    try:
        open("/etc/shadow")
    except PermissionError:
        pass
"""


def said(short: str, text: str, kind: str = "") -> str | None:
    case = ElementTree.Element("testcase", name="t")
    given = {"message": short, "type": kind}
    failure = ElementTree.SubElement(case, "failure", {k: v for k, v in given.items() if v})
    failure.text = text
    suite = ElementTree.Element("testsuite")
    suite.append(case)
    [outcome] = junit.parse(ElementTree.tostring(suite))
    return outcome.message


LONG = f"{SOURCE}>       return config['a']\nE       KeyError: 'a'\n\nx.py:9: KeyError\n"
CHAINED = f"{LONG}\nDuring handling ...\n\n{SOURCE}>  raise X\nE       ValueError: 3\n"
NO_FIXTURE = f"file x.py, line 1\n  {SOURCE}\nE       fixture 'x' not found\n>    available: y"
DOCTEST = """016
017     >>> reads()  # except PermissionError
UNEXPECTED EXCEPTION: KeyError('a')
Traceback (most recent call last):
  File "doctest.py", line 1351, in __run
    except PermissionError: exec(
KeyError: 'a'"""
DOCTEST_SAYS = "UNEXPECTED EXCEPTION: KeyError('a')\nKeyError: 'a'"
NATIVE = DOCTEST.partition("KeyError('a')\n")[2]
DIFF = "assert 1 == 2\n  \n  where 1 = f()"


@pytest.mark.parametrize(
    ("short", "text", "words"),
    [
        ("KeyError: 'a'", LONG, "KeyError: 'a'"),
        ("KeyError", LONG, "KeyError: 'a'"),
        ("", LONG, "KeyError: 'a'"),
        ("ValueError: 3", CHAINED, "KeyError: 'a'\nValueError: 3"),
        (
            DIFF,
            f"{SOURCE}E   assert 1 == 2\nE     \nE     where 1 = f()",
            "assert 1 == 2\nwhere 1 = f()",
        ),
        (f'failed on setup with "{NO_FIXTURE}"', NO_FIXTURE, "fixture 'x' not found"),
        ("KeyError: 'a'", NATIVE, "KeyError: 'a'"),
        (DOCTEST, DOCTEST, DOCTEST_SAYS),
        ("KeyError: 'a'", f"{SOURCE}without any mark", "KeyError: 'a'"),
    ],
)
def test_of_pytests_text_only_what_exceptions_say(short: str, text: str, words: str) -> None:
    assert said(short, text) == words


STACK = """java.io.IOException: cannot load
\tat com.acme.Pay.charge(Pay.java:10)
\tSuppressed: java.nio.file.AccessDeniedException: /etc/shadow
Caused by: java.net.ConnectException: refused
\t... 23 more"""


@pytest.mark.parametrize(
    ("short", "kind", "words"),
    [
        ("cannot load", "java.io.IOException", ""),
        ("", "", ""),
        ("cannot load, twice", "java.io.IOException", "cannot load, twice\n"),
    ],
)
def test_of_a_stack_trace_the_first_line_and_the_causes(short: str, kind: str, words: str) -> None:
    told = "java.io.IOException: cannot load\nCaused by: java.net.ConnectException: refused"
    assert said(short, STACK, kind) == words + told


def test_a_failure_without_a_text() -> None:
    assert said("refused", "", "java.net.ConnectException") == "java.net.ConnectException: refused"
    assert said("", "", "java.lang.AssertionError") == "java.lang.AssertionError"
    assert said("", "") is None


def test_a_long_message_keeps_its_beginning_and_its_end() -> None:
    content = b"<testsuite><testcase name='t'><failure>A" + b"x" * 99_999 + b"Z</failure>"
    [outcome] = junit.parse(content + b"</testcase></testsuite>")
    assert outcome.message is not None
    assert outcome.message[0] + outcome.message[-1] == "AZ"
    assert len(outcome.message) <= MESSAGE_LIMIT + 3


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"results: none", "not a known format"),
        (b"\x7fELF\x02", "not a known format"),
        (b"<html><body/></html>", "root is <html>"),
        (PYTEST[:400], "broken XML .*may be cut off"),
        (b"<testsuite>\n<testcase></testsuite>", "mismatched tag: line 2.*write it again"),
        (b"<testsuite>\n\x1b[31m</testsuite>", r"U\+001B, which XML forbids, in line 2"),
        (b"<testsuite>&#9;\n&#27;</testsuite>", r"U\+001B, which XML forbids, in line 2"),
        (b"<testsuite>&#x9;&#x0;</testsuite>", r"U\+0000, which XML forbids, in line 1"),
        (b"<testsuite>&#xd800;</testsuite>", r"U\+D800, which XML forbids, in line 1"),
        (b"<testsuite>\n\x00\x00\x00", r"U\+0000, which XML forbids, in line 2"),
        ("<testsuite>\n\x01".encode("utf-16"), r"U\+0001, which XML forbids, in line 2"),
        (b"<testsuite><testcase/></testsuite>", "without a name"),
        (b'<?xml version="1.0" encoding="nix"?><testsuite/>', "broken XML"),
        (
            b'<!DOCTYPE x [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]><testsuite>&b;</testsuite>',
            "entity declarations",
        ),
    ],
)
def test_what_is_not_junit_is_named(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "report"
    path.write_bytes(content)
    with pytest.raises(Problem, match=words) as problem:
        read(path)
    assert str(problem.value).startswith(str(path))
    assert "\n" not in str(problem.value)


def test_more_than_anybody_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[read.__module__], "LIMIT", len(GO))
    assert outcomes(tmp_path / "x.xml", GO)
    with pytest.raises(Problem, match="more than 0 MiB"):
        outcomes(tmp_path / "x.xml", GO + b" ")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "latin-1"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    declared = "latin-1" if encoding == "latin-1" else encoding.replace("-sig", "")
    text = (
        f'<?xml version="1.0" encoding="{declared}"?><testsuite><testcase name="té"/></testsuite>'
    )
    assert list(outcomes(tmp_path / "x.xml", text.encode(encoding))) == ["té"]


@given(st.binary(max_size=400))
def test_random_bytes_give_a_problem_or_outcomes(content: bytes) -> None:
    _parses_or_tells(content)
    _parses_or_tells(b"<" + content)


@given(
    st.sampled_from([PYTEST, GO, SUREFIRE]),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 3), st.binary(max_size=6)), min_size=1),
)
def test_mutated_reports_give_a_problem_or_outcomes(
    content: bytes, edits: list[tuple[float, int, bytes]]
) -> None:
    for place, cut, insertion in edits:
        at = int(place * len(content))
        content = content[:at] + insertion + content[at + cut :]
    _parses_or_tells(content)


def _parses_or_tells(content: bytes) -> None:
    try:
        for outcome in junit.parse(content):
            assert outcome.test
            outcome.test.encode()
    except Problem:
        pass
