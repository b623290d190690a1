"""What schema 1 kept in columns and JSON, as the messages that schema 2 keeps.

It knows the names of then, not those of now: fields that are gone since are left out.
"""

from __future__ import annotations

import json
from typing import Any

from probe.wire import stream_pb2 as wire

_EVENT = ("sequence", "time_ns", "pid", "tid", "ppid", "uid", "comm", "exe", "count", "span")
EVENT_COLUMNS = ("kind", "detail", *_EVENT, "mnt_ns")
_SPAN = ("key", "started_ns", "run", "test", "pid", "ended_ns", "exit_code", "signal")
SPAN_COLUMNS = (
    *("whole_process", "command", "labels", "coverage", "lost"),
    *(*_SPAN, "outcome", "message"),
)


def event_message(kind: str, detail: str, *common: Any) -> bytes:
    """From the columns EVENT_COLUMNS."""
    message = wire.Event(**dict(zip(EVENT_COLUMNS[2:], common, strict=True)))
    target = getattr(message, kind)
    target.SetInParent()
    for name, value in json.loads(detail).items():
        # What not every event has lay beside the fields of its kind.
        for part in (target, message):
            if name in part.DESCRIPTOR.fields_by_name:
                _set(part, name, value)
                break
    return message.SerializeToString()


def _set(message: Any, name: str, value: Any) -> None:
    if isinstance(value, list):
        getattr(message, name).extend(value)
    else:
        setattr(message, name, value)


def span_message(
    whole_process: int,
    command: str,
    labels: str,
    coverage: str,
    lost: str,
    *plain: Any,
) -> bytes:
    """From the columns SPAN_COLUMNS."""
    named = zip(SPAN_COLUMNS[5:], plain, strict=True)
    return wire.Span(
        whole_process=bool(whole_process),
        command=json.loads(command),
        labels=json.loads(labels),
        coverage=wire.Coverage(**json.loads(coverage)),
        lost=json.loads(lost),
        **{name: value for name, value in named if value is not None},
    ).SerializeToString()
