"""Collectors on PostgreSQL as processes: crashes of the server, and two collectors at once."""

from __future__ import annotations

import contextlib
import random
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from postgres import Server
from test_collector_serve import HELLO as HELLO
from test_collector_serve import LIMIT_S, Collector, converse, probe_of, until
from test_collector_serve import impatient as impatient

from collector import cli
from collector.store import open_store
from probe.span import Span

ROUNDS = 3
EVENTS = 400  # of each probe in each round
PROBES = 3


@pytest.fixture
def server() -> Iterator[Server]:
    """One that may be killed."""
    own = Server()
    yield own
    own.remove()


def sequences(url: str, sandbox: str) -> list[int]:
    span = Span(7, "r1", "t1", (), sandbox, "b1", 1, 0)
    with contextlib.closing(open_store(url, create=False)) as store:
        return sorted(event.sequence for event in store.events(span))


def test_a_server_that_is_killed_during_ingest(tmp_path: Path, server: Server) -> None:
    """At any moment: after it each event is there exactly once, and none is counted as lost."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    url = server.database()
    collectors = []
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        collectors.append(Collector(folder, db=url))
    with contextlib.ExitStack() as stack:
        probes = [
            stack.enter_context(
                probe_of(f"s{number}", collectors[number % 2].address, batch_items=10)
            )
            for number in range(PROBES)
        ]
        for _ in range(ROUNDS):
            before = len(sequences(url, "s0"))
            for _ in range(EVENTS):
                for _, put in probes:
                    put()
            enough = before + chance.randrange(1, EVENTS)
            until(lambda: len(sequences(url, "s0")) >= enough)  # noqa: B023
            server.stop(signal.SIGKILL)
            server.start()
        for client, _ in probes:
            assert client.drain(LIMIT_S)
            assert client.losses.total == 0
    for collector in collectors:
        assert collector.end() == 0
    for number in range(PROBES):
        assert sequences(url, f"s{number}") == list(range(1, ROUNDS * EVENTS + 1))


def test_a_server_that_is_away_when_a_probe_comes(tmp_path: Path, server: Server) -> None:
    url = server.database()
    collector = Collector(tmp_path, db=url)
    server.stop(signal.SIGKILL)
    code, _ = converse(collector.address, HELLO)
    assert code.name == "UNAVAILABLE"
    [record] = collector.records("not stored")
    assert "check that the server runs" in record["reason"]
    server.start()
    code, answers = converse(collector.address, HELLO)
    assert (code.name, len(answers)) == ("OK", 1)
    assert collector.end() == 0


def test_a_server_that_starts_after_the_collector(tmp_path: Path, server: Server) -> None:
    url = server.database()
    server.stop(signal.SIGKILL)
    starting = threading.Timer(1.5, server.start)
    starting.start()
    collector = Collector(tmp_path, db=url)  # which waits until it listens
    starting.join()
    assert collector.records("waiting for the database")
    assert collector.end() == 0


def test_a_server_that_never_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "PATIENCE_S", 0.1)
    nobody = f"postgresql:///d?host={tmp_path}"
    assert cli.main(["serve", "--listen", "127.0.0.1:0", "--db", nobody]) == 2
