"""The PostgreSQL store: its schemas, its partitions, its locks, and what comes after a crash."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from conftest import wait_for
from postgres import Server

from collector.outcomes import Outcome
from collector.store import Delivery, Hello, Store, open_store, postgres, rows
from collector.store import postgres_schema as schema
from probe.coverage import blind
from probe.events import Exit
from probe.message import event_message
from probe.problem import Problem
from probe.span import Span

HELLO = Hello("s1", "b1", "0.1.0", blind("test"), 5)
SPAN = Span(7, "r1", "t1", (), "s1", "b1", 1, 0)


def delivery(last: int, *sequences: int) -> Delivery:
    events = (Exit(sequence=one, time_ns=one, pid=1, span=7) for one in sequences)
    return Delivery("s1", "b1", last, tuple(rows.event_row(event_message(one)) for one in events))


@pytest.fixture
def url(postgres: Server) -> str:
    return postgres.database()


@contextlib.contextmanager
def raw(url: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    with psycopg.connect(url, autocommit=True, options="-c search_path=collector") as connection:
        yield connection


def partitions(url: str) -> list[str]:
    with raw(url) as connection:
        found = connection.execute(postgres._PARTITIONS).fetchall()
    return sorted(str(name) for (name,) in found)


def age(url: str, days: int) -> None:
    """As if the one sandbox had come so many days ago: its number, and its partition."""
    shift = days << schema.DAY_BITS
    with raw(url) as connection:
        [(number,)] = connection.execute("SELECT id FROM sandboxes").fetchall()
        assert isinstance(number, int)
        day = (number >> schema.DAY_BITS) - days
        bounds = f"FROM ({day << schema.DAY_BITS}) TO ({(day + 1) << schema.DAY_BITS})"
        connection.execute(f"CREATE TABLE events_{day} PARTITION OF events FOR VALUES {bounds}")
        for column, table in (("sandbox", "events"), ("sandbox", "spans"), ("id", "sandboxes")):
            connection.execute(f"UPDATE {table} SET {column} = {column} - {shift}")
        connection.execute(f"UPDATE sandboxes SET last_heard_ns = {day * 86_400 * 10**9}")


def test_a_day_is_dropped_as_a_whole(url: str) -> None:
    with contextlib.closing(open_store(url)) as store:
        store.greet(HELLO)
        store.add([delivery(2, 1, 2)])
        today = partitions(url)
        age(url, days=10)
        assert len(store.events(SPAN)) == 2
        assert len(partitions(url)) == 3
        pruned = store.prune(time.time_ns() - 5 * 86_400 * 10**9)
        assert (pruned.partitions, pruned.sandboxes) == (1, 1)
        assert store.events(SPAN) == []
        assert partitions(url) == today  # today's and tomorrow's stay, though they are empty
        assert store.greet(HELLO) == 0


def test_a_day_with_somebody_alive_stays(url: str) -> None:
    with contextlib.closing(open_store(url)) as store:
        store.greet(HELLO)
        store.add([delivery(2, 1, 2)])
        age(url, days=10)
        store.add([delivery(3, 3)])
        assert store.prune(time.time_ns() - 5 * 86_400 * 10**9).partitions == 0
        assert len(store.events(SPAN)) == 3


def test_pruning_does_not_wait_for_a_backup(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does anybody's delivery wait behind it."""
    monkeypatch.setattr(postgres, "LOCK_TIMEOUT_S", 1)
    with contextlib.closing(open_store(url)) as store, raw(url) as backup:
        store.greet(HELLO)
        store.add([delivery(2, 1, 2)])
        age(url, days=10)
        with backup.transaction():
            backup.execute("LOCK TABLE events IN ACCESS SHARE MODE")
            with pytest.raises(Problem, match="try again"):
                store.prune(time.time_ns() - 5 * 86_400 * 10**9)
            store.add([delivery(3, 3)])
        assert len(store.events(SPAN)) == 3


