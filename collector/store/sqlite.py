"""The embedded store: one SQLite file in WAL mode, one connection, one writer at a time."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from collector.outcomes import Outcome
from collector.store import rows, schema
from collector.store.interface import Delivery, Hello, Observation
from probe.events import Event
from probe.problem import Problem
from probe.span import Span

BUSY_TIMEOUT_MS = 30_000  # another process (an import, a migration) may hold the file
_RETRY_S = 0.01

_EVENT = ", ".join(rows.EVENT_COLUMNS)
_SPAN = ", ".join(rows.SPAN_COLUMNS)
_OUTCOME = ", ".join(rows.OUTCOME_COLUMNS)


def _places(columns: Sequence[str], extra: int) -> str:
    return ", ".join("?" * (len(columns) + extra))


_ADD_EVENT = (
    f"INSERT OR IGNORE INTO events (sandbox, {_EVENT}) VALUES ({_places(rows.EVENT_COLUMNS, 1)})"
)
# A span comes again when more is known of it; an older word never replaces a newer one.
_ADD_SPAN = (
    f"INSERT INTO spans (sandbox, sequence, {_SPAN}) VALUES ({_places(rows.SPAN_COLUMNS, 2)}) "
    "ON CONFLICT (sandbox, key, started_ns) DO UPDATE SET "
    + ", ".join(f"{column} = excluded.{column}" for column in ("sequence", *rows.SPAN_COLUMNS))
    + " WHERE excluded.sequence > spans.sequence"
)
_ADD_OUTCOME = (
    f"INSERT OR REPLACE INTO outcomes (run, {_OUTCOME}) VALUES ({_places(rows.OUTCOME_COLUMNS, 1)})"
)
_GREET = (
    "INSERT INTO sandboxes "
    "(sandbox, boot, version, coverage, clock_offset_ns, first_heard_ns, last_heard_ns) "
    "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (sandbox, boot) DO UPDATE SET "
    + ", ".join(
        f"{column} = excluded.{column}"
        for column in ("version", "coverage", "clock_offset_ns", "last_heard_ns")
    )
    + " RETURNING acknowledged"
)


class SqliteStore:
    """Implements collector.store.Store."""

    def __init__(self, path: Path, *, create: bool = True) -> None:
        """Problem where the file is not ours to use: another's, newer, or out of reach."""
        self._path = path
        self._lock = threading.RLock()
        self._ids: dict[tuple[str, str], int] = {}
        _check_place(path, create)
        mode = "rwc" if create else _reading_mode(path)
        with self._speaking():
            self._connection = sqlite3.connect(
                f"{_uri(path)}?mode={mode}", uri=True, isolation_level=None, check_same_thread=False
            )
        try:
            with self._speaking():
                self._connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
                if create:
                    self._prepare()
                else:
                    self._prepare_reading()
        except Problem:
            self._connection.close()
            raise

    def greet(self, hello: Hello) -> int:
        now = time.time_ns()
        coverage = rows.coverage_text(hello.coverage)
        values = (hello.sandbox, hello.boot, hello.version, coverage, hello.clock_offset_ns)
        with self._transaction():
            row = self._connection.execute(_GREET, (*values, now, now)).fetchone()
        return int(row[0])

    def add(self, deliveries: Sequence[Delivery]) -> None:
        now = time.time_ns()
        with self._transaction():
            for delivery in deliveries:
                self._add(delivery, now)

    def add_outcomes(self, run: str, outcomes: Iterable[Outcome]) -> None:
        with self._transaction():
            self._add_runs({run}, time.time_ns())
            self._connection.executemany(
                _ADD_OUTCOME, ((run, *rows.outcome_row(outcome)) for outcome in outcomes)
            )

    def runs(self, limit: int) -> list[str]:
        sql = "SELECT run FROM runs ORDER BY first_heard_ns DESC, run LIMIT ?"
        return [run for (run,) in self._query(sql, limit)]

    def has_run(self, run: str) -> bool:
        return bool(self._query("SELECT 1 FROM runs WHERE run = ?", run))

    def observations(self, run: str) -> list[Observation]:
        columns = ", ".join(f"spans.{column}" for column in rows.SPAN_COLUMNS)
        found = self._query(
            f"SELECT sandboxes.sandbox, sandboxes.boot, {columns} FROM spans "
            "JOIN sandboxes ON sandboxes.id = spans.sandbox "
            "WHERE run = ? ORDER BY started_ns, sequence",
            run,
        )
        return [rows.observation_from(row, sandbox, boot) for sandbox, boot, *row in found]

    def outcomes(self, run: str) -> list[Outcome]:
        sql = f"SELECT {_OUTCOME} FROM outcomes WHERE run = ? ORDER BY test"
        return [rows.outcome_from(row) for row in self._query(sql, run)]

    def events(self, span: Span) -> list[Event]:
        found = self._query(
            f"SELECT {_EVENT} FROM events WHERE sandbox = "
            "(SELECT id FROM sandboxes WHERE sandbox = ? AND boot = ?) "
            "AND span = ? ORDER BY time_ns, sequence",
            span.sandbox,
            span.boot,
            span.key,
        )
        return [rows.event_from(row) for row in found]

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _add(self, delivery: Delivery, now: int) -> None:
        sandbox = self._id(delivery.sandbox, delivery.boot)
        self._connection.executemany(
            _ADD_EVENT, ((sandbox, *rows.event_row(event)) for event in delivery.events)
        )
        self._connection.executemany(
            _ADD_SPAN,
            (
                (sandbox, sequence, *rows.span_row(observation))
                for sequence, observation in delivery.spans
            ),
        )
        self._add_runs({observation.span.run for _, observation in delivery.spans}, now)
        self._connection.execute(
            "UPDATE sandboxes SET acknowledged = max(acknowledged, ?), last_heard_ns = ? "
            "WHERE id = ?",
            (delivery.last, now, sandbox),
        )

    def _add_runs(self, runs: set[str], now: int) -> None:
        sql = "INSERT OR IGNORE INTO runs (run, first_heard_ns) VALUES (?, ?)"
        self._connection.executemany(sql, ((run, now) for run in runs))

    def _id(self, sandbox: str, boot: str) -> int:
        """The number of a probe that was greeted before."""
        if (sandbox, boot) not in self._ids:
            sql = "SELECT id FROM sandboxes WHERE sandbox = ? AND boot = ?"
            row = self._connection.execute(sql, (sandbox, boot)).fetchone()
            self._ids[sandbox, boot] = int(row[0])
        return self._ids[sandbox, boot]

    def _query(self, sql: str, *values: object) -> list[rows.Row]:
        with self._lock, self._speaking():
            return self._connection.execute(sql, values).fetchall()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock, self._speaking():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def _speaking(self) -> Iterator[None]:
        """What SQLite complains of becomes a Problem that names the file."""
        try:
            yield
        except sqlite3.Error as error:
            raise Problem(f"{self._path}: {error}", _mend(error)) from error

    def _prepare(self) -> None:
        self._check_owner()
        self._use_wal()
        # What is acknowledged must survive a power cut: in WAL mode, NORMAL does not sync commits.
        self._connection.execute("PRAGMA synchronous = FULL")
        if self._version() < len(schema.STEPS):
            with self._transaction():
                self._migrate()

    def _use_wal(self) -> None:
        """SQLite itself does not wait for another writer here: each might wait for the other."""
        limit = time.monotonic() + BUSY_TIMEOUT_MS / 1000
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > limit:
                    raise
            time.sleep(_RETRY_S)

    def _prepare_reading(self) -> None:
        """Readers never change a schema: a newer collector's explain leaves an older's file."""
        self._connection.execute("PRAGMA query_only = ON")
        if not self._pragma("schema_version"):
            mend = "name one with --db, or start `collector serve` on it"
            raise Problem(f"{self._path}: no database there, the file is empty", mend)
        self._check_owner()
        version = self._version()
        if version < len(schema.STEPS):
            raise Problem(
                f"{self._path}: written by an older collector (schema {version}, "
                f"this one reads {len(schema.STEPS)})",
                "start `collector serve` on it once, which brings it forward",
            )

    def _check_owner(self) -> None:
        empty = not self._pragma("schema_version")
        if not empty and self._pragma("application_id") != schema.APPLICATION_ID:
            raise Problem(f"{self._path}: a SQLite database of another program", "name another")
        version = self._version()
        if version > len(schema.STEPS):
            raise Problem(
                f"{self._path}: written by a newer collector (schema {version}, "
                f"this one knows {len(schema.STEPS)})",
                "upgrade sandbox-probe, or name another file",
            )

    def _migrate(self) -> None:
        """Inside a transaction, so that of many collectors that start at once one does it."""
        for version in range(self._version(), len(schema.STEPS)):
            for statement in schema.STEPS[version]:
                self._connection.execute(statement)
        self._connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        self._connection.execute(f"PRAGMA user_version = {len(schema.STEPS)}")

    def _version(self) -> int:
        return self._pragma("user_version")

    def _pragma(self, name: str) -> int:
        return int(self._connection.execute(f"PRAGMA {name}").fetchone()[0])


