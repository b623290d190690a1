"""The way to the collector: what waits is kept in a spool, and a thread brings it there.

An item leaves the spool when the collector has acknowledged it, and an
acknowledgement follows a commit there. After a break everything that was not
acknowledged is sent again, there or to another collector of the same database; that
knows an event by its (sandbox, boot, sequence), a span by its key and start, and
keeps each once.

An item has a number of its own, which acknowledgements name. Several probes may
speak for one boot at the same time (two `probe run`), so the number in Welcome may
be another's: what it confirms is sent again, which costs a few batches a break.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import probe
from probe.access import Access
from probe.coverage import Coverage, Losses
from probe.events import Event
from probe.queue import SPANS, UNREADABLE, Entry, Numbers, Queue, loss_item, lost_with
from probe.span import Span
from probe.spool import AGE_MAX_S, SIZE_MAX, Spool, sync

if TYPE_CHECKING:
    from probe.wire import stream_pb2 as wire

CAPACITY = 65_536  # items in memory
MEMORY_BYTES = 16 << 20
BATCH_ITEMS = 512
BATCH_BYTES = 1 << 20  # the collector takes messages of up to 4 MiB
WINDOW_ITEMS = 4096  # under way at most, whatever the collector would take
LINGER_S = 0.2  # how long an item waits for company
FIRST_DELAY_S, MAX_DELAY_S = 0.1, 30.0
DRAIN_DELAY_S = 0.2  # between attempts while somebody waits in drain()
PAUSE_MAX_S = 60.0  # that a collector can ask for
SYNC_EVERY_S = 1.0
HEARTBEAT_S = 15.0  # without anything to tell; a collector takes one for gone after four

# What may pass by itself (OTLP 1.x, "OTLP/gRPC Response", table of codes).
RETRYABLE = frozenset(
    {"CANCELLED", "DEADLINE_EXCEEDED", "ABORTED", "OUT_OF_RANGE", "UNAVAILABLE", "DATA_LOSS"}
)
_RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"


class _Session:
    """One connection, from Hello to its end. Its fields change under the stream's lock."""

    def __init__(self, hello: bytes) -> None:
        self.hello = hello
        self.welcomed = False
        self.progress = False  # something was acknowledged, or nothing was left to send
        self.over = False
        self.refused = False  # the collector cannot make sense of something we sent
        self.delay_s: float | None = None  # before the next one, where the collector says so
        self.hopeless = False  # nothing that passes by itself
        self.window = WINDOW_ITEMS
        self.paused_until = 0.0  # monotonic
        self.heard_ns = self.received_ns = 0  # the last message: by its clock, and by ours


