"""`collector status`, `prune`, `backup` and the metrics of `collector serve`, on both databases."""

from __future__ import annotations

import json
import signal
import socket
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from test_collector_serve import LIMIT_S, Collector, converse, probe_of, until
from test_collector_serve import impatient as impatient

from collector import cli
from probe.coverage import SENSES, Coverage, Losses
from probe.span import Span

COVERAGE = Coverage("core", dict.fromkeys(SENSES, "full"))
Run = Callable[..., str]


@pytest.fixture
def run(url: str, capsys: pytest.CaptureFixture[str]) -> Run:
    """A command on the database; what it prints on stdout, or on stderr where it is to fail."""

    def run(*arguments: str, status: int = 0) -> str:
        assert cli.main([*arguments, "--db", url]) == status
        captured = capsys.readouterr()
        return captured.err if status else captured.out

    return run


@pytest.fixture
def outcomes(tmp_path: Path) -> str:
    path = tmp_path / "lines"
    path.write_text('{"test": "t1", "outcome": "failed"}\n{"test": "t2", "outcome": "passed"}\n')
    return str(path)


def test_status(run: Run, outcomes: str) -> None:
    assert "--db" in run("status", status=2)
    run("import", outcomes, "--run", "r1")
    status = json.loads(run("status", "--json"))
    assert status["schema"] == "collector.status/1"
    assert (status["runs"], status["outcomes"], status["sandboxes"]) == (1, 2, 0)
    assert (status["latest_runs"], status["last_heard_at"]) == (["r1"], None)
    assert status["size"] > 0
    printed = run("status")
    assert "secret" not in printed
    assert "runs      1, the latest r1\n" in printed


def test_prune(run: Run, outcomes: str) -> None:
    for name in ("r1", "r2"):
        run("import", outcomes, "--run", name)
    assert run("prune", "--run", "r1") == "pruned 1 runs\n"
    assert "no run 'r1'" in run("prune", "--run", "r1", status=2)
    assert run("prune", "--older-than", "1h") == "pruned nothing\n"
    assert run("prune", "--older-than", "0s") == "pruned 1 runs\n"
    assert json.loads(run("status", "--json"))["runs"] == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["prune"], "nothing to prune is named: give --older-than"),
        (["prune", "--older-than", "7"], "'7': no age: give 90min"),
        (["prune", "--older-than", "-1d"], "no age"),
        (["import", "x", "--run", "r" * 2000], "the name is too long"),
    ],
)
def test_bad_input_is_named(run: Run, arguments: list[str], words: str) -> None:
    message = run(*arguments, status=2) if len(arguments) != 3 else _usage(run, arguments)
    assert words in message
    assert message.count("\n") == 1


def _usage(run: Run, arguments: list[str]) -> str:
    return run(*arguments[:1], "=".join(arguments[1:]), status=2)


def test_a_prune_makes_no_database(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "none.db"
    assert cli.main(["prune", "--older-than", "1d", "--db", str(path)]) == 2
    assert "no such database" in capsys.readouterr().err
    assert not path.exists()


def test_backup(run: Run, url: str, outcomes: str, tmp_path: Path) -> None:
    run("import", outcomes, "--run", "r1")
    copy = tmp_path / "copy.db"
    if "://" in url:
        assert "pg_dump" in run("backup", str(copy), status=2)
        return
    assert run("backup", str(copy)) == f"copied to {copy}\n"
    assert "is there already" in run("backup", str(copy), status=2)
    assert cli.main(["explain", "--run", "r1", "--db", str(copy)]) == 0


def samples(address: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=LIMIT_S) as answer:
        text = answer.read().decode()
    return {
        "".join([sample.name, *sample.labels.values()]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics(tmp_path: Path, url: str) -> None:
    collector = Collector(tmp_path, "127.0.0.1:0", "--metrics", "127.0.0.1:0", db=url)
    [record] = collector.records("listening")
    with probe_of("s1", collector.address) as (client, put):
        for _ in range(10):
            put()
        ended = Span(7, "r1", "t1", (), "s1", "b1", 1, 0, ended_ns=5)
        client.put_span(ended, COVERAGE, Losses({"exec": 3, "a label of its own": 1}))
        assert client.drain(LIMIT_S)
        open_now = samples(record["metrics"])
    assert open_now["collector_streams"] == 1
    assert open_now["collector_items_totalevent"] == 10
    assert open_now["collector_items_totalspan"] == 1
    assert open_now["collector_lost_events_totalexec"] == 3
    assert open_now["collector_lost_events_totalother"] == 1
    assert open_now["collector_store_seconds_countadd"] >= 1
    assert open_now["collector_lag_seconds_count"] == open_now["collector_deliveries_total"] >= 1
    converse(collector.address, b"\xff\xff\xff")
    until(lambda: samples(record["metrics"])["collector_streams"] == 0)
    assert samples(record["metrics"])["collector_refused_streams_totalrefused"] == 1
    assert collector.end() == 0


def test_a_hangup_reads_the_tokens_and_ends_nothing(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.touch()
    collector = Collector(tmp_path, "127.0.0.1:0", "--tokens", str(tokens))
    for count in range(1, 3):
        assert cli.main(["token", "s1", "--tokens", str(tokens)]) == 0
        collector.process.send_signal(signal.SIGHUP)
        until(lambda: len(collector.records("tokens read")) == count)  # noqa: B023
    assert [record["count"] for record in collector.records("tokens read")] == [1, 2]
    assert collector.end() == 0


def test_metrics_where_it_cannot_listen(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    database = str(tmp_path / "c.db")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        for address in (f"127.0.0.1:{taken.getsockname()[1]}", "nonsense", "[::1"):
            options = ["--listen", "127.0.0.1:0", "--metrics", address, "--db", database]
            assert cli.main(["serve", *options]) == 2
            said = capfd.readouterr().err.splitlines()[-1]
            assert f"--metrics {address}" in said
