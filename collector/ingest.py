"""What probes send, checked and committed, exactly once.

Each stream waits for the commit of one batch before it reads the next; what many
streams bring in the meantime shares one transaction.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Awaitable
from typing import Any, TypeVar

import grpc
import structlog
from google.protobuf.message import DecodeError

from collector.store import Delivery, Hello, Observation, Store
from probe.events import Event
from probe.message import coverage_from, event_from, span_from
from probe.problem import Problem
from probe.span import OUTCOMES
from probe.wire import stream_pb2 as wire

SERVICE = "probe.v1.Collector"
MESSAGE_BYTES = 4 << 20
BATCH_ITEMS = 4096
NAME_LENGTH = 1024  # of a sandbox, boot, run or test, in characters
TOGETHER = 64  # deliveries in one transaction
_HIGHEST = (1 << 63) - 1  # of the integers that a database holds
_REMEMBERED = 1000  # complaints that are not logged again

T = TypeVar("T")
_Pending = tuple[Delivery, "asyncio.Future[None]"]


class Malformed(ValueError):
    """The other side does not keep to the protocol."""


class Committer:
    """Brings deliveries into the store, many at a time, in one task."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._arrived: asyncio.Queue[_Pending] = asyncio.Queue()

    async def commit(self, delivery: Delivery) -> None:
        """Returns when it is committed; Problem when it cannot be."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._arrived.put_nowait((delivery, done))
        await done

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

    def __init__(self, store: Store) -> None:
        self._store = store
        self._committer = Committer(store)
        self._log = structlog.get_logger("ingest")
        self._stopping = asyncio.Event()
        self._complaints: set[tuple[str, str]] = set()

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
        conversation = Conversation(self._store, self._committer)
        try:
            while (message := await self._next(context)) is not None:
                await context.write(await conversation.answer(message))
        except Malformed as error:
            self._complain("refused", conversation, str(error), context)
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except Problem as error:
            self._complain("not stored", conversation, str(error), context)
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the collector cannot store this now")
        if self._stopping.is_set():
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the collector is stopping")

    async def _next(self, context: Any) -> wire.ProbeMessage | None:
        """None at the end of the stream, and when the collector is to stop."""
        raw = await _unless(self._stopping, context.read())
        if raw is None or raw is grpc.aio.EOF:
            return None
        try:
            return wire.ProbeMessage.FromString(raw)
        except DecodeError:
            raise Malformed("not a ProbeMessage") from None

    def _complain(self, what: str, conversation: Conversation, reason: str, context: Any) -> None:
        """Once for each sandbox and reason: a broken probe comes back for ever."""
        sandbox = conversation.sandbox or context.peer()
        if (sandbox, reason) in self._complaints or len(self._complaints) >= _REMEMBERED:
            return
        self._complaints.add((sandbox, reason))
        self._log.warning(what, sandbox=sandbox, reason=reason)


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

    def __init__(self, store: Store, committer: Committer) -> None:
        self.sandbox = ""
        self._boot = ""
        self._last = 0
        self._store = store
        self._committer = committer

    async def answer(self, message: wire.ProbeMessage) -> wire.CollectorMessage:
        """Malformed for what is against the protocol, Problem when the store cannot."""
        kind = message.WhichOneof("body")
        if kind == "hello":
            return await self._greet(message.hello)
        if kind == "batch":
            return await self._take(message.batch)
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
        self.sandbox, self._boot = message.sandbox, message.boot
        coverage = coverage_from(message.coverage)
        hello = Hello(message.sandbox, message.boot, message.version, coverage, offset)
        acknowledged = await asyncio.to_thread(self._store.greet, hello)
        return wire.CollectorMessage(welcome=wire.Welcome(acknowledged=acknowledged))

    async def _take(self, batch: wire.Batch) -> wire.CollectorMessage:
        if not self.sandbox:
            raise Malformed("a Batch before Hello")
        if not 0 < len(batch.items) <= BATCH_ITEMS:
            raise Malformed(f"a Batch of {len(batch.items)} items: 1 to {BATCH_ITEMS} are taken")
        delivery = self._delivery(batch)
        await self._committer.commit(delivery)
        acknowledgement = wire.Acknowledgement(sequence=delivery.last)
        return wire.CollectorMessage(acknowledgement=acknowledgement)

    def _delivery(self, batch: wire.Batch) -> Delivery:
        events: list[Event] = []
        spans: list[tuple[int, Observation]] = []
        for item in batch.items:
            if not self._last < item.sequence <= _HIGHEST:
                raise Malformed(f"sequence {item.sequence} after {self._last}")
            self._last = item.sequence
            kind = item.WhichOneof("body")
            if kind == "event":
                events.append(_event(item.event))
            elif kind == "span":
                spans.append((item.sequence, self._observation(item.span)))
            else:
                raise Malformed("an Item without a body")
        return Delivery(self.sandbox, self._boot, self._last, tuple(events), tuple(spans))

    def _observation(self, message: wire.Span) -> Observation:
        _check_names(run=message.run, test=message.test)
        _check_integers(key=message.key)
        if message.outcome not in OUTCOMES:
            raise Malformed(f"outcome {message.outcome[:40]!r}: not one of {', '.join(OUTCOMES)}")
        return Observation(*span_from(message, self.sandbox, self._boot))


def _event(message: wire.Event) -> Event:
    if not message.sequence:
        raise Malformed("an event without a sequence")
    _check_integers(sequence=message.sequence, count=message.count, span=message.span)
    try:
        event = event_from(message)
    except ValueError as error:
        raise Malformed(str(error)) from None
    if not math.isfinite(getattr(event, "duration_s", None) or 0):
        raise Malformed("a duration that is no number")
    return event


def _check_names(**names: str) -> None:
    for what, name in names.items():
        if len(name) > NAME_LENGTH:
            raise Malformed(f"a {what} of {len(name)} characters: {NAME_LENGTH} are taken")


def _check_integers(**values: int) -> None:
    for what, value in values.items():
        if value > _HIGHEST:
            raise Malformed(f"{what} {value}: above the highest, {_HIGHEST}")
