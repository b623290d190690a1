"""`collector serve` as a process: real gRPC, a real database, kills and nonsense."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from conftest import STARTED
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from collector.store import open_store
from probe import stream
from probe.access import Access
from probe.coverage import SENSES, Coverage, Losses
from probe.events import Exit
from probe.message import event_message
from probe.queue import LOSS_SEQUENCES, SPANS
from probe.span import Span
from probe.stream import Stream
from probe.wire import stream_pb2 as wire

COVERAGE = Coverage("core", dict.fromkeys(SENSES, "full"))
LIMIT_S = 30.0
METHOD = "/probe.v1.Collector/Stream"


class Collector:
    """One `collector serve` on a database."""

    def __init__(
        self, directory: Path, address: str = "127.0.0.1:0", *options: str, db: str | None = None
    ) -> None:
        self.db = db or str(directory / "c.db")
        self.log = directory / "log"
        command = [sys.executable, "-m", "collector.cli", "serve", "--listen", address]
        with self.log.open("w") as log:
            self.process = subprocess.Popen([*command, *options, "--db", self.db], stderr=log)
        STARTED.append(self.process)
        until(lambda: self.records("listening") or self.process.poll() is not None)
        [record] = self.records("listening")
        self.address: str = record["address"]

    def records(self, event: str) -> list[dict[str, Any]]:
        lines = self.log.read_text().splitlines()
        return [record for line in lines if (record := json.loads(line))["event"] == event]

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(LIMIT_S)

    def sequences(self, sandbox: str, key: int = 7) -> list[int]:
        span = Span(key, "r1", "t1", (), sandbox, "b1", 1, 0)
        with contextlib.closing(open_store(self.db, create=False)) as store:
            return sorted(event.sequence for event in store.events(span))


def until(condition: Callable[[], object]) -> None:
    limit = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < limit, "it did not happen in time"
        threading.Event().wait(0.005)


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Collector]:
    running = Collector(tmp_path)
    yield running
    if running.process.poll() is None:
        running.end(signal.SIGKILL)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "FIRST_DELAY_S", 0.005)


@contextlib.contextmanager
def probe_of(sandbox: str, address: str, **options: Any) -> Iterator[tuple[Stream, Any]]:
    counter = itertools.count(1)

    def put() -> None:
        sequence = next(counter)
        client.put_event(Exit(sequence=sequence, time_ns=sequence, pid=1, span=7, code=0))

    given: dict[str, Any] = {"sandbox": sandbox, "boot": "b1", "coverage": COVERAGE}
    given["linger_s"] = 0.005
    with contextlib.closing(Stream(Access((address,)), **given | options)) as client:
        yield client, put


def converse(address: str, *messages: bytes) -> tuple[grpc.StatusCode, list[bytes]]:
    """Raw bytes there and back: the status, and what came before it."""
    answers: list[bytes] = []
    with grpc.insecure_channel(address) as channel:
        call = channel.stream_stream(METHOD)(iter(messages), timeout=LIMIT_S)
        with contextlib.suppress(grpc.RpcError):
            answers.extend(call)
        return call.code(), answers


HELLO = wire.ProbeMessage(hello=wire.Hello(sandbox="s1", boot="b1")).SerializeToString()


def batch(*items: wire.Item) -> bytes:
    return wire.ProbeMessage(batch=wire.Batch(items=items)).SerializeToString()


def item(sequence: int, **fields: Any) -> wire.Item:
    event = Exit(sequence=sequence, time_ns=1, pid=1, span=7, **fields)
    return wire.Item(sequence=sequence, event=event_message(event))


def test_twenty_probes_at_once(collector: Collector) -> None:
    with contextlib.ExitStack() as stack:
        probes = [
            stack.enter_context(probe_of(f"s{number}", collector.address)) for number in range(20)
        ]
        for _ in range(200):
            for _, put in probes:
                put()
        for number, (client, _) in enumerate(probes):
            span = Span(7, "r1", f"t{number}", ("true",), f"s{number}", "b1", 1, number)
            client.put_span(span, COVERAGE, Losses({"exec": 1}))
        assert all(client.drain(LIMIT_S) for client, _ in probes)
    for number in range(20):
        assert collector.sequences(f"s{number}") == list(range(1, 201))
    with contextlib.closing(open_store(str(collector.db))) as store:
        found = store.observations("r1")
        assert [one.span.test for one in found] == [f"t{number}" for number in range(20)]
        assert {one.losses.total for one in found} == {1}


def test_two_probes_of_one_boot(collector: Collector) -> None:
    """Two `probe run` in one sandbox: the one that began first ends last."""
    with probe_of("s1", collector.address) as (first, put_first):
        with probe_of("s1", collector.address) as (second, _):
            for sequence in range(1001, 1011):
                second.put_event(Exit(sequence=sequence, time_ns=1, pid=1, span=7))
            assert second.drain(LIMIT_S)
        for _ in range(10):
            put_first()
        assert first.drain(LIMIT_S)
    assert collector.sequences("s1") == [*range(1, 11), *range(1001, 1011)]


def test_killed_in_mid_stream_and_started_again(tmp_path: Path, collector: Collector) -> None:
    kills = 3
    with probe_of("s1", collector.address, batch_items=10) as (client, put):
        for _ in range(kills):
            before = collector.sequences("s1")
            for _ in range(300):
                put()
            enough = len(before) + random.randrange(1, 300)
            until(lambda: len(collector.sequences("s1")) >= enough)  # noqa: B023
            assert collector.end(signal.SIGKILL) == -signal.SIGKILL
            collector = Collector(tmp_path, collector.address)
        assert client.drain(LIMIT_S)
        assert client.losses.total == 0
    assert collector.end() == 0
    assert collector.sequences("s1") == list(range(1, 300 * kills + 1))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_graceful_stop_does_not_wait_for_open_streams(collector: Collector, number: int) -> None:
    with probe_of("s1", collector.address) as (client, put):
        put()
        assert client.drain(LIMIT_S)
        began = time.monotonic()
        assert collector.end(number) == 0
        assert time.monotonic() - began < 3
        until(lambda: client.error is not None)
    assert [record["event"] for record in map(json.loads, collector.log.read_text().splitlines())]
    assert collector.records("stopped")
    assert collector.sequences("s1") == [1]


NAN = wire.Item(
    sequence=1,
    event=wire.Event(sequence=1, exit=wire.Exit(duration_s=float("nan"))),
)


INFINITE = wire.Item(sequence=1, event=wire.Event(sequence=1, oom=wire.Oom(pressure=float("inf"))))


@pytest.mark.parametrize(
    "messages",
    [
        (b"\xff\xff\xff",),
        (b"",),
        (batch(item(1)),),
        (HELLO, HELLO),
        (wire.ProbeMessage(hello=wire.Hello(sandbox="s1")).SerializeToString(),),
        (wire.ProbeMessage(hello=wire.Hello(sandbox="s" * 2000, boot="b")).SerializeToString(),),
        (HELLO, batch(wire.Item(sequence=1))),
        (HELLO, batch(item(2), item(2))),
        (HELLO, batch(item(2)), batch(item(1))),
        (HELLO, batch(wire.Item(sequence=1 << 63, event=wire.Event(sequence=1 << 63)))),
        (HELLO, batch(wire.Item(sequence=0, event=wire.Event(exit=wire.Exit())))),
        (HELLO, batch(wire.Item(sequence=1, event=wire.Event(exit=wire.Exit())))),
        (HELLO, batch(wire.Item(sequence=1, event=wire.Event(sequence=1 << 63, exit=wire.Exit())))),
        (HELLO, batch(wire.Item(sequence=1, event=wire.Event(sequence=1)))),
        (HELLO, batch(item(1, count=1 << 63))),
        (HELLO, batch(NAN)),
        (HELLO, batch(INFINITE)),
        (HELLO, batch(wire.Item(sequence=1, span=wire.Span(key=1, outcome="fine")))),
        (HELLO, batch(*(item(number) for number in range(1, 5000)))),
        (HELLO, batch(item(1)).replace(b"\x0a", b"\x0a\x7f", 1)),
    ],
)
def test_nonsense_is_refused(shared: Collector, messages: tuple[bytes, ...]) -> None:
    code, _ = converse(shared.address, *messages)
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    with probe_of("another", shared.address) as (client, _):
        assert client.drain(LIMIT_S)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    running = Collector(tmp_path_factory.mktemp("shared"))
    STARTED.remove(running.process)  # it outlives the test that asked for it first
    yield running
    assert running.end() == 0


def test_a_message_beyond_the_limit(shared: Collector) -> None:
    code, _ = converse(shared.address, HELLO, b"\x00" * (5 << 20))
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_nonsense_is_logged_once_and_escaped(collector: Collector) -> None:
    hello = wire.ProbeMessage(hello=wire.Hello(sandbox="s\x1b[31m", boot="b")).SerializeToString()
    for _ in range(3):
        converse(collector.address, hello, hello)
    [record] = collector.records("refused")
    assert record["sandbox"] == "s\\x1b[31m"
    assert record["reason"] == "a second Hello"


def test_a_refusal_leaves_what_came_before_it(collector: Collector) -> None:
    code, answers = converse(collector.address, HELLO, batch(item(1)), batch(item(1)))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert len(answers) <= 2
    assert collector.sequences("s1") == [1]


def test_one_bad_item_costs_the_probe_that_item(collector: Collector) -> None:
    with probe_of("s1", collector.address, batch_items=50) as (client, put):
        for _ in range(100):
            put()
        client.put_span(Span(7, "r" * 5000, "t1", (), "s1", "b1", 1, 0), COVERAGE, Losses())
        for _ in range(100):
            put()
        assert client.drain(LIMIT_S)
        assert client.losses.by_sense == {SPANS: 1}
    *sequences, told = collector.sequences("s1")
    assert sequences == list(range(1, 201))
    assert told > LOSS_SEQUENCES


def test_random_bytes_do_no_harm(shared: Collector) -> None:
    chance = random.Random(7)
    valid = batch(item(1), item(2, last_words="x"))
    for _ in range(50):
        damaged = bytearray(valid)
        for _ in range(chance.randrange(1, 6)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        code, _ = converse(shared.address, HELLO, bytes(damaged))
        assert code in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.OK)


def health(*arguments: str, **environment: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "collector.cli", "health", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )
    return done.returncode, done.stderr


def test_a_supervisor_learns_whether_it_serves(shared: Collector, tmp_path: Path) -> None:
    assert health(shared.address) == (0, "")
    port = shared.address.rpartition(":")[2]
    assert health(COLLECTOR_LISTEN=f"0.0.0.0:{port}") == (0, "")
    nobody = f"unix:{tmp_path}/nobody"
    status, said = health(f"{shared.address},{nobody}")
    assert status == 1 and said.startswith(f"collector: {nobody} does not serve: ")
    status, said = health("nonsense")
    assert status == 2 and said.startswith("collector: 'nonsense' is no address")


def test_health_and_reflection(shared: Collector) -> None:
    with grpc.insecure_channel(shared.address) as channel:
        healthy = health_pb2_grpc.HealthStub(channel)
        for service in ("", "probe.v1.Collector"):
            answer = healthy.Check(health_pb2.HealthCheckRequest(service=service))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        asked = reflection_pb2.ServerReflectionRequest(list_services="")
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        [listed] = stub.ServerReflectionInfo(iter([asked]))
        names = {service.name for service in listed.list_services_response.service}
        assert "probe.v1.Collector" in names


def test_a_unix_socket(tmp_path: Path) -> None:
    running = Collector(tmp_path, f"unix:{tmp_path}/socket")
    with probe_of("s1", running.address) as (client, put):
        put()
        assert client.drain(LIMIT_S)
    assert running.end() == 0


def test_what_cannot_be_stored_for_a_while_is_not_lost(collector: Collector) -> None:
    """Another process holds the database; the probe keeps its items until they are committed."""
    with probe_of("s1", collector.address) as (client, put):
        put()
        assert client.drain(LIMIT_S)
        with contextlib.closing(sqlite3.connect(collector.db, isolation_level=None)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            put()
            assert not client.drain(0.3)
            holder.execute("ROLLBACK")
        assert client.drain(LIMIT_S)
    assert collector.sequences("s1") == [1, 2]


@pytest.mark.parametrize("kind", ["port", "address"])
def test_where_it_cannot_listen(tmp_path: Path, kind: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}" if kind == "port" else "nonsense"
        command = [sys.executable, "-m", "collector.cli", "serve", "--listen", address]
        environment = {**os.environ, "COLLECTOR_DB": str(tmp_path / "c.db")}
        ran = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert ran.returncode == 2
    assert ran.stderr.count("\n") == 1
    assert address in ran.stderr
