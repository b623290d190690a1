"""Events, spans and outcomes as rows and back, the same for every database."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from collector.outcomes import Outcome
from collector.store.interface import Observation
from probe import events
from probe.coverage import Coverage, Losses
from probe.events import Event
from probe.span import Span

Row = Sequence[Any]

_EVENT_COMMON = (
    "sequence",
    "time_ns",
    "pid",
    "tid",
    "ppid",
    "uid",
    "comm",
    "exe",
    "count",
    "span",
    "mnt_ns",
)
# Not every event has these, so they lie beside the fields of its kind.
_EVENT_OCCASIONAL = ("inner_pid", "session")
EVENT_COLUMNS = ("kind", *_EVENT_COMMON, "detail")
_SPAN_PLAIN = (
    "key",
    "started_ns",
    "run",
    "test",
    "pid",
    "whole_process",
    "ended_ns",
    "exit_code",
    "signal",
    "outcome",
    "message",
)
SPAN_COLUMNS = (*_SPAN_PLAIN, "command", "labels", "coverage", "lost")
OUTCOME_COLUMNS = ("test", "name", "outcome", "message", "duration_s")


def event_row(event: Event) -> Row:
    """In the order of EVENT_COLUMNS."""
    detail = {
        name: value
        for name in events.detail_fields(type(event))
        if (value := getattr(event, name)) is not None and value != ()
    }
    detail |= {name: value for name in _EVENT_OCCASIONAL if (value := getattr(event, name))}
    common = (getattr(event, name) for name in _EVENT_COMMON)
    return (event.kind, *common, _json(detail))


def event_from(row: Row) -> Event:
    kind, *common, detail = row
    fields = dict(zip(_EVENT_COMMON, common, strict=True))
    known = {*events.detail_fields(events.KINDS[kind]), *_EVENT_OCCASIONAL}
    for name, value in json.loads(detail).items():
        if name in known:  # another version may have told more
            fields[name] = tuple(value) if isinstance(value, list) else value
    return events.KINDS[kind](**fields)


def span_row(observation: Observation) -> Row:
    """In the order of SPAN_COLUMNS."""
    span = observation.span
    return (
        *(getattr(span, name) for name in _SPAN_PLAIN),
        _json(span.command),
        _json(span.labels),
        coverage_text(observation.coverage),
        _json(observation.losses.by_sense),
    )


def observation_from(row: Row, sandbox: str, boot: str) -> Observation:
    plain, (command, labels, coverage, lost) = row[: len(_SPAN_PLAIN)], row[len(_SPAN_PLAIN) :]
    fields = dict(zip(_SPAN_PLAIN, plain, strict=True))
    fields["whole_process"] = bool(fields["whole_process"])
    span = Span(
        **fields,
        command=tuple(json.loads(command)),
        labels=json.loads(labels),
        sandbox=sandbox,
        boot=boot,
    )
    return Observation(span, Coverage(**json.loads(coverage)), Losses(json.loads(lost)))


def coverage_text(coverage: Coverage) -> str:
    return _json(coverage.as_json())


def outcome_row(outcome: Outcome) -> Row:
    """In the order of OUTCOME_COLUMNS."""
    return tuple(getattr(outcome, name) for name in OUTCOME_COLUMNS)


def outcome_from(row: Row) -> Outcome:
    return Outcome(*row)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
