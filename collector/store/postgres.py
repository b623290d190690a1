"""The shared store: one PostgreSQL database, as many collectors as it bears.

A collector keeps no state but its connection, which is made anew when it breaks.
"""

from __future__ import annotations

import contextlib
import functools
import re
import struct
import time
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from collector.store import postgres_schema as schema
from collector.store import rows
from collector.store.interface import Away, Delivery, Hello, Pruned
from collector.store.postgres_schema import DAY_BITS, NAMESPACE, TODAY
from collector.store.sql import ADD_RUN, ADD_SPAN, SqlStore, forgotten
from probe.problem import Problem

CONNECT_TIMEOUT_S = 10
LOCK_TIMEOUT_S = 5  # before a partition that a backup reads is left for the next time
_NO_DATABASE = re.compile('database ".*" does not exist')
_MIGRATION_LOCK = 0x50524F42  # "PROB", of advisory locks
_PARTITION_LOCK = _MIGRATION_LOCK + 1

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
_PARTITIONS = """
SELECT child.relname FROM pg_inherits
JOIN pg_class child ON child.oid = inhrelid WHERE inhparent = 'events'::regclass
"""
# Read from the catalog's tables: to_regclass() looks into a cache, which a lock that was
# waited for does not refresh.
_PRESENT = """
SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = ?), EXISTS (
    SELECT FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace
    WHERE relname = 'version' AND nspname = ?)
"""

Probe = tuple[str, str]  # sandbox and boot


