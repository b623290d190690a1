"""The way to the collector: a bounded queue in memory, and a thread that empties it.

An item leaves the queue when the collector has acknowledged it, and an
acknowledgement follows a commit there. After a break everything that was not
acknowledged is sent again; the collector knows an event by its (sandbox, boot,
sequence), a span by its key and start, and keeps each once.

An item has a number of its own, which acknowledgements name. Several probes may
speak for one boot at the same time (two `probe run`), so the number in Welcome may
be another's: what it confirms is sent again, which costs a few batches a break.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import probe
from probe.coverage import Coverage, Losses
from probe.events import Event, Loss
from probe.problem import Problem
from probe.span import Span

if TYPE_CHECKING:
    from probe.wire import stream_pb2 as wire

CAPACITY = 65_536  # items
BATCH_ITEMS = 512
BATCH_BYTES = 1 << 20  # the collector takes messages of up to 4 MiB
LINGER_S = 0.2  # how long an item waits for company
FIRST_DELAY_S, MAX_DELAY_S = 0.1, 30.0
DRAIN_DELAY_S = 0.2  # between attempts while somebody waits in drain()

SPANS = "spans"  # what a lost span is counted under
_SENSE = {
    "seccomp": "seccomp",
    "syscall": "seccomp",
    "exec": "exec",
    "exit": "exec",
    "fork": "fork",
    "connect": "connect",
    "dns": "dns",
    "oom": "oom",
    "signal": "oom",
    "file": "files",
    "limit": "exec",
}

_CHANNEL_OPTIONS = (
    # A collector that vanished without a word (a cut cable) is noticed all the same.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # The proxy in a sandbox's environment is for the workload, not for us.
    ("grpc.enable_http_proxy", 0),
    # Else a new channel inherits the back-off of the one before it, on top of ours.
    ("grpc.use_local_subchannel_pool", 1),
)


def check_address(address: str) -> str:
    """`host:port` or `unix:/path`, as given. Problem where it is neither."""
    if address.startswith("unix:"):
        if address.removeprefix("unix:").strip("/"):
            return address
    else:
        host, _, port = address.rpartition(":")
        bare_ipv6 = ":" in host and not (host.startswith("[") and host.endswith("]"))
        if host and not bare_ipv6 and port.isascii() and port.isdecimal() and int(port) < 1 << 16:
            return address
    raise Problem(f"{address!r} is no address", "give host:port, [ipv6]:port or unix:/path")


@dataclass(frozen=True, slots=True)
class Entry:
    """An item on its way, with what is counted (and where) if it is lost."""

    sequence: int
    sense: str
    count: int
    item: wire.Item


class Queue:
    """What is not acknowledged yet, ascending: sent ones first, waiting ones after them.

    When it is full the oldest waiting entry gives way and is counted. An entry that
    was sent before a break and lost its acknowledgement in it may be counted too.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._sent: deque[Entry] = deque()
        self._waiting: deque[Entry] = deque()
        self._lost: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._sent) + len(self._waiting)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def sent(self) -> int:
        return len(self._sent)

    @property
    def last_sent(self) -> int:
        """The highest sequence under way, 0 when there is none."""
        return self._sent[-1].sequence if self._sent else 0

    @property
    def first_waiting(self) -> int:
        """The lowest sequence that waits, 0 when there is none."""
        return self._waiting[0].sequence if self._waiting else 0

    @property
    def losses(self) -> Losses:
        return Losses(dict(self._lost))

    def append(self, entry: Entry) -> None:
        """Its sequence is above all before it."""
        self._waiting.append(entry)
        if len(self) > self._capacity:
            self._lose(self._waiting.popleft())

    def take(self, items: int, size: int) -> list[Entry]:
        """The next entries to send: up to `items` of them and `size` bytes, at least one."""
        taken: list[Entry] = []
        while self._waiting and len(taken) < items:
            size -= self._waiting[0].item.ByteSize()
            if taken and size < 0:
                break
            taken.append(self._waiting.popleft())
        self._sent.extend(taken)
        return taken

    def acknowledge(self, sequence: int) -> None:
        """Forgets everything up to `sequence`."""
        for entries in (self._sent, self._waiting):
            while entries and entries[0].sequence <= sequence:
                entries.popleft()

    def rewind(self) -> None:
        """What was sent and not acknowledged waits again."""
        self._waiting.extendleft(reversed(self._sent))
        self._sent.clear()

    def lose_sent(self) -> None:
        """Gives up what is under way."""
        while self._sent:
            self._lose(self._sent.popleft())

    def count_lost(self, sense: str, count: int) -> None:
        self._lost[sense] += count

    def _lose(self, entry: Entry) -> None:
        self.count_lost(entry.sense, entry.count)


class _Session:
    """One connection, from Hello to its end. Its fields change under the stream's lock."""

    def __init__(self) -> None:
        self.welcomed = False
        self.progress = False  # something was acknowledged, or nothing was left to send
        self.over = False
        self.refused = False  # the collector cannot make sense of something we sent