def _check_place(path: Path, create: bool) -> None:
    """Problem where no SQLite file can be. Opening a pipe, for one, would wait for ever."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        if create:
            return
        mend = "name the one of `collector serve --db`"
        raise Problem(f"{path}: no such database", mend) from None
    except OSError as error:
        raise Problem(f"{path}: {error.strerror}", "name another with --db") from None
    if stat.S_ISDIR(mode):
        raise Problem(f"{path}: a directory", "name a SQLite file in it")
    if not stat.S_ISREG(mode):
        raise Problem(f"{path}: not a regular file", "name a SQLite file")


def _uri(path: Path) -> str:
    return ("file://" if path.is_absolute() else "file:./") + quote(os.fsencode(path))


def _reading_mode(path: Path) -> str:
    """Readers of a WAL need its index, beside the file, and make it where it is missing.

    Where they may not, and nobody writes just now, the file alone is all there is.
    """
    real = os.path.realpath(path)
    if _writable(real) and _writable(os.path.dirname(real)):
        return "rw"
    if os.path.exists(f"{real}-wal") or os.path.exists(f"{real}-journal"):
        return "ro"
    return "ro&immutable=1"


def _writable(path: str) -> bool:
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def _mend(error: sqlite3.Error) -> str:
    text = str(error)
    if "not a database" in text:
        return "name a SQLite file, or one that does not exist yet"
    if "unable to open" in text or "readonly" in text:
        return "check that the directory exists and that this user may write there"
    if "full" in text:
        return "free some space"
    if "locked" in text:
        return "another process holds it; try again"
    return "restore it from a copy, or name another file"
