"""What probes delivered, on its way into PostgreSQL."""

from __future__ import annotations

import functools
import struct
import time
from collections.abc import Iterator, Sequence

from psycopg import errors

from collector.store import rows
from collector.store.interface import Delivery
from collector.store.postgres_session import Session
from collector.store.sql import ADD_RUN, ADD_SPAN, forgotten

_COLUMNS = f"(sandbox, {', '.join(rows.EVENT_COLUMNS)})"
_COPY = "COPY {} " + _COLUMNS + " FROM STDIN (FORMAT BINARY)"
_COPY_BEGIN = b"PGCOPY\n\xff\r\n\0" + bytes(8)  # no flags, no extension
_COPY_END = struct.pack("!h", -1)
_COPIED_TOGETHER = 1024  # rows in one message to the server
_FIELDS = 1 + len(rows.EVENT_COLUMNS)
# Rows are locked in one order, or two collectors that serve the same sandboxes might each
# wait for the other.
_LOCK = """
SELECT sandbox, boot, id, acknowledged FROM sandboxes
WHERE (sandbox, boot) IN (SELECT * FROM unnest(?::text[], ?::text[]))
ORDER BY id FOR NO KEY UPDATE
"""
_HEAR = """
UPDATE sandboxes SET acknowledged = greatest(acknowledged, heard.last), last_heard_ns = ?,
    clock_offset_ns = coalesce(heard.clock_offset, clock_offset_ns)
FROM unnest(?::bigint[], ?::bigint[], ?::bigint[]) AS heard (id, last, clock_offset)
WHERE sandboxes.id = heard.id
"""

Probe = tuple[str, str]  # sandbox and boot


class Writer:
    """Adds over a session of its own."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def close(self) -> None:
        self._session.close()

    def add(self, deliveries: Sequence[Delivery]) -> None:
        """As collector.store.Ingesting has it."""
        now = time.time_ns()
        try:
            with self._session.transaction():
                self._add(deliveries, now, fresh=True)
        except errors.UniqueViolation:  # some of it came before, under other numbers
            with self._session.transaction():
                self._add(deliveries, now, fresh=False)

    def _add(self, deliveries: Sequence[Delivery], now: int, *, fresh: bool) -> None:
        known = self._known(deliveries)
        numbers = {probe: number for probe, (number, _) in known.items()}
        copied: list[rows.Row] = []
        merged: list[rows.Row] = []
        for delivery in deliveries:
            number, acknowledged = known[delivery.sandbox, delivery.boot]
            first_time = fresh and delivery.last > acknowledged
            target = copied if first_time else merged
            target.extend((number, *event) for event in delivery.events)
        if copied:
            self._copy("events", copied)
        if merged:
            self._merge(merged)
        self._add_spans(deliveries, numbers, now)
        last: dict[int, int] = {}
        offsets: dict[int, int] = {}
        for delivery in deliveries:
            number = numbers[delivery.sandbox, delivery.boot]
            last[number] = max(last.get(number, 0), delivery.last)
            if delivery.clock_offset_ns is not None:
                offsets[number] = delivery.clock_offset_ns
        self._session.execute(
            _HEAR, now, list(last), list(last.values()), list(map(offsets.get, last))
        )

    def _known(self, deliveries: Sequence[Delivery]) -> dict[Probe, tuple[int, int]]:
        """The number of each probe and what is acknowledged; their rows are locked."""
        probes = {(delivery.sandbox, delivery.boot): delivery for delivery in deliveries}
        sandboxes, boots = zip(*probes, strict=True)
        found = self._session.execute(_LOCK, list(sandboxes), list(boots))
        known = {(sandbox, boot): (number, last) for sandbox, boot, number, last in found}
        for probe, delivery in probes.items():
            if probe not in known:
                raise forgotten(delivery)
        return known

    def _copy(self, table: str, added: Sequence[rows.Row]) -> None:
        self._session.copy(_COPY.format(table), _copy_format(added))

    def _merge(self, added: Sequence[rows.Row]) -> None:
        """What may be there already goes through a table of the session's own."""
        self._session.execute(
            "CREATE TEMPORARY TABLE IF NOT EXISTS arrived (LIKE events) ON COMMIT DELETE ROWS"
        )
        self._copy("arrived", added)
        self._session.execute("INSERT INTO events SELECT * FROM arrived ON CONFLICT DO NOTHING")

    def _add_spans(
        self, deliveries: Sequence[Delivery], numbers: dict[Probe, int], now: int
    ) -> None:
        spans = [
            (numbers[delivery.sandbox, delivery.boot], sequence, *rows.span_row(observation))
            for delivery in deliveries
            for sequence, observation in delivery.spans
        ]
        if not spans:
            return
        runs = {seen.span.run for delivery in deliveries for _, seen in delivery.spans}
        known = self._session.execute("SELECT run FROM runs WHERE run = ANY(?)", list(runs))
        new = sorted(runs - {run for (run,) in known})  # in one order, like the locks
        self._session.execute_many(ADD_RUN, [(run, now) for run in new])
        self._session.execute_many(ADD_SPAN, spans)


@functools.cache
def _layout(kind: str) -> tuple[struct.Struct, bytes]:
    """Of a row but its message: each field after its length."""
    text = kind.encode()
    return struct.Struct(f"!hiqiqiqi{len(text)}siqi"), text


def _copy_format(added: Sequence[rows.Row]) -> Iterator[bytes]:
    yield _COPY_BEGIN
    for first in range(0, len(added), _COPIED_TOGETHER):
        yield b"".join(map(_copied, added[first : first + _COPIED_TOGETHER]))
    yield _COPY_END


def _copied(row: rows.Row) -> bytes:
    """A row in COPY's binary form (PostgreSQL's manual, "COPY", Binary Format).

    The driver's own way asks for each value's type again, which costs as much as all else here.
    """
    sandbox, sequence, span, kind, time_ns, message = row
    layout, text = _layout(kind)
    fixed: bytes = layout.pack(
        _FIELDS, 8, sandbox, 8, sequence, 8, span, len(text), text, 8, time_ns, len(message)
    )
    whole: bytes = fixed + message
    return whole
