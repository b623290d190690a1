"""The client side of the stream: nothing lost, nothing doubled, whatever breaks."""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import grpc
import pytest
from conftest import wait_for
from hypothesis import given, settings
from hypothesis import strategies as st

from probe import access, queue, stream
from probe.access import Access
from probe.coverage import SENSES, Coverage, Losses
from probe.events import KINDS, Connect, Exit, Loss
from probe.problem import Problem
from probe.queue import Entry, Queue
from probe.span import Span
from probe.stream import Stream
from probe.wire import stream_pb2 as wire
from probe.wire.stream_pb2_grpc import add_CollectorServicer_to_server

COVERAGE = Coverage("core", dict.fromkeys(SENSES, "full"))
LIMIT_S = 20.0
LOSSES = queue.LOSS_SEQUENCES

ACK, DROP, COMMIT_AND_DROP, FULL = "ack", "drop", "commit and drop", "cannot store"


@dataclass
class Collector:
    """A collector whose answer to each batch is scripted; at the end of the script it behaves."""

    script: list[str] = field(default_factory=list)
    poison: frozenset[int] = frozenset()
    hellos: list[wire.Hello] = field(default_factory=list)
    batches: list[list[int]] = field(default_factory=list)
    committed: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    losses: list[wire.Event] = field(default_factory=list)

    def Stream(  # noqa: N802
        self, messages: Iterator[wire.ProbeMessage], context: grpc.ServicerContext
    ) -> Iterator[wire.CollectorMessage]:
        self.hellos.append(next(messages).hello)
        # The number of another probe of this boot: it must not confirm anything of ours.
        yield wire.CollectorMessage(welcome=wire.Welcome(acknowledged=(1 << 63) - 1))
        for message in messages:
            items = message.batch.items
            sequences = [item.event.sequence for item in items if item.event.sequence < LOSSES]
            self.losses += [item.event for item in items if item.event.sequence >= LOSSES]
            self.numbers += [item.sequence for item in items]
            self.batches.append(sequences)
            if self.poison.intersection(sequences):
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, "poison")
            action = self.script.pop(0) if self.script else ACK
            if action in (ACK, COMMIT_AND_DROP):
                self.committed += [one for one in sequences if one not in self.committed]
            if action != ACK:
                context.abort(grpc.StatusCode.UNAVAILABLE, action)
            acknowledgement = wire.Acknowledgement(sequence=items[-1].sequence if items else 0)
            yield wire.CollectorMessage(acknowledgement=acknowledgement)


@contextlib.contextmanager
def serving(collector: Collector, address: str) -> Iterator[None]:
    server = grpc.server(ThreadPoolExecutor(8))
    add_CollectorServicer_to_server(collector, server)
    server.add_insecure_port(address)
    server.start()
    try:
        yield
    finally:
        server.stop(None).wait()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "FIRST_DELAY_S", 0.001)


@pytest.fixture
def address() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as directory:
        yield f"unix:{directory}/s"


@contextlib.contextmanager
def streaming(address: str, **options: object) -> Iterator[tuple[Stream, Callable[[], int]]]:
    counter = itertools.count(1)

    def next_sequence() -> int:
        return next(counter)

    given: dict[str, object] = {"sandbox": "s1", "boot": "b1", "coverage": COVERAGE}
    given["linger_s"] = 0.0
    with contextlib.closing(Stream(Access((address,)), **given | options)) as client:  # type: ignore[arg-type]
        yield client, next_sequence


def exit_event(sequence: int, **fields: object) -> Exit:
    return Exit(sequence=sequence, time_ns=sequence, pid=1, **fields)  # type: ignore[arg-type]


def a_span() -> Span:
    return Span(7, "r1", "t1", ("true",), "s1", "b1", 1, 0)


def until(condition: Callable[[], object]) -> None:
    limit = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < limit, "it did not happen in time"
        threading.Event().wait(0.002)


def test_hello_comes_first_and_items_in_order(address: str) -> None:
    collector = Collector()
    with serving(collector, address), streaming(address, batch_items=3) as (client, number):
        for _ in range(5):
            client.put_event(exit_event(number()))
        client.put_span(a_span(), COVERAGE, Losses())
        assert client.drain(LIMIT_S)
        assert client.error is None
    [hello] = collector.hellos
    assert (hello.sandbox, hello.boot, hello.coverage.engine) == ("s1", "b1", "core")
    assert abs(hello.time_ns - time.time_ns()) < LIMIT_S * 1e9
    assert collector.committed == [1, 2, 3, 4, 5, 0]  # a span has no number of this kind
    assert max(map(len, collector.batches)) <= 3