class PostgresStore(SqlStore):
    """Implements collector.store.Store."""

    def __init__(self, url: str, *, create: bool = True) -> None:
        """Problem where the database is not to be had, or is a newer collector's."""
        super().__init__()
        self._conninfo, self.database = _settings(url, create)
        self._create = create
        self._connection: psycopg.Connection[rows.Row] | None = None
        with self._lock, self._speaking():
            self._check()

    def greet_all(self, hellos: Sequence[Hello]) -> list[int]:
        self._make_partitions()
        return super().greet_all(hellos)

    def add(self, deliveries: Sequence[Delivery]) -> None:
        now = time.time_ns()
        try:
            with self._transaction():
                self._add(deliveries, now, fresh=True)
        except errors.UniqueViolation:  # some of it came before, under other numbers
            with self._transaction():
                self._add(deliveries, now, fresh=False)

    def backup(self, path: str) -> None:
        raise Problem(
            f"{self.database}: PostgreSQL makes its own backups",
            f"pg_dump --format=custom --schema={NAMESPACE} --file={path} URL, while serving",
        )

    def prune(self, before_ns: int) -> Pruned:
        """Whole partitions first."""
        dropped = Pruned()
        for name in self._partitions():
            dropped = dropped.plus(self._drop(name, before_ns))
        return dropped.plus(super().prune(before_ns))

    def close(self) -> None:
        with self._lock:
            self._disconnect()

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
        self._execute(_HEAR, now, list(last), list(last.values()), list(map(offsets.get, last)))

    def _known(self, deliveries: Sequence[Delivery]) -> dict[Probe, tuple[int, int]]:
        """The number of each probe and what is acknowledged; their rows are locked."""
        probes = {(delivery.sandbox, delivery.boot): delivery for delivery in deliveries}
        sandboxes, boots = zip(*probes, strict=True)
        found = self._execute(_LOCK, list(sandboxes), list(boots))
        known = {(sandbox, boot): (number, last) for sandbox, boot, number, last in found}
        for probe, delivery in probes.items():
            if probe not in known:
                raise forgotten(delivery)
        return known

    def _copy(self, table: str, added: Sequence[rows.Row]) -> None:
        cursor = self._connected().cursor()
        with cursor.copy(_COPY.format(table)) as copy:
            copy.write(_COPY_BEGIN)
            for first in range(0, len(added), _COPIED_TOGETHER):
                copy.write(b"".join(map(_copied, added[first : first + _COPIED_TOGETHER])))
            copy.write(_COPY_END)

    def _merge(self, added: Sequence[rows.Row]) -> None:
        """What may be there already goes through a table of the session's own."""
        self._execute(
            "CREATE TEMPORARY TABLE IF NOT EXISTS arrived (LIKE events) ON COMMIT DELETE ROWS"
        )
        self._copy("arrived", added)
        self._execute("INSERT INTO events SELECT * FROM arrived ON CONFLICT DO NOTHING")

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
        known = self._execute("SELECT run FROM runs WHERE run = ANY(?)", list(runs))
        new = sorted(runs - {run for (run,) in known})  # in one order, like the locks
        self._execute_many(ADD_RUN, [(run, now) for run in new])
        self._execute_many(ADD_SPAN, spans)

    def _make_partitions(self) -> None:
        """Today's and tomorrow's: midnight may pass before the sandbox has its number.

        ATTACH, unlike CREATE … PARTITION OF, waits for no reader of the table.
        """
        wanted = (
            f"SELECT day FROM generate_series({TODAY}, {TODAY} + 1) AS day "
            "WHERE NOT EXISTS (SELECT FROM pg_class WHERE relname = 'events_' || day "
            f"AND relnamespace = '{NAMESPACE}'::regnamespace)"
        )
        with self._transaction():
            if not self._execute(wanted):
                return
            self._execute("SELECT pg_advisory_xact_lock(?)", _PARTITION_LOCK)
            for (day,) in self._execute(wanted):
                name = f"events_{day}"
                self._execute(f"CREATE TABLE {name} (LIKE events INCLUDING ALL)")
                bounds = f"FROM ({day << DAY_BITS}) TO ({(day + 1) << DAY_BITS})"
                self._execute(f"ALTER TABLE events ATTACH PARTITION {name} FOR VALUES {bounds}")

    def _partitions(self) -> list[str]:
        return sorted(name for (name,) in self._query(_PARTITIONS))

    def _drop(self, name: str, before_ns: int) -> Pruned:
        """A day's partition, where nobody of that day was heard since."""
        day = int(name.rpartition("_")[2])
        bounds = (day << DAY_BITS, (day + 1) << DAY_BITS)
        if (day + 1) * 86_400 * 1_000_000_000 > before_ns:
            return Pruned()  # today's, or one that is being filled
        with self._transaction():
            self._execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT_S}s'")
            of_day = "FROM sandboxes WHERE id >= ? AND id < ?"
            heard = f"SELECT 1 {of_day} AND last_heard_ns >= ? LIMIT 1"
            if self._execute(heard, *bounds, before_ns):
                return Pruned()
            sandboxes = self._count(f"DELETE {of_day} AND last_heard_ns < ?", *bounds, before_ns)
            if self._execute(f"SELECT 1 {of_day} LIMIT 1", *bounds):
                raise Problem(f"{self.database}: {name} came into use just now", "try again")
            spans = self._count("DELETE FROM spans WHERE sandbox >= ? AND sandbox < ?", *bounds)
            self._execute(f"DROP TABLE {name}")
        return Pruned(sandboxes=sandboxes, spans=spans, partitions=1)

    def _query(self, sql: str, *values: object) -> list[rows.Row]:
        with self._transaction():
            return self._execute(sql, *values)

    def _execute(self, sql: str, *values: object) -> list[rows.Row]:
        cursor = self._connected().execute(_driver(sql), values, binary=True)
        return cursor.fetchall() if cursor.description else []

    def _count(self, sql: str, *values: object) -> int:
        return self._connected().execute(_driver(sql), values).rowcount

    def _execute_many(self, sql: str, values: Sequence[rows.Row]) -> None:
        self._connected().cursor().executemany(_driver(sql), values)

    def _schema(self) -> int:
        return int(self._query("SELECT version FROM version")[0][0])

    def _size(self) -> int:
        sql = (
            "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c "
            "WHERE relnamespace = ?::regnamespace AND relkind = 'r'"
        )
        return int(self._query(sql, NAMESPACE)[0][0])

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock, self._speaking(), self._connected().transaction():
            yield

    @contextlib.contextmanager
    def _speaking(self) -> Iterator[None]:
        """What PostgreSQL complains of becomes a Problem that names the database."""
        try:
            yield
        except errors.UniqueViolation:
            raise
        except psycopg.Error as error:
            away = isinstance(error, psycopg.OperationalError)
            if away:
                self._disconnect()
            kind = Away if away else Problem
            raise kind(f"{self.database}: {_first_line(error)}", _mend(error)) from error

    def _connected(self) -> psycopg.Connection[rows.Row]:
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(self._conninfo, autocommit=True)
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _check(self) -> None:
        """The schema is this version's when it returns."""
        version = self._version()
        if version is None or version < len(schema.STEPS):
            if not self._create:
                raise self._older(version)
            with self._transaction():
                self._migrate()
        elif version > len(schema.STEPS):
            raise Problem(
                f"{self.database}: written by a newer collector (schema {version}, "
                f"this one knows {len(schema.STEPS)})",
                "upgrade sandbox-probe, or name another database",
            )

    def _older(self, version: int | None) -> Problem:
        if version is None:
            return Problem(
                f"{self.database}: no collector has written there",
                "name another with --db, or start `collector serve` on it",
            )
        return Problem(
            f"{self.database}: written by an older collector (schema {version}, "
            f"this one reads {len(schema.STEPS)})",
            "start `collector serve` on it once, which brings it forward",
        )

    def _version(self) -> int | None:
        """None where nothing of ours is there. Problem where the schema is another program's."""
        [(namespace, table)] = self._execute(_PRESENT, NAMESPACE, NAMESPACE)
        if not namespace:
            return None
        if not table:
            raise Problem(
                f"{self.database}: its schema {NAMESPACE} is another program's", "name another"
            )
        return int(self._execute("SELECT version FROM version")[0][0])

    def _migrate(self) -> None:
        """Of many collectors that start at once one does it; the others find it done."""
        self._execute("SELECT pg_advisory_xact_lock(?)", _MIGRATION_LOCK)
        version = self._version()
        if version is None:
            self._execute(f"CREATE SCHEMA {NAMESPACE}")
            self._execute("CREATE TABLE version (version integer NOT NULL)")
            self._execute("INSERT INTO version VALUES (0)")
        for statements in schema.STEPS[version or 0 :]:
            for statement in statements:
                self._execute(statement)
        self._execute("UPDATE version SET version = ?", len(schema.STEPS))