class Stream:
    """Takes events and spans from any thread, in any order, and brings them to the collector.

    The constructor imports grpc and starts a thread; create it after a fork, not
    before. It never raises because the collector is away: it tries for ever, with
    growing pauses. `changed` is told in words when the way is cut, and None when it
    is open again.
    """

    def __init__(
        self,
        access: Access,
        *,
        sandbox: str,
        boot: str,
        coverage: Coverage,
        spool: str | Path | None = None,
        spool_bytes: int = SIZE_MAX,
        spool_age_s: float = AGE_MAX_S,
        capacity: int = CAPACITY,
        batch_items: int = BATCH_ITEMS,
        linger_s: float = LINGER_S,
        changed: Callable[[str | None], None] = lambda reason: None,
    ) -> None:
        from probe.message import coverage_message
        from probe.wire import stream_pb2 as wire

        self._access = access
        self._numbers = Numbers()
        self._batch_items, self._linger_s = batch_items, linger_s
        hello = wire.Hello(
            sandbox=sandbox,
            boot=boot,
            version=probe.__version__,
            coverage=coverage_message(coverage),
        )
        memory = Queue(capacity, MEMORY_BYTES)
        self._spool = Spool(spool, hello, memory, size_max=spool_bytes, age_max_s=spool_age_s)
        self._changed = threading.Condition()
        self._closed = False
        self._drains = 0
        self._singly_until = 0  # up to here items go one by one: one of them was refused
        self._error: str | None = "not connected yet"
        self._say = changed
        self._call: Any = None
        _import_wire()
        self._threads = [threading.Thread(target=self._run, name="stream", daemon=True)]
        if spool is not None:
            self._threads.append(threading.Thread(target=self._tend, name="spool", daemon=True))
        for thread in self._threads:
            thread.start()

    @property
    def losses(self) -> Losses:
        """What had to be given up here, by sense: no room was left, or it was refused."""
        with self._changed:
            return self._spool.losses

    @property
    def error(self) -> str | None:
        """Why nothing gets through at the moment; None while the collector listens."""
        return self._error

    @property
    def obstacle(self) -> str | None:
        """Why the disk takes nothing, so that what waits is in memory alone."""
        return self._spool.obstacle

    def status(self) -> dict[str, Any]:
        """For people who ask how it goes."""
        with self._changed:
            return {
                "waiting": len(self._spool),
                "spool_bytes": self._spool.size,
                "spool_obstacle": self._spool.obstacle,
                "lost": self._spool.losses.by_sense,
                "error": self._error,
            }

    def put_event(self, event: Event) -> None:
        """Never waits, never raises: what has no place on the wire is counted."""
        from probe.message import event_message
        from probe.wire import stream_pb2 as wire

        try:
            self._put(wire.Item(event=event_message(event)))
        except (ValueError, TypeError):
            with self._changed:
                self._spool.count_lost(Counter({(event.span, UNREADABLE): event.count}))

    def put_span(self, span: Span, coverage: Coverage, losses: Losses) -> None:
        """Never waits. A span may be put again when more is known of it; the last one holds."""
        from probe.message import span_message
        from probe.wire import stream_pb2 as wire

        try:
            self._put(wire.Item(span=span_message(span, self._delivery(coverage), losses)))
        except (ValueError, TypeError):
            with self._changed:
                self._spool.count_lost(Counter({(span.key, SPANS): 1}))

    def drain(self, timeout_s: float) -> bool:
        """Waits until everything is acknowledged; False when time ran out before."""
        with self._changed:
            self._drains += 1
            self._changed.notify_all()
            try:
                return self._changed.wait_for(lambda: not len(self._spool), timeout_s)
            finally:
                self._drains -= 1

    def close(self) -> None:
        """Ends the connection and the threads. What is not acknowledged stays in the spool."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._threads[0].join(1)
        if self._threads[0].is_alive() and self._call is not None:
            self._call.cancel()
        for thread in self._threads:
            thread.join(1)
        with self._changed:
            self._spool.close()

    def _delivery(self, coverage: Coverage) -> Coverage:
        """With a word on the spool, where what waits would not survive us."""
        obstacle = self._spool.obstacle
        if obstacle is None:
            return coverage
        senses = {**coverage.senses, "delivery": f"partial: in memory alone, {obstacle}"}
        return Coverage(coverage.engine, senses, coverage.attribution)

    def _put(self, item: wire.Item) -> None:
        with self._changed:
            if item.ByteSize() > BATCH_BYTES:
                self._spool.count_lost(lost_with([item.SerializeToString()]))
                return
            self._append(item)
            if self._spool.waiting in (1, self._batch_items):
                self._changed.notify_all()

    def _append(self, item: wire.Item) -> None:
        item.sequence = item.sequence or self._numbers.next()
        self._spool.append(Entry(item.sequence, item.SerializeToString()))

    def _tell_losses(self) -> None:
        for span, sense, count in self._spool.untold():
            self._append(loss_item(self._numbers.next(), span, sense, count, "queue"))

    def _tend(self) -> None:
        """Brings to the disk what the spool was given, beside those who give."""
        while not self._closed:
            with self._changed:
                self._changed.wait_for(lambda: self._closed, SYNC_EVERY_S)
                self._spool.expire()
                descriptors = self._spool.descriptors()
            sync(descriptors)

    def _run(self) -> None:
        import grpc

        failures = turn = 0
        while not self._closed:
            with self._changed:
                session = _Session(self._spool.hello)
            address = self._access.addresses[turn % len(self._access.addresses)]
            reason = None
            try:
                self._converse(session, address)
                reason = None if self._is_at_work(session) else "the collector ended the stream"
            except grpc.RpcError as error:
                reason = error.details() or error.code().name
                _judge(session, error)
            except OSError as error:  # a file of ours cannot be read now
                reason = f"{error.filename}: {error.strerror}"
            self._end(session, reason)
            if reason is None:
                continue
            turn += 1
            failures = 1 if session.progress else min(failures + 1, 16)
            self._pause(_delay(session, failures))

    def _is_at_work(self, session: _Session) -> bool:
        """The session ended because what comes next is another boot's."""
        with self._changed:
            return session.progress and session.hello != self._spool.hello

    def _converse(self, session: _Session, address: str) -> None:
        from probe.wire.stream_pb2_grpc import CollectorStub

        with self._access.channel(address) as channel:
            self._call = CollectorStub(channel).Stream(
                self._requests(session),
                metadata=self._access.metadata(),
                compression=self._access.compression(address),
            )
            for message in self._call:
                self._heard(session, message)

    def _end(self, session: _Session, reason: str | None) -> None:
        with self._changed:
            session.over = True
            if session.refused and self._spool.sent:
                self._isolate()
            self._spool.rewind()
            self._tell_losses()
            self._changed.notify_all()
        if reason != self._error:
            self._error = reason
            self._say(reason)

    def _isolate(self) -> None:
        """Finds the item that the collector cannot take, and gives up that one alone."""
        if self._spool.last_sent <= self._singly_until:
            self._spool.lose_sent()
        else:
            self._singly_until = self._spool.last_sent

    def _pause(self, delay_s: float) -> None:
        began = time.monotonic()
        with self._changed:
            while not self._closed:
                limit = min(delay_s, DRAIN_DELAY_S) if self._drains else delay_s
                left = began + limit - time.monotonic()
                if left <= 0:
                    return
                self._changed.wait(left)

    def _requests(self, session: _Session) -> Iterator[wire.ProbeMessage]:
        """What we say; grpc draws it in a thread of its own."""
        from probe.wire import stream_pb2 as wire

        hello = wire.Hello.FromString(session.hello)
        hello.time_ns = time.time_ns()
        yield wire.ProbeMessage(hello=hello)
        while (entries := self._next_batch(session)) is not None:
            batch = wire.Batch(items=map(wire.Item.FromString, (entry.data for entry in entries)))
            batch.clock.heard_ns, batch.clock.received_ns = session.heard_ns, session.received_ns
            batch.clock.sent_ns = time.time_ns()
            yield wire.ProbeMessage(batch=batch)

    def _next_batch(self, session: _Session) -> list[Entry] | None:
        """Waits for something to send, or until it is time for a sign of life; None when the
        session is over."""

        def ended() -> bool:
            return session.over or self._closed

        def full() -> bool:
            enough = self._spool.waiting >= self._batch_items or self._singly()
            return ended() or enough or self._drains > 0

        silent_until = time.monotonic() + HEARTBEAT_S
        with self._changed:
            while not (ended() or self._may_send(session)):
                if session.welcomed and self._is_others(session):
                    self._singly_until = 0
                    return None
                wake = max(session.paused_until, silent_until)
                if session.welcomed and time.monotonic() >= wake:
                    return []
                self._changed.wait(self._patience(session, wake))
            self._changed.wait_for(full, self._linger_s)
            if ended():
                return None
            room = max(1, session.window - self._spool.sent)
            items = 1 if self._singly() else min(self._batch_items, room)
            return self._spool.take(items, BATCH_BYTES)

    def _patience(self, session: _Session, wake: float) -> float | None:
        """Seconds until there is something to do though nobody calls; None before Welcome."""
        if not session.welcomed:
            return None
        now = time.monotonic()
        return (session.paused_until if session.paused_until > now else wake) - now

    def _may_send(self, session: _Session) -> bool:
        """While items go one by one, each waits for the answer to the one before it."""
        if not session.welcomed or time.monotonic() < session.paused_until:
            return False
        if not self._spool.waiting or self._spool.sent >= session.window:
            return False
        if self._spool.hello != session.hello:
            return False
        return not (self._singly() and self._spool.sent)

    def _is_others(self, session: _Session) -> bool:
        """Everything of this (sandbox, boot) is acknowledged, and another's waits."""
        return self._spool.hello != session.hello and not self._spool.sent

    def _singly(self) -> bool:
        return bool(self._singly_until) and self._spool.first_waiting <= self._singly_until

    def _heard(self, session: _Session, message: wire.CollectorMessage) -> None:
        with self._changed:
            session.heard_ns, session.received_ns = message.time_ns, time.time_ns()
            if message.HasField("welcome"):
                session.welcomed = True
                window = message.welcome.window
            else:
                answer = message.acknowledgement
                window = answer.window
                self._spool.acknowledge(answer.sequence)
                pause_s = min(answer.pause_ms / 1000, PAUSE_MAX_S)
                session.paused_until = time.monotonic() + pause_s
                session.progress = True
            session.window = min(window or WINDOW_ITEMS, WINDOW_ITEMS)
            self._tell_losses()
            session.progress |= not len(self._spool)
            self._changed.notify_all()
        if self._error is not None:
            self._error = None
            self._say(None)