def test_items_travel_together(address: str) -> None:
    collector = Collector()
    with serving(collector, address), streaming(address, linger_s=LIMIT_S) as (client, number):
        for _ in range(1000):
            client.put_event(exit_event(number()))
        assert client.drain(LIMIT_S)  # and nobody lingers while it waits
    assert collector.committed == list(range(1, 1001))
    assert len(collector.batches[0]) == stream.BATCH_ITEMS


def test_a_single_item_waits_only_so_long(address: str) -> None:
    collector = Collector()
    with serving(collector, address), streaming(address, linger_s=0.02) as (client, number):
        client.put_event(exit_event(number()))
        until(lambda: collector.committed == [1])


def test_what_is_put_in_before_the_collector_comes(address: str) -> None:
    collector = Collector()
    with streaming(address) as (client, number):
        for _ in range(10):
            client.put_event(exit_event(number()))
        assert not client.drain(0.05)
        assert client.error
        with serving(collector, address):
            assert client.drain(LIMIT_S)
    assert collector.committed == list(range(1, 11))


@settings(max_examples=20, deadline=None)
@given(
    script=st.lists(st.sampled_from([ACK, DROP, COMMIT_AND_DROP, FULL]), max_size=12),
    batch_items=st.integers(1, 9),
    poison=st.frozensets(st.integers(1, 40), max_size=3),
)
def test_no_loss_and_no_doubles(
    script: list[str], batch_items: int, poison: frozenset[int]
) -> None:
    collector = Collector(list(script), poison)
    with tempfile.TemporaryDirectory() as directory:
        address = f"unix:{directory}/s"
        with (
            serving(collector, address),
            streaming(address, batch_items=batch_items) as (client, number),
        ):
            for _ in range(40):
                client.put_event(exit_event(number()))
            assert client.drain(LIMIT_S)
            # What the collector cannot take is given up alone, and counted.
            assert client.losses.total == len(poison)
            told = {event.sequence: event.count for event in collector.losses}
            assert sum(told.values()) == len(poison)
    assert collector.committed == [one for one in range(1, 41) if one not in poison]


def test_a_full_queue_gives_up_its_oldest_and_counts(address: str) -> None:
    collector = Collector()
    with streaming(address, capacity=10) as (client, number):
        client.put_event(
            Connect(sequence=number(), time_ns=1, pid=1, family="inet", address="a", count=100)
        )
        client.put_event(Loss(sequence=number(), time_ns=1, pid=1, sense="files", count=5))
        client.put_span(a_span(), COVERAGE, Losses())
        for _ in range(11):
            client.put_event(exit_event(number()))
        assert client.losses.by_sense == {"connect": 100, "files": 5, queue.SPANS: 1, "exec": 1}
        with serving(collector, address):
            assert client.drain(LIMIT_S)
    assert collector.committed == list(range(4, 14))


def test_an_item_beyond_all_limits_is_counted_and_not_sent(address: str) -> None:
    collector = Collector()
    with serving(collector, address), streaming(address) as (client, number):
        client.put_event(exit_event(number(), last_words="x" * (stream.BATCH_BYTES + 1)))
        client.put_event(exit_event(number()))
        assert client.drain(LIMIT_S)
        assert client.losses.by_sense == {"exec": 1}
    assert collector.committed == [2]


def test_what_goes_far_is_compressed(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "is_local", lambda address: False)
    compression = Access((address,)).compression(address)
    assert compression is grpc.Compression.Gzip
    collector = Collector()
    with serving(collector, address), streaming(address) as (client, number):
        client.put_event(exit_event(number(), last_words="x" * 10_000))
        assert client.drain(LIMIT_S)
    assert collector.committed == [1]


