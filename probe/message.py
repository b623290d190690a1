"""Events, spans and coverage as wire messages (proto/probe/v1/stream.proto) and back.

Field by field from the dataclasses: a field without a place on the wire, or the
other way round, fails tests/unit/test_message.py.
"""

from __future__ import annotations

import functools
from typing import Any

from probe import events
from probe.coverage import Coverage, Losses
from probe.digest import Digest
from probe.events import Event
from probe.exchange import Transfer
from probe.span import Span
from probe.wire import stream_pb2 as wire

_COMMON = (
    *("sequence", "time_ns", "pid", "tid", "ppid", "uid", "comm", "exe", "count", "span"),
    *("mnt_ns", "inner_pid", "session"),
)
_SPAN = ("key", "run", "test", "started_ns", "outcome", "pid", "whole_process")
_SPAN_OPTIONAL = ("ended_ns", "exit_code", "signal", "message")


def event_message(event: Event) -> wire.Event:
    message = wire.Event(**{name: getattr(event, name) for name in _COMMON})
    detail = getattr(message, event.kind)
    detail.SetInParent()
    for name in events.detail_fields(type(event)):
        value = getattr(event, name)
        if isinstance(value, tuple):
            getattr(detail, name).extend(value)
        elif value is not None:
            setattr(detail, name, value)
    return message


def event_from(message: wire.Event) -> Event:
    """ValueError where the message carries a kind that this version does not know."""
    kind_name = message.WhichOneof("detail")
    if kind_name is None:
        raise ValueError("an event of an unknown kind")
    kind, always, repeated, optional = _fields(kind_name)
    detail = getattr(message, kind_name)
    fields: dict[str, Any] = {name: getattr(message, name) for name in _COMMON}
    for name in always:
        fields[name] = getattr(detail, name)
    for name in repeated:
        fields[name] = tuple(getattr(detail, name))
    for name in optional:
        if detail.HasField(name):
            fields[name] = getattr(detail, name)
    return kind(**fields)


@functools.cache
def _fields(kind_name: str) -> tuple[type[Event], list[str], list[str], list[str]]:
    """A kind, and its own fields: those that are always there, lists, and those that may lack."""
    kind = events.KINDS[kind_name]
    known = getattr(wire.Event(), kind_name).DESCRIPTOR.fields_by_name
    own = {name: known[name] for name in events.detail_fields(kind)}
    repeated = [name for name, field in own.items() if field.is_repeated]
    optional = [name for name, field in own.items() if field.has_presence]
    return kind, [name for name in own if name not in {*repeated, *optional}], repeated, optional


def _transfer_message(transfer: Transfer) -> wire.Transfer:
    known = transfer.digest
    return wire.Transfer(
        name=transfer.name,
        at=transfer.at,
        outward=transfer.outward,
        length=known.length,
        hash=known.hash,
        prefixes=known.prefixes,
        variants=dict(known.variants),
    )


def _transfer_from(message: wire.Transfer) -> Transfer:
    known = Digest(
        message.length,
        message.hash,
        tuple(message.prefixes),
        tuple(sorted(message.variants.items())),
    )
    return Transfer(message.name, message.at, message.outward, known)


def coverage_message(coverage: Coverage) -> wire.Coverage:
    return wire.Coverage(
        engine=coverage.engine, senses=coverage.senses, attribution=coverage.attribution
    )


def coverage_from(message: wire.Coverage) -> Coverage:
    return Coverage(message.engine, dict(message.senses), message.attribution)


def span_message(span: Span, coverage: Coverage, losses: Losses) -> wire.Span:
    message = wire.Span(
        command=span.command,
        labels=span.labels,
        features=span.features,
        transfers=map(_transfer_message, span.transfers),
        coverage=coverage_message(coverage),
        lost=losses.by_sense,
        **{name: getattr(span, name) for name in _SPAN},
    )
    for name in _SPAN_OPTIONAL:
        if getattr(span, name) is not None:
            setattr(message, name, getattr(span, name))
    return message


def span_from(message: wire.Span, sandbox: str, boot: str) -> tuple[Span, Coverage, Losses]:
    span = Span(
        command=tuple(message.command),
        labels=dict(message.labels),
        features=tuple(message.features),
        transfers=tuple(map(_transfer_from, message.transfers)),
        sandbox=sandbox,
        boot=boot,
        **{name: getattr(message, name) for name in _SPAN},
    )
    for name in _SPAN_OPTIONAL:
        if message.HasField(name):
            setattr(span, name, getattr(message, name))
    return span, coverage_from(message.coverage), Losses(dict(message.lost))
