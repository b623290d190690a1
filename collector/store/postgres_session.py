"""A connection to PostgreSQL, made anew when it broke, and what may be said over it."""

from __future__ import annotations

import contextlib
import re
import select
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus

from collector.store import rows
from collector.store.interface import Away
from collector.store.postgres_schema import NAMESPACE
from probe.problem import Problem

CONNECT_TIMEOUT_S = 10
_NO_DATABASE = re.compile('database ".*" does not exist')


class Session:
    """Statements are written as collector.store.sql has them: `?` stands for a value."""

    def __init__(self, url: str, *, create: bool) -> None:
        """`create`: it may write. Problem where `url` is none."""
        self._conninfo, self.database = _settings(url, create)
        self._lock = threading.RLock()
        self._connection: psycopg.Connection[rows.Row] | None = None

    def close(self) -> None:
        with self._lock:
            self._disconnect()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        with self._lock, self.speaking():
            if self._was_ended():
                self._disconnect()
            with self._connected().transaction():
                yield

    @contextlib.contextmanager
    def speaking(self) -> Iterator[None]:
        """What PostgreSQL complains of becomes a Problem that names the database."""
        try:
            yield
        except errors.UniqueViolation:  # a writer knows what it means
            raise
        except psycopg.Error as error:
            away = isinstance(error, psycopg.OperationalError)
            if away:
                self._disconnect()
            kind = Away if away else Problem
            raise kind(f"{self.database}: {_first_line(error)}", _mend(error)) from error

    def query(self, sql: str, *values: object) -> list[rows.Row]:
        """In a transaction of its own."""
        with self.transaction():
            return self.execute(sql, *values)

    def execute(self, sql: str, *values: object) -> list[rows.Row]:
        cursor = self._connected().execute(_driver(sql), values, binary=True)
        return cursor.fetchall() if cursor.description else []

    def count(self, sql: str, *values: object) -> int:
        return self._connected().execute(_driver(sql), values).rowcount

    def execute_many(self, sql: str, values: Sequence[rows.Row]) -> None:
        self._connected().cursor().executemany(_driver(sql), values)

    def copy(self, sql: str, parts: Iterable[bytes]) -> None:
        """COPY … FROM STDIN."""
        with self._connected().cursor().copy(sql) as copy:
            for part in parts:
                copy.write(part)

    def _was_ended(self) -> bool:
        """Whether the server spoke while nobody asked it, which is how it says good-bye."""
        connection = self._connection
        if connection is None or connection.closed:
            return False
        if connection.info.transaction_status is not TransactionStatus.IDLE:
            return False
        spoken = select.poll()  # select(2) takes no descriptor above 1023
        spoken.register(connection, select.POLLIN)
        return bool(spoken.poll(0))

    def _connected(self) -> psycopg.Connection[rows.Row]:
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(self._conninfo, autocommit=True)
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


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