def test_a_new_day_waits_for_nobody(url: str) -> None:
    """A backup reads the table while the first probe of a day comes."""
    with contextlib.closing(open_store(url)) as store, raw(url) as backup, backup.transaction():
        backup.execute("LOCK TABLE events IN ACCESS SHARE MODE")
        store.greet(HELLO)
        store.add([delivery(1, 1)])
        assert len(partitions(url)) == 2


def test_an_older_schema_is_brought_forward(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.closing(open_store(url)) as store:
        store.add_outcomes("r1", [Outcome("t", "t", "passed")])
    step = ("ALTER TABLE runs ADD COLUMN image text", "UPDATE runs SET image = 'x'")
    old = len(schema.STEPS)
    monkeypatch.setattr(schema, "STEPS", [*schema.STEPS, step])
    with pytest.raises(Problem, match=f"older collector .schema {old}, this one reads {old + 1}"):
        open_store(url, create=False)
    with contextlib.closing(open_store(url)) as store:
        assert store.status().schema == old + 1
    with raw(url) as connection:
        assert connection.execute("SELECT run, image FROM runs").fetchall() == [("r1", "x")]


def test_a_failed_migration_leaves_the_database_as_it_was(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_store(url).close()
    steps = [*schema.STEPS, ("CREATE TABLE more (x int)", "CREATE NONSENSE")]
    with monkeypatch.context() as patched:
        patched.setattr(schema, "STEPS", steps)
        with pytest.raises(Problem, match="NONSENSE"):
            open_store(url)
    with contextlib.closing(open_store(url, create=False)) as store:
        assert store.status().schema == len(schema.STEPS)


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE version SET version = 999", "newer collector .schema 999.*upgrade"),
        ("DROP TABLE version", "another program's"),
    ],
)
def test_databases_that_are_not_ours(url: str, statement: str, words: str, create: bool) -> None:
    open_store(url).close()
    with raw(url) as connection:
        connection.execute(statement)
    with pytest.raises(Problem, match=words) as problem:
        open_store(url, create=create)
    assert "\n" not in str(problem.value)


def test_a_reader_makes_no_schema(url: str) -> None:
    with pytest.raises(Problem, match=r"no collector has written.*--db"):
        open_store(url, create=False)
    with raw(url) as connection:
        assert connection.execute("SELECT to_regnamespace('collector')").fetchone() == (None,)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:secret@127.0.0.1:1/d",
        "postgresql://u:secret@/d?host=/nonexistent",
        "postgresql://u:secret@[::1/d",
        "postgres://u:secret@127.0.0.1/d?sslmode=nonsense",
        "postgresql://u:secret@127.0.0.1/d?nonsense=1",
    ],
)
def test_a_database_that_cannot_be_had(url: str) -> None:
    with pytest.raises(Problem) as problem:
        open_store(url)
    assert "\n" not in str(problem.value)
    assert "secret" not in str(problem.value)


def test_no_such_database(postgres: Server) -> None:
    with pytest.raises(Problem, match="createdb"):
        open_store(postgres.url("none"))


def _refuses(store: Store) -> bool:
    try:
        store.greet(HELLO)
    except Problem as problem:
        assert "check that the server runs" in str(problem)
        return True
    return False


def test_after_a_crash_of_the_server(tmp_path: Path) -> None:
    server = Server()
    try:
        with contextlib.closing(open_store(server.database())) as store:
            store.greet(HELLO)
            store.add([delivery(2, 1, 2)])
            server.stop(signal.SIGKILL)
            wait_for(lambda: _refuses(store))  # its children take a moment to notice
            server.start()
            store.add([delivery(4, 3, 4)])
            assert [one.sequence for one in store.events(SPAN)] == [1, 2, 3, 4]
    finally:
        server.remove()


def test_a_backup_is_the_servers_affair(url: str) -> None:
    with (
        contextlib.closing(open_store(url)) as store,
        pytest.raises(Problem, match="pg_dump"),
    ):
        store.backup("x.dump")
