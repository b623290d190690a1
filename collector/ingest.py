"""What probes send, checked and committed, exactly once.

Each stream waits for the commit of one batch before it reads the next; what many
streams bring in the meantime shares one transaction.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import math
import time
from collections.abc import Awaitable
from typing import Any, TypeVar

import grpc
import structlog
from google.protobuf.message import DecodeError

from collector.clock import Clock
from collector.gate import Gate, Refused
from collector.metrics import Measured, Metrics
from collector.quota import Complaints, Exhausted, Quota
from collector.store import Delivery, EventRow, Hello, Observation
from collector.store.interface import Ingesting
from collector.store.rows import event_row
from probe.events import KINDS, detail_fields
from probe.message import coverage_from, span_from
from probe.problem import Problem
from probe.span import OUTCOMES
from probe.wire import stream_pb2 as wire

SERVICE = "probe.v1.Collector"
MESSAGE_BYTES = 4 << 20
BATCH_ITEMS = 4096
NAME_LENGTH = 1024  # of a sandbox, boot, run or test, in bytes: PostgreSQL's indexes take 2704
TOGETHER = 64  # deliveries in one transaction
_HIGHEST = (1 << 63) - 1  # of the integers that a database holds
_FRACTIONS = {
    name: [field for field in detail_fields(kind) if "float" in str(kind.__annotations__[field])]
    for name, kind in KINDS.items()
}
HELLO_S = 20.0  # how long a peer may take to say who it is
WINDOW, WINDOW_BUSY = 4096, 512  # items that a probe may have under way

T = TypeVar("T")
_Pending = tuple[Delivery, "asyncio.Future[None]"]


class Malformed(ValueError):
    """The other side does not keep to the protocol."""


class Committer:
    """Brings deliveries into the store, many at a time, in one task."""

    def __init__(self, store: Ingesting) -> None:
        self._store = store
        self._arrived: asyncio.Queue[_Pending] = asyncio.Queue()

    async def commit(self, delivery: Delivery) -> None:
        """Returns when it is committed; Problem when it cannot be."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._arrived.put_nowait((delivery, done))
        await done

    @property
    def busy(self) -> bool:
        """More waits than goes into one transaction."""
        return self._arrived.qsize() > TOGETHER

    async def run(self) -> None:
        """Works until it is cancelled."""
        while True:
            waiting = [await self._arrived.get()]
            while not self._arrived.empty() and len(waiting) < TOGETHER:
                waiting.append(self._arrived.get_nowait())
            failure = await self._add(waiting)
            if failure is None or isinstance(failure, Problem) or len(waiting) == 1:
                _settle(waiting, failure)
            else:  # one of them is at fault: the others shall not suffer for it
                for one in waiting:
                    _settle([one], await self._add([one]))

    async def _add(self, waiting: list[_Pending]) -> Exception | None:
        try:
            await asyncio.to_thread(self._store.add, [delivery for delivery, _ in waiting])
        except Exception as error:
            return error
        return None


def _settle(waiting: list[_Pending], failure: Exception | None) -> None:
    for _, done in waiting:
        if done.cancelled():  # its stream broke off meanwhile
            continue
        if failure is None:
            done.set_result(None)
        else:
            done.set_exception(failure)


