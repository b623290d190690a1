"""Events, spans and outcomes as rows and back, the same for every database.

An event is kept as the message that it came in (proto/probe/v1/stream.proto), beside the
columns that are asked for: it need not be taken apart to be stored, and a field that a
probe adds is kept by a collector that does not know it yet.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from collector.outcomes import Outcome
from collector.store.interface import EventRow, Observation
from probe.coverage import Coverage
from probe.events import Event
from probe.exchange import exchange_from
from probe.message import event_from as event_from_message
from probe.message import span_from, span_message
from probe.wire import stream_pb2 as wire

Row = Sequence[Any]

EVENT_COLUMNS = ("sequence", "span", "kind", "time_ns", "message")
SPAN_COLUMNS = ("key", "started_ns", "run", "test", "outcome", "message")
OUTCOME_COLUMNS = (
    *("test", "name", "outcome", "message", "duration_s", "sandbox", "started_ns", "exchange"),
)


def event_row(message: wire.Event) -> EventRow:
    """In the order of EVENT_COLUMNS. ValueError where its kind is not known here."""
    kind = message.WhichOneof("detail")
    if kind is None:
        raise ValueError("an event of an unknown kind")
    return message.sequence, message.span, kind, message.time_ns, message.SerializeToString()


def event_from(message: bytes) -> Event:
    return event_from_message(wire.Event.FromString(message))


def span_row(observation: Observation) -> Row:
    """In the order of SPAN_COLUMNS."""
    span = observation.span
    message = span_message(span, observation.coverage, observation.losses)
    columns = (getattr(span, name) for name in SPAN_COLUMNS[:-1])
    return (*columns, message.SerializeToString())


def observation_from(message: bytes, sandbox: str, boot: str, *state: Any) -> Observation:
    """`state`: what Observation has beyond what the probe told, in its order."""
    return Observation(*span_from(wire.Span.FromString(message), sandbox, boot), *state)


def coverage_text(coverage: Coverage) -> str:
    return json.dumps(coverage.as_json(), ensure_ascii=False, separators=(",", ":"))


def outcome_row(outcome: Outcome) -> Row:
    """In the order of OUTCOME_COLUMNS."""
    exchange = None if outcome.exchange is None else json.dumps(outcome.exchange.as_json())
    return (*(getattr(outcome, name) for name in OUTCOME_COLUMNS[:-1]), exchange)


def outcome_from(row: Row) -> Outcome:
    *told, exchange = row
    known = None if exchange is None else exchange_from(json.loads(exchange))
    return replace(Outcome(*told), exchange=known)