@pytest.mark.parametrize(
    "address", ["unix:/s", "127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "localhost:1"]
)
def test_what_is_spoken_in_plain_text(address: str) -> None:
    assert not Access((address,)).is_secure(address)


@pytest.mark.parametrize("address", ["10.0.0.1:1", "[fe80::1]:1", "localhost.example:1", "h:1"])
def test_what_is_spoken_in_tls(address: str) -> None:
    assert Access((address,)).is_secure(address)
    assert not Access((address,), insecure=True).is_secure(address)


def test_items_of_many_threads_in_any_order(address: str) -> None:
    collector = Collector()

    def put(client: Stream, first: int) -> None:
        for sequence in range(first, first - 100, -1):
            client.put_event(exit_event(sequence))

    with serving(collector, address), streaming(address) as (client, _):
        threads = [threading.Thread(target=put, args=(client, 100 * n)) for n in range(1, 6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert client.drain(LIMIT_S)
    assert sorted(collector.committed) == list(range(1, 501))
    assert collector.numbers == sorted(set(collector.numbers))


def test_closing_does_not_wait_for_a_collector_that_is_away(address: str) -> None:
    with streaming(address) as (client, number):
        client.put_event(exit_event(number()))
        began = time.monotonic()
    assert time.monotonic() - began < 3


def test_nothing_heavy_is_imported_before_a_stream_is_made() -> None:
    code = "import sys, probe.stream; print({'grpc', 'google.protobuf'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "set()\n"


@pytest.mark.parametrize("good", ["h:1", "127.0.0.1:0", "[::1]:50551", "unix:/run/c", "unix:c"])
def test_addresses(good: str) -> None:
    assert access.check_address(good) == good


@pytest.mark.parametrize("bad", ["", "h", ":1", "h:", "h:x", "h:65536", "::1:5", "unix:", "h:²"])
def test_what_is_no_address(bad: str) -> None:
    with pytest.raises(Problem, match="no address"):
        access.check_address(bad)
    with pytest.raises(Problem):
        streaming(bad).__enter__()


def test_each_kind_of_event_has_a_sense_to_be_lost_under() -> None:
    assert queue._SENSE.keys() == KINDS.keys() - {"loss"}
    assert set(queue._SENSE.values()) <= set(SENSES)


def entry(sequence: int) -> Entry:
    event = wire.Event(sequence=sequence, count=1, exit=wire.Exit())
    return Entry(sequence, wire.Item(sequence=sequence, event=event).SerializeToString())


OPERATIONS = st.lists(
    st.sampled_from(["append", "take", "acknowledge", "rewind"]).flatmap(
        lambda name: st.tuples(st.just(name), st.integers(1, 5))
    ),
    max_size=60,
)


@given(OPERATIONS, st.integers(1, 12))
def test_the_queue_sends_each_entry_in_order_or_counts_it(
    operations: list[tuple[str, int]], capacity: int
) -> None:
    queue, number, put = Queue(capacity, 1 << 20), itertools.count(1), 0
    received: list[int] = []
    for name, amount in operations:
        if name == "append":
            for sequence in itertools.islice(number, amount):
                queue.append(entry(sequence))
                put += 1
        elif name == "take":
            received += [entry.sequence for entry in queue.take(amount, 1 << 20)]
        elif name == "acknowledge" and queue.last_sent:
            queue.acknowledge(queue.last_sent)
        elif name == "rewind":
            queue.rewind()
            received = [one for one in received if not 0 < queue.first_waiting <= one]
        assert len(queue) <= capacity
    received += [entry.sequence for entry in queue.take(1 << 20, 1 << 20)]
    assert received == sorted(set(received))
    assert put == len(received) + queue.losses.total


def test_a_batch_is_bounded_in_bytes_and_never_empty() -> None:
    queue = Queue(10, 1 << 20)
    for sequence in range(1, 5):
        queue.append(entry(sequence))
    size = len(entry(1).data)
    assert [entry.sequence for entry in queue.take(9, 2 * size)] == [1, 2]
    assert [entry.sequence for entry in queue.take(9, 1)] == [3]


def test_a_probe_with_nothing_to_tell_says_that_it_is_there(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "HEARTBEAT_S", 0.02)
    collector = Collector()
    with serving(collector, address), streaming(address) as (client, sequence):
        wait_for(lambda: collector.batches.count([]) >= 3)
        client.put_event(exit_event(sequence()))
        assert client.drain(LIMIT_S)
        heard = collector.batches.count([])
        wait_for(lambda: collector.batches.count([]) > heard)
    assert collector.committed == [1]
