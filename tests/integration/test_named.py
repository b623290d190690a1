"""Spans that a variable in a program's environment begins, as the kernel starts the program."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import BIN, Agent, Collector, wait_for

from probe import local
from probe.agent import NAMED_PER_USER

pytestmark = pytest.mark.bpf

MANY = {f"VARIABLE_{number}": "x" * (number * 40) for number in range(100)}


def start(*command: str, **environment: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, **environment}
    return subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)


def status(agent: Agent, what: str = "status", **asked: Any) -> dict[str, Any]:
    client = local.connect(agent.socket)
    assert client is not None
    return client.ask({"do": what, **asked})


def test_a_program_names_its_test(tmp_path: Path) -> None:
    collector = Collector(tmp_path)
    agent = Agent(tmp_path, "--collector", collector.address)
    named = {**MANY, "PROBE_TEST": "t17", "PROBE_RUN": "nightly"}
    failing = start("bash", "-c", "(cat /no/such/thing) || exit 3", **named)
    passing = start("true", PROBE_RUN="nightly", PROBE_TEST="quick")
    assert (failing.wait(), passing.wait()) == (3, 0)
    start("cat", "/no/such/other", PROBE_TESTS="none", NOT_PROBE_TEST="none").wait()
    wait_for(lambda: status(agent, "why", test="t17")["reports"])
    agent.stop()
    collector.stop()
    report = collector.explain("nightly", "t17")
    assert report["verdict"]["cause"] == "fs.missing"
    assert report["span"]["command"] == ["bash", "-c", "(cat /no/such/thing) || exit 3"]
    assert report["span"]["exit_code"] == 3
    exits = [event for event in report["events"] if event["kind"] == "exit"]
    assert [event["code"] for event in exits][-1] == 3 and len(exits) >= 2
    assert not any("other" in str(event) for event in report["events"])
    database = sqlite3.connect(collector.database)
    outcomes = database.execute("SELECT test, outcome FROM spans ORDER BY test").fetchall()
    assert outcomes == [("quick", "passed"), ("t17", "failed")]


def test_a_span_by_hand_is_within(tmp_path: Path) -> None:
    agent = Agent(tmp_path)
    command = (str(BIN / "probe"), "run", "--test", "inner", "--explain", "never", "--", "false")
    start(*command, PROBE_TEST="outer", PROBE_SOCKET=agent.socket).wait()
    wait_for(lambda: status(agent, "why", test="outer")["reports"])
    [inner] = status(agent, "why", test="inner")["reports"]
    assert inner["span"]["command"] == ["false"]
    agent.stop()


def test_there_are_only_so_many(tmp_path: Path) -> None:
    agent = Agent(tmp_path)
    sleepers = [start("sleep", "100", PROBE_TEST=f"t{n}") for n in range(NAMED_PER_USER + 20)]
    wait_for(lambda: status(agent)["open_spans"] == NAMED_PER_USER)
    for sleeper in sleepers:
        sleeper.kill()
        sleeper.wait()
    wait_for(lambda: status(agent)["open_spans"] == 0)
    assert start("false", PROBE_TEST="after").wait() == 1
    wait_for(lambda: status(agent, "why", test="after")["reports"])
    agent.stop()
