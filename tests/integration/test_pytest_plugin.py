"""Each pytest test is a span of its own, alone and under pytest-xdist."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Agent, Collector, validated, wait_for

pytestmark = pytest.mark.bpf

TESTS = """
import os, socket, subprocess, pytest

def test_passes():
    subprocess.run(["true"], check=True)

def test_missing_tool():
    subprocess.run(["frobnicate"], check=True)

def test_refused():
    socket.create_connection(("127.0.0.1", 1))

def test_own_fault():
    assert sum([1, 2]) == 4

def test_own_fault_after_a_handled_refusal():
    try:
        socket.create_connection(("127.0.0.1", 1))
    except OSError:
        pass
    assert sum([1, 2]) == 4

def test_child_crashes():
    subprocess.run(["bash", "-c", "kill -SEGV $$"], check=True)

@pytest.fixture
def broken():
    raise RuntimeError("no set-up")

def test_error_in_setup(broken):
    pass

@pytest.mark.skip
def test_skipped():
    pass
"""
CAUSES = {
    "test_passes": None,
    "test_missing_tool": "exec.not_found",
    "test_refused": "net.refused",
    "test_own_fault": "workload.failed",
    "test_own_fault_after_a_handled_refusal": "workload.failed",
    "test_child_crashes": "workload.crashed",
    "test_error_in_setup": "workload.failed",
}


@pytest.mark.parametrize("options", [[], ["-n", "2"]], ids=["alone", "xdist"])
def test_every_test_gets_its_cause(options: list[str], tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    collector = Collector(tmp_path)
    agent = Agent(tmp_path, "--collector", collector.address)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--probe-run", "r", *options, "test_it.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PROBE_SOCKET": agent.socket},
        check=False,
    )
    assert done.returncode == 1 and "1 passed" in done.stdout, done.stdout + done.stderr
    agent.stop()
    collector.stop()
    for name, cause in CAUSES.items():
        report = validated(collector.explain("r", f"test_it.py::{name}"))
        verdict = report["verdict"]
        assert (verdict and verdict["cause"]) == cause, (name, verdict)
        assert report["coverage"]["attribution"] == "exact"


def test_without_an_agent_nothing_changes(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_passes(): pass\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "test_it.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PROBE_SOCKET": "/nonexistent"},
        check=False,
    )
    assert done.returncode == 0 and "1 passed" in done.stdout


def test_an_agent_that_dies_fails_no_test(tmp_path: Path) -> None:
    own = Agent(tmp_path)
    (tmp_path / "test_it.py").write_text(
        f"import os, signal\ndef test_a(): os.kill({own.process.pid}, signal.SIGKILL)\n"
        "def test_b(): pass\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "test_it.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PROBE_SOCKET": own.socket},
        check=False,
    )
    wait_for(lambda: own.process.poll() is not None)
    assert "2 passed" in done.stdout, done.stdout