class Ingest:
    """The gRPC service probe.v1.Collector."""

    def __init__(
        self,
        store: Ingesting,
        metrics: Metrics,
        gate: Gate | None = None,
        quota: Quota | None = None,
    ) -> None:
        self._metrics = metrics
        self._store = Measured(store, metrics)
        self._gate = gate or Gate()
        self._quota = quota or Quota()
        self._committer = Committer(self._store)
        self._log = structlog.get_logger("ingest")
        self._stopping = asyncio.Event()
        self._complaints = Complaints()

    def handler(self) -> grpc.GenericRpcHandler:
        """Messages come as bytes, so that what cannot be parsed is answered like other nonsense."""
        method = grpc.stream_stream_rpc_method_handler(
            self._stream, response_serializer=wire.CollectorMessage.SerializeToString
        )
        return grpc.method_handlers_generic_handler(SERVICE, {"Stream": method})

    async def commit_forever(self) -> None:
        await self._committer.run()

    def stop(self) -> None:
        """Every stream ends after the batch that it is at."""
        self._stopping.set()

    async def _stream(self, _: object, context: Any) -> None:
        with self._metrics.streams.track_inprogress():
            await self._serve(context)

    async def _serve(self, context: Any) -> None:
        conversation = Conversation(self._store, self._committer, self._quota)
        try:
            await self._converse(conversation, context)
        except Malformed as error:
            self._complain("refused", conversation, str(error), context)
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except Refused as error:
            self._complain("not let in", conversation, error.reason, context)
            code = "PERMISSION_DENIED" if error.known else "UNAUTHENTICATED"
            await context.abort(grpc.StatusCode[code], str(error))
        except Exhausted as error:
            self._complain("too much", conversation, str(error), context)
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED, str(error), _come_again(error.delay_s)
            )
        except Problem as error:
            self._complain("not stored", conversation, str(error), context)
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the collector cannot store this now")
        finally:
            conversation.close()
        if self._stopping.is_set():
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the collector is stopping")

    async def _converse(self, conversation: Conversation, context: Any) -> None:
        """Until one side ends it."""
        limit = HELLO_S
        while (raw := await self._next(context, limit)) is not None:
            limit = math.inf
            message = _parsed(raw)
            if message.HasField("hello"):
                conversation.claimed = message.hello.sandbox[:NAME_LENGTH]
            # For each message: a token may expire, or be withdrawn.
            self._gate.check(context, conversation.claimed)
            await context.write(await conversation.answer(message, len(raw)))
            if conversation.pause_s:  # who does not keep to it is read no sooner all the same
                await _unless(self._stopping, asyncio.sleep(conversation.pause_s))

    async def _next(self, context: Any, limit_s: float) -> bytes | None:
        """None at the end of the stream, and when the collector is to stop."""
        timeout = None if math.isinf(limit_s) else limit_s
        try:
            reading = asyncio.wait_for(context.read(), timeout)
            raw: Any = await _unless(self._stopping, reading)
        except asyncio.TimeoutError:
            raise Malformed(f"no Hello within {limit_s:.0f} s") from None
        return None if raw is None or raw is grpc.aio.EOF else raw

    def _complain(self, what: str, conversation: Conversation, reason: str, context: Any) -> None:
        """Once for each sandbox (or, of those that were not let in, each host) and reason."""
        self._metrics.refused.labels(what).inc()
        host = context.peer().rpartition(":")[0]
        who = conversation.sandbox or host
        if self._complaints.is_new(who, reason):
            sandbox = conversation.sandbox or conversation.claimed or None
            self._log.warning(what, sandbox=sandbox, peer=host, reason=reason)


def _parsed(raw: bytes) -> wire.ProbeMessage:
    try:
        return wire.ProbeMessage.FromString(raw)
    except DecodeError:
        raise Malformed("not a ProbeMessage") from None


def _come_again(delay_s: float) -> tuple[tuple[str, bytes], ...]:
    """RetryInfo, the way OTLP and gRPC's own libraries send it."""
    delay = wire.Duration(seconds=int(delay_s), nanos=int(delay_s % 1 * 1e9))
    info = wire.RetryInfo(retry_delay=delay).SerializeToString()
    detail = wire.Any(type_url="type.googleapis.com/google.rpc.RetryInfo", value=info)
    code = grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]
    status = wire.Status(code=code, details=[detail])
    return (("grpc-status-details-bin", status.SerializeToString()),)


async def _unless(event: asyncio.Event, awaitable: Awaitable[T]) -> T | None:
    """What it results in, or None as soon as the event is set."""
    work, stop = asyncio.ensure_future(awaitable), asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait((work, stop), return_when=asyncio.FIRST_COMPLETED)
        return work.result() if work.done() else None
    finally:
        for task in (work, stop):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


