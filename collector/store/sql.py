"""What both databases do alike: statements that each of them understands.

`?` stands for a value, as in SQLite; the other store writes it in its driver's way.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import ClassVar

from collector.outcomes import Outcome
from collector.store import rows
from collector.store.interface import LIVE_NS, Delivery, Hello, Observation, Pruned, Status
from probe.events import Event
from probe.problem import Problem
from probe.span import Span

PRUNED_TOGETHER = 20_000  # events in one transaction
_OUTCOME = ", ".join(rows.OUTCOME_COLUMNS)


def places(count: int) -> str:
    return ", ".join("?" * count)


def assignments(columns: Iterable[str]) -> str:
    return ", ".join(f"{column} = excluded.{column}" for column in columns)


# A span comes again when more is known of it; an older word never replaces a newer one.
ADD_SPAN = (
    f"INSERT INTO spans (sandbox, sequence, {', '.join(rows.SPAN_COLUMNS)}) "
    f"VALUES ({places(2 + len(rows.SPAN_COLUMNS))}) "
    "ON CONFLICT (sandbox, key, started_ns) DO UPDATE SET "
    f"{assignments(('sequence', *rows.SPAN_COLUMNS))} "
    "WHERE excluded.sequence > spans.sequence"
)
ADD_RUN = "INSERT INTO runs (run, first_heard_ns) VALUES (?, ?) ON CONFLICT DO NOTHING"
_ADD_OUTCOME = (
    f"INSERT INTO outcomes (run, {_OUTCOME}) VALUES ({places(1 + len(rows.OUTCOME_COLUMNS))}) "
    f"ON CONFLICT (run, test) DO UPDATE SET {assignments(rows.OUTCOME_COLUMNS)}"
)
_GREET = (
    "INSERT INTO sandboxes "
    "(sandbox, boot, version, coverage, clock_offset_ns, first_heard_ns, last_heard_ns) "
    f"VALUES ({places(7)}) ON CONFLICT (sandbox, boot) DO UPDATE SET "
    f"{assignments(('version', 'coverage', 'clock_offset_ns', 'last_heard_ns'))} "
    "RETURNING acknowledged"
)
# Sandboxes may share a name and be there at once; then neither follows the other.
_NEXT_BOOT = (
    "SELECT boot FROM sandboxes other WHERE other.sandbox = own.sandbox "
    "AND other.boot <> own.boot AND other.first_heard_ns > own.last_heard_ns "
    "ORDER BY first_heard_ns LIMIT 1"
)
_STATUS = (
    "SELECT count(*), count(*) FILTER (WHERE last_heard_ns > ?), min(first_heard_ns), "
    "max(last_heard_ns), "
    "max(abs(clock_offset_ns)) FILTER (WHERE last_heard_ns > ?), "
    "(SELECT count(*) FROM runs), (SELECT count(*) FROM spans), (SELECT count(*) FROM outcomes) "
    "FROM sandboxes"
)
_SILENT_RUNS = (
    "SELECT run FROM runs WHERE first_heard_ns < ? "
    "AND NOT EXISTS (SELECT 1 FROM spans WHERE spans.run = runs.run)"
)


def forgotten(delivery: Delivery) -> Problem:
    return Problem(
        f"sandbox {delivery.sandbox!r} was pruned since it was greeted", "it has to greet again"
    )


def _probe(hello: Hello) -> tuple[str, str]:
    return hello.sandbox, hello.boot


class SqlStore(ABC):
    """Implements what a Store does by SQL alone."""

    by_span: ClassVar[str] = "events"  # the table, to be read by its index on spans
    writers: ClassVar[int] = 1
    database: str  # what it is called in words to people, without a password

    def greet(self, hello: Hello) -> int:
        [acknowledged] = self.greet_all([hello])
        return acknowledged

    def greet_all(self, hellos: Sequence[Hello]) -> list[int]:
        with self._transaction():
            # In one order, or two collectors might each wait for the other.
            known = {_probe(hello): self._greet(hello) for hello in sorted(hellos, key=_probe)}
        return [known[_probe(hello)] for hello in hellos]

    def _greet(self, hello: Hello) -> int:
        now = time.time_ns()
        coverage = rows.coverage_text(hello.coverage)
        values = (hello.sandbox, hello.boot, hello.version, coverage, hello.clock_offset_ns)
        [row] = self._execute(_GREET, *values, now, now)
        return int(row[0])

    def add_outcomes(self, run: str, outcomes: Iterable[Outcome]) -> None:
        added = [(run, *rows.outcome_row(outcome)) for outcome in outcomes]
        with self._transaction():
            self._execute(ADD_RUN, run, time.time_ns())
            self._execute_many(_ADD_OUTCOME, added)

    def runs(self, limit: int) -> list[str]:
        sql = "SELECT run FROM runs ORDER BY first_heard_ns DESC, run LIMIT ?"
        return [run for (run,) in self._query(sql, limit)]

    def has_run(self, run: str) -> bool:
        return bool(self._query("SELECT 1 FROM runs WHERE run = ?", run))

    def observations(self, run: str) -> list[Observation]:
        found = self._query(
            "SELECT spans.message, own.sandbox, own.boot, clock_offset_ns, last_heard_ns, "
            f"({_NEXT_BOOT}) FROM spans JOIN sandboxes own ON own.id = spans.sandbox "
            "WHERE run = ? ORDER BY started_ns, sequence",
            run,
        )
        return [rows.observation_from(*row) for row in found]

    def outcomes(self, run: str) -> list[Outcome]:
        sql = f"SELECT {_OUTCOME} FROM outcomes WHERE run = ? ORDER BY test"
        return [rows.outcome_from(row) for row in self._query(sql, run)]

    def events(self, span: Span) -> list[Event]:
        found = self._query(
            f"SELECT message FROM {self.by_span} WHERE sandbox = "
            "(SELECT id FROM sandboxes WHERE sandbox = ? AND boot = ?) "
            "AND span = ? ORDER BY time_ns, sequence",
            span.sandbox,
            span.boot,
            span.key,
        )
        return [rows.event_from(message) for (message,) in found]

    def status(self) -> Status:
        since = time.time_ns() - LIVE_NS
        [found] = self._query(_STATUS, since, since)
        sandboxes, live, first, last, offset, runs, spans, outcomes = found
        return Status(
            database=self.database,
            schema=self._schema(),
            size=self._size(),
            sandboxes=sandboxes,
            live=live,
            runs=runs,
            spans=spans,
            outcomes=outcomes,
            first_heard_ns=first,
            last_heard_ns=last,
            clock_offset_ns=offset or 0,
        )

    def prune(self, before_ns: int) -> Pruned:
        silent = self._query("SELECT id FROM sandboxes WHERE last_heard_ns < ?", before_ns)
        pruned = Pruned()
        for (number,) in silent:
            pruned = pruned.plus(self._prune_sandbox(number, before_ns))
        for (run,) in self._query(_SILENT_RUNS, before_ns):
            pruned = pruned.plus(self._forget_run(run))
        return pruned

    def prune_run(self, run: str) -> Pruned:
        spans = self._query("SELECT DISTINCT sandbox, key FROM spans WHERE run = ?", run)
        of_span = f"{self.by_span} WHERE sandbox = ? AND span = ?"
        events = sum(self._delete_events(of_span, *span) for span in spans)
        with self._transaction():
            removed = self._count("DELETE FROM spans WHERE run = ?", run)
        return self._forget_run(run).plus(Pruned(spans=removed, events=events))

    def _prune_sandbox(self, number: int, before_ns: int) -> Pruned:
        """Its own row goes last, so that what is broken off is found again."""
        events = self._delete_events("events WHERE sandbox = ?", number)
        with self._transaction():
            gone = self._count(
                "DELETE FROM sandboxes WHERE id = ? AND last_heard_ns < ?", number, before_ns
            )
            spans = self._count("DELETE FROM spans WHERE sandbox = ?", number) if gone else 0
        return Pruned(sandboxes=gone, spans=spans, events=events)

    def _forget_run(self, run: str) -> Pruned:
        with self._transaction():
            self._execute("DELETE FROM outcomes WHERE run = ?", run)
            return Pruned(runs=self._count("DELETE FROM runs WHERE run = ?", run))

    def _delete_events(self, which: str, *values: object) -> int:
        sql = (
            "DELETE FROM events WHERE (sandbox, sequence) IN "
            f"(SELECT sandbox, sequence FROM {which} LIMIT {PRUNED_TOGETHER})"
        )
        deleted, total = PRUNED_TOGETHER, 0
        while deleted == PRUNED_TOGETHER:
            with self._transaction():
                deleted = self._count(sql, *values)
            total += deleted
        return total

    @abstractmethod
    def _query(self, sql: str, *values: object) -> list[rows.Row]:
        """What it yields, read outside of any transaction."""

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[None]:
        """Holds the lock; commits at its end, or rolls back and raises Problem."""

    @abstractmethod
    def _execute(self, sql: str, *values: object) -> list[rows.Row]:
        """What it yields. In a transaction."""

    @abstractmethod
    def _count(self, sql: str, *values: object) -> int:
        """How many rows it changed. In a transaction."""

    @abstractmethod
    def _execute_many(self, sql: str, values: Sequence[rows.Row]) -> None:
        """In a transaction."""

    @abstractmethod
    def _schema(self) -> int:
        """The version that the database is at."""

    @abstractmethod
    def _size(self) -> int:
        """Bytes of the whole database."""
