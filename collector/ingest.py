"""What probes send, checked and committed, exactly once.

Of each stream one batch is read and checked while the one before it is committed; what
many streams bring in the meantime shares one transaction.
"""

from __future__ import annotations

import asyncio
import math
import time
import zlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

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
    name: found
    for name, kind in KINDS.items()
    if (found := [f for f in detail_fields(kind) if "float" in str(kind.__annotations__[f])])
}
HELLO_S = 20.0  # how long a peer may take to say who it is
WINDOW, WINDOW_BUSY = 4096, 512  # items that a probe may have under way

_FIRST = asyncio.FIRST_COMPLETED

Asked = TypeVar("Asked")
Answered = TypeVar("Answered")


class Malformed(ValueError):
    """The other side does not keep to the protocol."""


class Gathering(Generic[Asked, Answered]):
    """Brings what many streams ask of the store there, many at a time, in one task."""

    def __init__(self, work: Callable[[list[Asked]], Sequence[Answered]]) -> None:
        """`work` answers each of a list, or raises; it is called in a thread."""
        self._work = work
        self._arrived: asyncio.Queue[tuple[Asked, asyncio.Future[Answered]]] = asyncio.Queue()

    def submit(self, one: Asked) -> asyncio.Future[Answered]:
        """The answer to come; Problem when the store has none."""
        done: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        self._arrived.put_nowait((one, done))
        return done

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
            failure = await self._answer(waiting)
            if failure is None:
                continue
            if isinstance(failure, Problem) or len(waiting) == 1:
                _fail(waiting, failure)
            else:  # one of them is at fault: the others shall not suffer for it
                for one in waiting:
                    alone = await self._answer([one])
                    if alone is not None:
                        _fail([one], alone)

    async def _answer(
        self, waiting: list[tuple[Asked, asyncio.Future[Answered]]]
    ) -> Exception | None:
        try:
            answers = await asyncio.to_thread(self._work, [one for one, _ in waiting])
        except Exception as error:
            return error
        for (_, done), answer in zip(waiting, answers, strict=True):
            if not done.cancelled():  # else its stream broke off meanwhile
                done.set_result(answer)
        return None


def _fail(waiting: Iterable[tuple[Any, asyncio.Future[Any]]], failure: Exception) -> None:
    for _, done in waiting:
        if not done.cancelled():
            done.set_exception(failure)


class Committing:
    """The two things that streams ask of a store."""

    def __init__(self, store: Ingesting) -> None:
        self._store = store
        self.greetings: Gathering[Hello, int] = Gathering(store.greet_all)
        self._deliveries = [Gathering(self._add) for _ in range(store.writers)]

    def deliveries(self, sandbox: str) -> Gathering[Delivery, None]:
        """A sandbox's own go one way, so that they are committed in their order."""
        return self._deliveries[zlib.crc32(sandbox.encode()) % len(self._deliveries)]

    def _add(self, deliveries: list[Delivery]) -> list[None]:
        self._store.add(deliveries)
        return [None] * len(deliveries)

    async def run(self) -> None:
        """Works until it is cancelled."""
        await asyncio.gather(self.greetings.run(), *(one.run() for one in self._deliveries))


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
        self._gate = gate or Gate()
        self._quota = quota or Quota()
        self._committing = Committing(Measured(store, metrics))
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
        await self._committing.run()

    def stop(self) -> None:
        """Every stream ends after the batch that it is at."""
        self._stopping.set()

    async def _stream(self, _: object, context: Any) -> None:
        with self._metrics.streams.track_inprogress():
            await self._serve(context)

    async def _serve(self, context: Any) -> None:
        conversation = Conversation(self._committing, self._quota)
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
        """Until one side ends it. A batch is read and checked while the one before it is
        committed; answers go out in their order."""
        stopping = asyncio.ensure_future(self._stopping.wait())
        answering: asyncio.Future[None] | None = None
        limit_s: float | None = HELLO_S
        try:
            while (raw := await _read(context, stopping, answering, limit_s)) is not None:
                limit_s = None
                message = _parsed(raw)
                if message.HasField("hello"):
                    conversation.claimed = message.hello.sandbox[:NAME_LENGTH]
                # For each message: a token may expire, or be withdrawn.
                self._gate.check(context, conversation.claimed)
                answer = conversation.answer(message, len(raw))
                if answering is not None:
                    await answering
                answering = asyncio.ensure_future(_write(context, answer))
                if message.HasField("hello"):
                    await answering  # the store must know whose the first batch is
                if conversation.pause_s:  # who does not keep to it is read no sooner all the same
                    await asyncio.wait((stopping,), timeout=conversation.pause_s)
            if answering is not None:
                await answering
        finally:
            stopping.cancel()
            if answering is not None:
                await asyncio.wait((answering,))

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


