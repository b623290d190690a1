"""The collector's commands where streams are closed, full or endless, and files are others'."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

LIMIT_S = 30.0
XML = '<testsuite><testcase name="t1"><failure message="boo"/></testcase></testsuite>'
# A user who may read a database, but write neither it nor beside it; imports what root may read.
ANOTHER = """
import os, sys
from collector import cli, explanation, text
import probe.diagnose, probe.report, probe.text
if os.geteuid() == 0:
    os.setuid(65534)
sys.exit(cli.main(sys.argv[1:]))
"""


def environment(folder: Path) -> dict[str, str]:
    command = f"{sys.executable} -m collector.cli"
    return {**os.environ, "COLLECTOR": command, "COLLECTOR_DB": str(folder / "c.db")}


def shell(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A bash script with $COLLECTOR, a report x.xml, and a place of its own."""
    command = ["bash", "-c", script]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=folder, env=environment(folder), timeout=60
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "x.xml").write_text(XML)
    assert shell("$COLLECTOR import x.xml --run r1", tmp_path).returncode == 0
    return tmp_path


FULL, CLOSED = "cannot write to stdout: No space left on device", "stdout is closed"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("$COLLECTOR explain >&-", CLOSED),
        ("$COLLECTOR explain --json >&-", CLOSED),
        ("$COLLECTOR import x.xml --run r2 >&-", CLOSED),
        ("$COLLECTOR explain >/dev/full", FULL),
        ("$COLLECTOR explain t1 >/dev/full", FULL),
        ("$COLLECTOR explain --json >/dev/full", FULL),
        ("$COLLECTOR import x.xml --run r2 >/dev/full", FULL),
        ("$COLLECTOR --help >/dev/full", FULL),
        ("$COLLECTOR nonsense", "see collector --help"),
        ("$COLLECTOR explain >&- 2>&-", ""),
        ("$COLLECTOR explain >/dev/full 2>/dev/full", ""),
        ("$COLLECTOR explain t9 2>/dev/full", ""),
        ("$COLLECTOR nonsense 2>/dev/full", ""),
        ("$COLLECTOR nonsense 2>&-", ""),
    ],
)
def test_output_that_cannot_be_written(folder: Path, script: str, words: str) -> None:
    ran = shell(script, folder)
    assert ran.returncode == 2
    assert ran.stderr.count("\n") == (1 if words else 0)
    assert words in ran.stderr


@pytest.mark.parametrize("stderr", ["2>&-", "2>/dev/full"])
def test_notes_that_cannot_be_written_stop_nothing(folder: Path, stderr: str) -> None:
    ran = shell(f"$COLLECTOR explain {stderr}", folder)
    assert (ran.returncode, ran.stdout.splitlines()[0]) == (0, "run r1: 1 failed, 0 passed")


@pytest.mark.parametrize("arguments", [["explain"], ["explain", "--json"], ["explain", "t1"]])
def test_a_reader_that_has_gone_is_told_nothing(folder: Path, arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "collector.cli", *arguments]
    ran = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, env=environment(folder))
    os.close(writer)
    assert (ran.returncode, ran.stderr) == (141, b"")


def test_a_locale_without_our_signs(folder: Path) -> None:
    ran = shell("PYTHONIOENCODING=latin-1 $COLLECTOR explain", folder)
    assert ran.returncode == 0
    assert r"\u2192 run it under" in ran.stdout


@pytest.mark.parametrize(
    "script",
    [
        "$COLLECTOR import - --run r2 < x.xml",
        "$COLLECTOR import /dev/stdin --run r2 < x.xml",
        "cat x.xml | $COLLECTOR import - --run r2",
        "$COLLECTOR import <(cat x.xml) --run r2",
    ],
)
def test_outcomes_from_a_pipe(folder: Path, script: str) -> None:
    ran = shell(script, folder)
    assert (ran.returncode, ran.stdout) == (0, "imported 1 outcome (1 failed) into run r2\n")


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("$COLLECTOR import /dev/zero --run r2", "/dev/zero: a device"),
        ("$COLLECTOR import - --run r2 < /dev/zero", "standard input: more than 256 MiB"),
        ("$COLLECTOR import - --run r2 <&-", "standard input: closed"),
        ("$COLLECTOR import - - --run r2 < x.xml", "standard input: the file is empty"),
        ("$COLLECTOR import x.xml --run ''", "--run: the name is empty"),
        ("$COLLECTOR import x.xml --run $'\\xff'", "not UTF-8"),
    ],
)
def test_what_cannot_be_imported(folder: Path, script: str, words: str) -> None:
    ran = shell(script, folder)
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert words in ran.stderr
    assert shell("$COLLECTOR explain --run r2", folder).returncode == 2


@pytest.fixture
def unwritable() -> Iterator[Path]:
    """Where any user may look, which pytest's own folders forbid."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "x.xml").write_text(XML)
        assert shell("$COLLECTOR import x.xml --run r1", folder).returncode == 0
        folder.joinpath("c.db").chmod(0o444)
        folder.chmod(0o555)
        yield folder
        folder.chmod(0o755)


def explain_as_another(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", ANOTHER, "explain"]
    return subprocess.run(command, capture_output=True, text=True, env=environment(folder))


def test_a_database_that_one_may_only_read(unwritable: Path) -> None:
    before = sorted(os.listdir(unwritable))
    ran = explain_as_another(unwritable)
    assert (ran.returncode, ran.stdout.splitlines()[0]) == (0, "run r1: 1 failed, 0 passed")
    assert sorted(os.listdir(unwritable)) == before


def test_a_crashed_collectors_database_that_one_may_only_read(unwritable: Path) -> None:
    """What was committed last is in the WAL, and its index is not there."""
    unwritable.chmod(0o755)
    unwritable.joinpath("c.db-wal").write_bytes(b"\x37\x7f\x06\x82" + bytes(28))
    unwritable.chmod(0o555)
    ran = explain_as_another(unwritable)
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert "c.db: unable to open" in ran.stderr


@pytest.mark.parametrize("stderr", ["2>&-", "2>/dev/full"])
def test_a_log_that_nobody_takes_ends_no_collector(tmp_path: Path, stderr: str) -> None:
    address = f"unix:{tmp_path}/socket"
    script = f"exec $COLLECTOR serve --listen {address} {stderr}"
    with subprocess.Popen(["bash", "-c", script], env=environment(tmp_path)) as running:
        try:
            for _ in range(3):
                assert serves(address)
                nonsense(address)
        finally:
            running.send_signal(signal.SIGTERM)
        assert running.wait(LIMIT_S) == 0


def serves(address: str) -> bool:
    request = health_pb2.HealthCheckRequest(service="probe.v1.Collector")
    with grpc.insecure_channel(address) as channel:
        check = health_pb2_grpc.HealthStub(channel).Check
        answer = check(request, timeout=LIMIT_S, wait_for_ready=True)
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


def nonsense(address: str) -> None:
    """Something to log."""
    with grpc.insecure_channel(address) as channel:
        call = channel.stream_stream("/probe.v1.Collector/Stream")(
            iter([str(time.time_ns()).encode()]), timeout=LIMIT_S
        )
        with pytest.raises(grpc.RpcError):
            list(call)