@functools.cache
def _layout(kind: str) -> tuple[struct.Struct, bytes]:
    """Of a row but its message: each field after its length."""
    text = kind.encode()
    return struct.Struct(f"!hiqiqiqi{len(text)}siqi"), text


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


def _settings(url: str, create: bool) -> tuple[str, str]:
    """The driver's settings, and the database's name for people, without the password."""
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError:  # whose words may hold the password
        mend = "give postgresql://USER@HOST:PORT/DATABASE"
        raise Problem("--db: not a PostgreSQL URL", mend) from None
    settings: dict[str, Any] = {
        "connect_timeout": CONNECT_TIMEOUT_S,
        "application_name": "collector",
        **given,
    }
    options = f"{given.get('options') or ''} -c search_path={NAMESPACE}"
    if not create:
        options += " -c default_transaction_read_only=on"
    settings["options"] = options.strip()
    place = given.get("host") or given.get("hostaddr") or "the default server"
    port = f":{given['port']}" if given.get("port") else ""
    database = given.get("dbname") or given.get("user") or "the default database"
    return make_conninfo(**settings), f"PostgreSQL {database} on {place}{port}"


def _driver(sql: str) -> str:
    """Our statements in the driver's writing."""
    return sql.replace("%", "%%").replace("?", "%s")


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].removeprefix("connection failed: ") if lines else type(error).__name__


def _mend(error: psycopg.Error) -> str:
    if isinstance(error, (errors.LockNotAvailable, errors.DeadlockDetected)):
        return "somebody else is using it, perhaps a backup; try again"
    if _NO_DATABASE.search(str(error)):  # while connecting there is no code (SQLSTATE)
        return "create it with createdb"
    if isinstance(error, (errors.InsufficientPrivilege, errors.ReadOnlySqlTransaction)):
        return "let its owner grant this user what is missing"
    if isinstance(error, (errors.DiskFull, errors.OutOfMemory)):
        return "give the server more room"
    if isinstance(error, psycopg.OperationalError):
        return "check that the server runs and takes this user and password"
    return "restore it from a backup, or name another database"
