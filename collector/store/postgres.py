"""The shared store: one PostgreSQL database, as many collectors as it bears.

A collector keeps no state but its connections, which are made anew when they break.
"""

from __future__ import annotations

import queue
from collections.abc import Sequence
from contextlib import AbstractContextManager

from collector.store import postgres_schema as schema
from collector.store import rows
from collector.store.interface import Delivery, Hello, Pruned
from collector.store.postgres_schema import DAY_BITS, NAMESPACE, TODAY
from collector.store.postgres_session import Session
from collector.store.postgres_writer import Writer
from collector.store.sql import SqlStore
from probe.problem import Problem

LOCK_TIMEOUT_S = 5  # before a partition that a backup reads is left for the next time
_MIGRATION_LOCK = 0x50524F42  # "PROB", of advisory locks
_PARTITION_LOCK = _MIGRATION_LOCK + 1

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


class PostgresStore(SqlStore):
    """Implements collector.store.Store."""

    writers = 2  # one copies while the server commits what the other one brought

    def __init__(self, url: str, *, create: bool = True) -> None:
        """Problem where the database is not to be had, or is a newer collector's."""
        self._session = Session(url, create=create)
        self.database = self._session.database
        self._create = create
        self._writers: queue.LifoQueue[Writer] = queue.LifoQueue()
        for _ in range(self.writers):
            self._writers.put(Writer(Session(url, create=create)))
        with self._session.speaking():
            self._check()

    def greet_all(self, hellos: Sequence[Hello]) -> list[int]:
        self._make_partitions()
        return super().greet_all(hellos)

    def add(self, deliveries: Sequence[Delivery]) -> None:
        writer = self._writers.get()
        try:
            writer.add(deliveries)
        finally:
            self._writers.put(writer)

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
        for _ in range(self.writers):
            self._writers.get().close()
        self._session.close()

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
        return self._session.query(sql, *values)

    def _transaction(self) -> AbstractContextManager[None]:
        return self._session.transaction()

    def _execute(self, sql: str, *values: object) -> list[rows.Row]:
        return self._session.execute(sql, *values)

    def _count(self, sql: str, *values: object) -> int:
        return self._session.count(sql, *values)

    def _execute_many(self, sql: str, values: Sequence[rows.Row]) -> None:
        self._session.execute_many(sql, values)

    def _schema(self) -> int:
        return int(self._query("SELECT version FROM version")[0][0])

    def _size(self) -> int:
        sql = (
            "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c "
            "WHERE relnamespace = ?::regnamespace AND relkind = 'r'"
        )
        return int(self._query(sql, NAMESPACE)[0][0])

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