class Conversation:
    """One stream: Hello first, then batches in ascending sequence."""

    def __init__(self, store: Ingesting, committer: Committer, quota: Quota) -> None:
        self.claimed = ""  # what the other side says that it is
        self.sandbox = ""  # what it may say
        self._hello: Hello | None = None
        self._clock = Clock(0)
        self._last = 0
        self._store = store
        self._committer = committer
        self._quota = quota
        self.pause_s = 0.0  # before more is taken

    def close(self) -> None:
        if self.sandbox:
            self._quota.leave(self.sandbox)

    async def answer(self, message: wire.ProbeMessage, size: int) -> wire.CollectorMessage:
        """To a message of `size` bytes. Malformed for what is against the protocol, Exhausted
        for a stream too many, Problem when the store cannot."""
        kind = message.WhichOneof("body")
        if kind == "hello":
            return await self._greet(message.hello)
        if kind == "batch":
            return await self._take(message.batch, size)
        raise Malformed("a message without a body")

    async def _greet(self, message: wire.Hello) -> wire.CollectorMessage:
        if self.sandbox:
            raise Malformed("a second Hello")
        _check_names(sandbox=message.sandbox, boot=message.boot, version=message.version)
        if not message.sandbox or not message.boot:
            raise Malformed("a Hello without sandbox or boot")
        offset = message.time_ns - time.time_ns()
        if abs(offset) > _HIGHEST:
            raise Malformed("a clock beyond all time")
        self._quota.enter(message.sandbox)
        self.sandbox = message.sandbox
        self._clock = Clock(offset)
        coverage = coverage_from(message.coverage)
        self._hello = Hello(message.sandbox, message.boot, message.version, coverage, offset)
        acknowledged = await asyncio.to_thread(self._store.greet, self._hello)
        welcome = wire.Welcome(acknowledged=acknowledged, window=self._window)
        return wire.CollectorMessage(welcome=welcome, time_ns=self._clock.say())

    @property
    def _window(self) -> int:
        return WINDOW_BUSY if self._committer.busy else WINDOW

    async def _take(self, batch: wire.Batch, size: int) -> wire.CollectorMessage:
        if self._hello is None:
            raise Malformed("a Batch before Hello")
        if len(batch.items) > BATCH_ITEMS:
            raise Malformed(f"a Batch of {len(batch.items)} items: {BATCH_ITEMS} are taken")
        if self._clock.hear(batch.clock):
            await self._set_clock(self._clock.offset_ns)
        delivery = self._delivery(self._hello, batch)
        await self._committer.commit(delivery)
        self.pause_s = self._quota.charge(self.sandbox, len(batch.items), size)
        acknowledgement = wire.Acknowledgement(
            sequence=delivery.last, window=self._window, pause_ms=math.ceil(self.pause_s * 1000)
        )
        return wire.CollectorMessage(acknowledgement=acknowledgement, time_ns=self._clock.say())

    async def _set_clock(self, offset_ns: int) -> None:
        assert self._hello is not None
        if abs(offset_ns) <= _HIGHEST:
            self._hello = dataclasses.replace(self._hello, clock_offset_ns=offset_ns)
            await asyncio.to_thread(self._store.greet, self._hello)

    def _delivery(self, hello: Hello, batch: wire.Batch) -> Delivery:
        events: list[EventRow] = []
        spans: list[tuple[int, Observation]] = []
        for item in batch.items:
            if not self._last < item.sequence <= _HIGHEST:
                raise Malformed(f"sequence {item.sequence} after {self._last}")
            self._last = item.sequence
            kind = item.WhichOneof("body")
            if kind == "event":
                events.append(_event(item.event))
            elif kind == "span":
                spans.append((item.sequence, _observation(item.span, hello)))
            else:
                raise Malformed("an Item without a body")
        return Delivery(hello.sandbox, hello.boot, self._last, tuple(events), tuple(spans))


def _observation(message: wire.Span, hello: Hello) -> Observation:
    _check_names(run=message.run, test=message.test)
    _check_integers(key=message.key)
    if message.outcome not in OUTCOMES:
        raise Malformed(f"outcome {message.outcome[:40]!r}: not one of {', '.join(OUTCOMES)}")
    return Observation(*span_from(message, hello.sandbox, hello.boot))


def _event(message: wire.Event) -> EventRow:
    try:
        row = event_row(message)
    except ValueError as error:
        raise Malformed(str(error)) from None
    sequence, span, kind, _, _ = row
    if not sequence:
        raise Malformed("an event without a sequence")
    if sequence > _HIGHEST or span > _HIGHEST or message.count > _HIGHEST:
        _check_integers(sequence=sequence, count=message.count, span=span)
    for field in _FRACTIONS[kind]:
        if not math.isfinite(getattr(getattr(message, kind), field)):
            raise Malformed(f"a {field} that is no number")
    return row


def _check_names(**names: str) -> None:
    for what, name in names.items():
        if (length := len(name.encode())) > NAME_LENGTH:
            raise Malformed(f"a {what} of {length} bytes: {NAME_LENGTH} are taken")
        if "\0" in name:  # which PostgreSQL cannot keep
            raise Malformed(f"a {what} with a NUL")


def _check_integers(**values: int) -> None:
    for what, value in values.items():
        if value > _HIGHEST:
            raise Malformed(f"{what} {value}: above the highest, {_HIGHEST}")