class Stream:
    """Takes events and spans from any thread, in any order, and brings them to the collector.

    The constructor imports grpc and starts a thread; create it after a fork, not
    before. It raises Problem for an address of no known form and never because the
    collector is away: it tries for ever, with growing pauses.
    """

    def __init__(
        self,
        address: str,
        *,
        sandbox: str,
        boot: str,
        coverage: Coverage,
        capacity: int = CAPACITY,
        batch_items: int = BATCH_ITEMS,
        linger_s: float = LINGER_S,
    ) -> None:
        check_address(address)
        self._target = address if address.startswith("unix:") else f"dns:///{address}"
        self._sandbox, self._boot, self._coverage = sandbox, boot, coverage
        # Above whatever an earlier process of this boot has used.
        self._sequence = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self._batch_items, self._linger_s = batch_items, linger_s
        self._queue = Queue(capacity)
        self._changed = threading.Condition()
        self._closed = False
        self._drains = 0
        self._singly_until = 0  # up to here items go one by one: one of them was refused
        self._error: str | None = "not connected yet"
        self._call: Any = None
        _import_wire()
        self._thread = threading.Thread(target=self._run, name="stream", daemon=True)
        self._thread.start()

    @property
    def losses(self) -> Losses:
        """What had to be given up here, by sense: the queue was full, or it was refused."""
        with self._changed:
            return self._queue.losses

    @property
    def error(self) -> str | None:
        """Why nothing gets through at the moment; None while the collector listens."""
        return self._error

    def put_event(self, event: Event) -> None:
        """Never waits."""
        from probe.message import event_message
        from probe.wire import stream_pb2 as wire

        sense = event.sense if isinstance(event, Loss) else _SENSE[event.kind]
        self._put(wire.Item(event=event_message(event)), sense, event.count)

    def put_span(self, span: Span, coverage: Coverage, losses: Losses) -> None:
        """Never waits. A span may be put again when more is known of it; the last one holds."""
        from probe.message import span_message
        from probe.wire import stream_pb2 as wire

        self._put(wire.Item(span=span_message(span, coverage, losses)), SPANS, 1)

    def drain(self, timeout_s: float) -> bool:
        """Waits until everything is acknowledged; False when time ran out before."""
        with self._changed:
            self._drains += 1
            self._changed.notify_all()
            try:
                return self._changed.wait_for(lambda: not len(self._queue), timeout_s)
            finally:
                self._drains -= 1

    def close(self) -> None:
        """Ends the connection and the thread. What is not acknowledged is given up."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(1)
        if self._thread.is_alive() and self._call is not None:
            self._call.cancel()
            self._thread.join(1)

    def _put(self, item: wire.Item, sense: str, count: int) -> None:
        with self._changed:
            if item.ByteSize() > BATCH_BYTES:
                self._queue.count_lost(sense, count)
                return
            self._sequence += 1
            item.sequence = self._sequence
            self._queue.append(Entry(self._sequence, sense, count, item))
            if self._queue.waiting == 1 or self._queue.waiting >= self._batch_items:
                self._changed.notify_all()

    def _run(self) -> None:
        import grpc

        failures = 0
        while not self._closed:
            session = _Session()
            try:
                self._converse(session)
                reason = "the collector ended the stream"
            except grpc.RpcError as error:
                reason = error.details() or error.code().name
                session.refused = error.code() is grpc.StatusCode.INVALID_ARGUMENT
            self._error = reason
            self._end(session)
            failures = 1 if session.progress else min(failures + 1, 16)
            # With jitter, so that a thousand probes do not come back in the same instant.
            self._pause(random.uniform(0.5, 1) * min(MAX_DELAY_S, FIRST_DELAY_S * 2**failures))

    def _converse(self, session: _Session) -> None:
        import grpc

        from probe.wire.stream_pb2_grpc import CollectorStub

        with grpc.insecure_channel(self._target, options=_CHANNEL_OPTIONS) as channel:
            self._call = CollectorStub(channel).Stream(self._requests(session))
            for message in self._call:
                self._heard(session, message)

    def _end(self, session: _Session) -> None:
        with self._changed:
            session.over = True
            if session.refused and self._queue.sent:
                self._isolate()
            self._queue.rewind()
            self._changed.notify_all()

    def _isolate(self) -> None:
        """Finds the item that the collector cannot take, and gives up that one alone."""
        if self._queue.last_sent <= self._singly_until:
            self._queue.lose_sent()
        else:
            self._singly_until = self._queue.last_sent

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
        from probe.message import coverage_message
        from probe.wire import stream_pb2 as wire

        hello = wire.Hello(
            sandbox=self._sandbox,
            boot=self._boot,
            version=probe.__version__,
            coverage=coverage_message(self._coverage),
            time_ns=time.time_ns(),
        )
        yield wire.ProbeMessage(hello=hello)
        while entries := self._next_batch(session):
            yield wire.ProbeMessage(batch=wire.Batch(items=[entry.item for entry in entries]))

    def _next_batch(self, session: _Session) -> list[Entry]:
        """Waits for something to send; empty when the session is over."""

        def ended() -> bool:
            return session.over or self._closed

        def full() -> bool:
            enough = self._queue.waiting >= self._batch_items or singly()
            return ended() or enough or self._drains > 0

        def singly() -> bool:
            return self._queue.first_waiting <= self._singly_until

        with self._changed:
            self._changed.wait_for(lambda: ended() or (session.welcomed and self._may_send()))
            self._changed.wait_for(full, self._linger_s)
            if ended():
                return []
            return self._queue.take(1 if singly() else self._batch_items, BATCH_BYTES)

    def _may_send(self) -> bool:
        """While items go one by one, each waits for the answer to the one before it."""
        if not self._queue.waiting:
            return False
        return self._queue.first_waiting > self._singly_until or not self._queue.sent

    def _heard(self, session: _Session, message: wire.CollectorMessage) -> None:
        with self._changed:
            if message.HasField("welcome"):
                session.welcomed = True
                self._error = None
            else:
                self._queue.acknowledge(message.acknowledgement.sequence)
                session.progress = True
            session.progress |= not len(self._queue)
            self._changed.notify_all()


def _import_wire() -> None:
    """In the caller's thread, so that a broken installation is the caller's to see."""
    import probe.message
    import probe.wire.stream_pb2_grpc  # noqa: F401