def _judge(session: _Session, error: Any) -> None:
    """What a status means for the next attempt."""
    code = error.code().name
    if code == "RESOURCE_EXHAUSTED":
        session.delay_s = _retry_delay_s(error.trailing_metadata() or ())
        # Without a word on when to come again it is the message that is too large.
        session.refused = session.delay_s is None
    else:
        session.refused = code == "INVALID_ARGUMENT"
        session.hopeless = not session.refused and code not in RETRYABLE


def _retry_delay_s(metadata: Any) -> float | None:
    """RetryInfo's delay, where the status comes with one."""
    from google.protobuf.message import DecodeError

    from probe.wire import stream_pb2 as wire

    for name, value in metadata:
        if name != "grpc-status-details-bin":
            continue
        try:
            for detail in wire.Status.FromString(value).details:
                if detail.type_url == _RETRY_INFO:
                    delay = wire.RetryInfo.FromString(detail.value).retry_delay
                    return max(0.0, min(delay.seconds + delay.nanos / 1e9, PAUSE_MAX_S))
        except DecodeError:
            return None
    return None


def _delay(session: _Session, failures: int) -> float:
    """Seconds until the next attempt, with jitter: a thousand probes shall not come as one."""
    if session.hopeless:
        return random.uniform(0.5, 1) * MAX_DELAY_S
    jitter = random.uniform(0, min(MAX_DELAY_S, FIRST_DELAY_S * 2**failures))
    return jitter + (session.delay_s or 0)


def _import_wire() -> None:
    """In the caller's thread, so that a broken installation is the caller's to see."""
    import probe.message
    import probe.wire.stream_pb2_grpc  # noqa: F401
