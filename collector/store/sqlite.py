"""The embedded store: one SQLite file in WAL mode, one connection, one writer at a time."""

from __future__ import annotations

import contextlib
import itertools
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from collector.store import rows
from collector.store import sqlite_schema as schema
from collector.store import sqlite_version_1 as version_1
from collector.store.interface import Delivery
from collector.store.sql import ADD_RUN, ADD_SPAN, SqlStore, forgotten, places
from probe.problem import Problem

BUSY_TIMEOUT_MS = 30_000  # another process (an import, a migration) may hold the file
CACHE_KIB = 64 << 10  # of pages, once they are used: with SQLite's own 2 MiB a span costs double
_RETRY_S = 0.01

_TOGETHER = 64  # rows in one statement: other threads run only while SQLite works on one
_ROW = f"({places(1 + len(rows.EVENT_COLUMNS))})"
_ADD_EVENT = (
    f"INSERT OR IGNORE INTO events (sandbox, {', '.join(rows.EVENT_COLUMNS)}) VALUES {_ROW}"
)
_ADD_EVENTS = _ADD_EVENT + f", {_ROW}" * (_TOGETHER - 1)
_HEAR = (
    "UPDATE sandboxes SET acknowledged = max(acknowledged, ?), last_heard_ns = ?, "
    "clock_offset_ns = coalesce(?, clock_offset_ns) WHERE sandbox = ? AND boot = ? RETURNING id"
)


class SqliteStore(SqlStore):
    """Implements collector.store.Store."""

    # Without statistics SQLite takes the primary key, and reads a sandbox's whole history.
    by_span = "events INDEXED BY events_by_span"

    def __init__(self, path: Path, *, create: bool = True) -> None:
        """Problem where the file is not ours to use: another's, newer, or out of reach."""
        self._lock = threading.RLock()
        self._path = path
        self.database = str(path)
        _check_place(path, create)
        mode = "rwc" if create else _reading_mode(path)
        with self._speaking():
            self._connection = sqlite3.connect(
                f"{_uri(path)}?mode={mode}", uri=True, isolation_level=None, check_same_thread=False
            )
        try:
            with self._speaking():
                self._connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
                self._connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
                if create:
                    self._prepare()
                else:
                    self._prepare_reading()
        except Problem:
            self._connection.close()
            raise

    def add(self, deliveries: Sequence[Delivery]) -> None:
        now = time.time_ns()
        with self._transaction():
            for delivery in deliveries:
                self._add(delivery, now)

    def backup(self, path: str) -> None:
        target = Path(path)
        if target.exists():
            raise Problem(f"{path}: is there already", "name a file that is not")
        temporary = target.with_name(target.name + ".part")
        try:
            with contextlib.closing(sqlite3.connect(temporary)) as copy, self._speaking():
                self._copy(copy)
            os.replace(temporary, target)
        except (OSError, sqlite3.OperationalError) as error:
            raise Problem(f"{path}: {error}", "name a file in a directory with room") from error
        finally:
            temporary.unlink(missing_ok=True)

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _copy(self, target: sqlite3.Connection) -> None:
        """In one step: in WAL mode it holds nobody up, and parts would begin anew at each write."""
        with self._lock:
            self._connection.backup(target)

    def _add(self, delivery: Delivery, now: int) -> None:
        sandbox = self._heard(delivery, now)
        self._add_events([(sandbox, *event) for event in delivery.events])
        if delivery.spans:
            self._connection.executemany(
                ADD_SPAN,
                [(sandbox, sequence, *rows.span_row(seen)) for sequence, seen in delivery.spans],
            )
            runs = {observation.span.run for _, observation in delivery.spans}
            self._connection.executemany(ADD_RUN, [(run, now) for run in runs])

    def _add_events(self, added: Sequence[rows.Row]) -> None:
        whole = len(added) - len(added) % _TOGETHER
        for first in range(0, whole, _TOGETHER):
            part = added[first : first + _TOGETHER]
            self._connection.execute(_ADD_EVENTS, list(itertools.chain.from_iterable(part)))
        if whole < len(added):
            self._connection.executemany(_ADD_EVENT, added[whole:])

    def _heard(self, delivery: Delivery, now: int) -> int:
        """The number of a probe that was greeted before."""
        values = (delivery.last, now, delivery.clock_offset_ns, delivery.sandbox, delivery.boot)
        row = self._connection.execute(_HEAR, values).fetchall()
        if not row:
            raise forgotten(delivery)
        return int(row[0][0])

    def _execute(self, sql: str, *values: object) -> list[rows.Row]:
        return self._connection.execute(sql, values).fetchall()

    def _count(self, sql: str, *values: object) -> int:
        return self._connection.execute(sql, values).rowcount

    def _execute_many(self, sql: str, values: Sequence[rows.Row]) -> None:
        self._connection.executemany(sql, values)

    def _size(self) -> int:
        return self._pragma("page_count") * self._pragma("page_size")

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
        if self._schema() < len(schema.STEPS):
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
        version = self._schema()
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
        version = self._schema()
        if version > len(schema.STEPS):
            raise Problem(
                f"{self._path}: written by a newer collector (schema {version}, "
                f"this one knows {len(schema.STEPS)})",
                "upgrade sandbox-probe, or name another file",
            )

    def _migrate(self) -> None:
        """Inside a transaction, so that of many collectors that start at once one does it."""
        self._connection.create_function("event_message", -1, version_1.event_message)
        self._connection.create_function("span_message", -1, version_1.span_message)
        for version in range(self._schema(), len(schema.STEPS)):
            for statement in schema.STEPS[version]:
                self._connection.execute(statement)
        self._connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        self._connection.execute(f"PRAGMA user_version = {len(schema.STEPS)}")

    def _schema(self) -> int:
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