async def _read(
    context: Any,
    stopping: asyncio.Future[Any],
    answering: asyncio.Future[None] | None,
    limit_s: float | None,
) -> bytes | None:
    """The next message; None at the end of the stream, and when the collector is to stop.

    Raises what the answer to the message before it fails with.
    """
    reading = asyncio.ensure_future(context.read())
    waiting = {reading, stopping, *((answering,) if answering is not None else ())}
    try:
        while not reading.done() and not stopping.done():
            done, _ = await asyncio.wait(waiting, timeout=limit_s, return_when=_FIRST)
            if not done:
                raise Malformed(f"no Hello within {limit_s:.0f} s")
            if answering is not None and answering in done:
                answering.result()
                waiting.discard(answering)
        raw: Any = reading.result() if reading.done() else grpc.aio.EOF
        return None if raw is grpc.aio.EOF else raw
    finally:
        if not reading.done():
            reading.cancel()
            await asyncio.wait((reading,))


async def _write(context: Any, answer: Awaitable[wire.CollectorMessage]) -> None:
    await context.write(await answer)


class Conversation:
    """One stream: Hello first, then batches in ascending sequence."""

    def __init__(self, committing: Committing, quota: Quota) -> None:
        self.claimed = ""  # what the other side says that it is
        self.sandbox = ""  # what it may say
        self._hello: Hello | None = None
        self._clock = Clock(0)
        self._last = 0
        self._committing = committing
        self._quota = quota
        self.pause_s = 0.0  # before more is taken

    def close(self) -> None:
        if self.sandbox:
            self._quota.leave(self.sandbox)

    def answer(self, message: wire.ProbeMessage, size: int) -> Awaitable[wire.CollectorMessage]:
        """To a message of `size` bytes. Malformed for what is against the protocol, Exhausted
        for a stream too many; the answer itself raises Problem when the store cannot."""
        kind = message.WhichOneof("body")
        if kind == "hello":
            return self._greet(message.hello)
        if kind == "batch":
            return self._take(message.batch, size)
        raise Malformed("a message without a body")

    def _greet(self, message: wire.Hello) -> Awaitable[wire.CollectorMessage]:
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
        return self._welcome(self._committing.greetings.submit(self._hello))

    async def _welcome(self, greeted: Awaitable[int]) -> wire.CollectorMessage:
        welcome = wire.Welcome(acknowledged=await greeted, window=self._window)
        return wire.CollectorMessage(welcome=welcome, time_ns=self._clock.say())

    @property
    def _window(self) -> int:
        return WINDOW_BUSY if self._committing.deliveries(self.sandbox).busy else WINDOW

    def _take(self, batch: wire.Batch, size: int) -> Awaitable[wire.CollectorMessage]:
        if self._hello is None:
            raise Malformed("a Batch before Hello")
        if len(batch.items) > BATCH_ITEMS:
            raise Malformed(f"a Batch of {len(batch.items)} items: {BATCH_ITEMS} are taken")
        delivery = self._delivery(self._hello, batch)
        self.pause_s = self._quota.charge(self.sandbox, len(batch.items), size)
        pause_ms = math.ceil(self.pause_s * 1000)
        committed = self._committing.deliveries(self.sandbox).submit(delivery)
        return self._acknowledge(committed, delivery.last, pause_ms)

    async def _acknowledge(
        self, committed: Awaitable[None], last: int, pause_ms: int
    ) -> wire.CollectorMessage:
        await committed
        acknowledgement = wire.Acknowledgement(
            sequence=last, window=self._window, pause_ms=pause_ms
        )
        return wire.CollectorMessage(acknowledgement=acknowledgement, time_ns=self._clock.say())

    def _delivery(self, hello: Hello, batch: wire.Batch) -> Delivery:
        events: list[EventRow] = []
        spans: list[tuple[int, Observation]] = []
        last = self._last
        for item in batch.items:
            sequence = item.sequence
            if not last < sequence <= _HIGHEST:
                raise Malformed(f"sequence {sequence} after {last}")
            last = sequence
            if item.HasField("event"):
                events.append(_event(item.event))
            elif item.HasField("span"):
                spans.append((sequence, _observation(item.span, hello)))
            else:
                raise Malformed("an Item without a body")
        self._last = last
        better = self._clock.hear(batch.clock) and abs(self._clock.offset_ns) <= _HIGHEST
        offset = self._clock.offset_ns if better else None
        return Delivery(hello.sandbox, hello.boot, self._last, tuple(events), tuple(spans), offset)


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
    if kind in _FRACTIONS:
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
