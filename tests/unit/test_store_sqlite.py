"""The SQLite store: its file, its journal, its schemas, and files that are not its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector import explanation
from collector.outcomes import Outcome
from collector.store import Delivery, Hello, Observation, open_store, sqlite
from collector.store import sqlite_schema as schema
from probe.coverage import Losses, blind
from probe.problem import Problem
from probe.span import Span

STORED = Path(__file__).parent.parent / "data" / "stores"
HELLO = Hello("s1", "b1", "0.1.0", blind("test"), 5)


@pytest.fixture
def held(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A database that is not in WAL mode yet, in the hands of a writer."""
    open_store(str(tmp_path / "c.db")).close()
    raw = sqlite3.connect(tmp_path / "c.db", isolation_level=None, check_same_thread=False)
    with contextlib.closing(raw):
        raw.execute("PRAGMA journal_mode = DELETE")
        raw.execute("BEGIN IMMEDIATE")
        yield raw


def test_the_change_to_wal_waits_for_others(
    tmp_path: Path, held: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def let_go(_: float) -> None:
        held.execute("ROLLBACK")

    monkeypatch.setattr(sqlite.time, "sleep", let_go)
    open_store(str(tmp_path / "c.db")).close()
    assert not held.in_transaction
    with contextlib.closing(sqlite3.connect(tmp_path / "c.db")) as raw:
        assert raw.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_the_change_to_wal_does_not_wait_for_ever(
    tmp_path: Path, held: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_MS", 50)
    with pytest.raises(Problem, match="locked: another process holds it"):
        open_store(str(tmp_path / "c.db"))


def test_an_older_schema_is_brought_forward(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "c.db"
    with contextlib.closing(open_store(str(path))) as store:
        store.add_outcomes("r1", [Outcome("t", "t", "passed")])
    step = ("ALTER TABLE runs ADD COLUMN image TEXT", "UPDATE runs SET image = 'x'")
    monkeypatch.setattr(schema, "STEPS", [*schema.STEPS, step])
    with contextlib.closing(open_store(str(path))) as store:
        assert store.runs(9) == ["r1"]
    with contextlib.closing(sqlite3.connect(path)) as raw:
        assert raw.execute("SELECT image FROM runs").fetchall() == [("x",)]
        assert raw.execute("PRAGMA user_version").fetchone() == (len(schema.STEPS),)


def test_a_failed_migration_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "c.db"
    open_store(str(path)).close()
    version = len(schema.STEPS)
    steps = [*schema.STEPS, ("CREATE TABLE more (x)", "CREATE NONSENSE")]
    monkeypatch.setattr(schema, "STEPS", steps)
    with pytest.raises(Problem):
        open_store(str(path))
    with contextlib.closing(sqlite3.connect(path)) as raw:
        assert raw.execute("PRAGMA user_version").fetchone() == (version,)
        assert raw.execute("SELECT 1 FROM sqlite_master WHERE name = 'more'").fetchall() == []


def test_every_released_schema_is_kept() -> None:
    assert {int(path.stem) for path in STORED.glob("*.db")} == set(range(1, len(schema.STEPS)))


@pytest.mark.parametrize(
    "stored", sorted(STORED.glob("*.db")), ids=lambda path: f"schema {path.stem}"
)
def test_a_stored_database_is_brought_forward(tmp_path: Path, stored: Path) -> None:
    """The causes, the evidence and the outcomes are those that its own collector showed."""
    path = tmp_path / "c.db"
    shutil.copy(stored, path)
    open_store(str(path)).close()
    with contextlib.closing(open_store(str(path), create=False)) as store:
        found = explanation.overview(store, "r1")
        assert found.passed == 1
        assert {group.cause: group.as_json()["tests"] for group in found.groups} == {
            "exec.not_found": ["tests/test_x.py::test_jq"],
            "net.refused": ["tests/test_x.py::test_net"],
            "unknown": ["tests.test_x.test_lone"],
        }
        report = explanation.of_test(store, "r1", "test_jq")
        assert report["verdict"]["evidence"] == ["e1", "e2"]
        first = report["events"][0]
        assert (first["argv"], first["exe"], first["tid"]) == (["jq", "é\x1b[31m"], "/bin/sh", 101)
        [passed] = [one for one in store.observations("r1") if one.span.passed]
        assert passed.losses.by_sense == {"exec": 3}
        assert passed.span.labels == {"team": "a"}
        [denied] = store.events(passed.span)
        assert (denied.args, denied.next) == (((1 << 64) - 1, 0, 3), ("write=45",))  # type: ignore[attr-defined]
        assert [outcome.duration_s for outcome in store.outcomes("r1")] == [1.5, 0.5, None]


def test_a_span_is_read_by_its_index(tmp_path: Path) -> None:
    """However long its sandbox's history is; and what a run's pruning deletes is found so too."""
    with contextlib.closing(open_store(str(tmp_path / "c.db"))) as store:
        store.greet(HELLO)
        said: list[str] = []
        connection = store._connection  # type: ignore[attr-defined]
        connection.set_trace_callback(said.append)
        span = Span(7, "r1", "t1", (), "s1", "b1", 1, 0)
        store.add([Delivery("s1", "b1", 1, (), ((1, Observation(span, blind("test"), Losses())),))])
        store.events(span)
        store.prune_run("r1")
        reads = [sql for sql in said if "FROM events" in sql and "span" in sql]
        assert len(reads) == 2
        for sql in reads:
            plan = " ".join(row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}"))
            assert "events_by_span (sandbox=? AND span=?)" in plan


def test_a_backup_of_a_store_that_is_written(tmp_path: Path) -> None:
    """Whatever a copy has, it has whole: each run with its outcome, and every one before it."""
    done = threading.Event()
    with contextlib.closing(open_store(str(tmp_path / "c.db"))) as store:

        def write() -> None:
            with contextlib.closing(open_store(str(tmp_path / "c.db"))) as other:
                for number in range(200):
                    other.add_outcomes(f"r{number}", [Outcome("t", "t", "passed")])
            done.set()

        thread = threading.Thread(target=write)
        thread.start()
        copies = 0
        while not done.is_set() or not copies:
            store.backup(str(tmp_path / f"{copies}.db"))
            copies += 1
        thread.join()
    for number in range(copies):
        with contextlib.closing(open_store(str(tmp_path / f"{number}.db"), create=False)) as copy:
            runs = set(copy.runs(1000))
            assert runs == {f"r{number}" for number in range(len(runs))}
            assert all(copy.outcomes(run) for run in runs)


def test_a_backup_replaces_nothing(tmp_path: Path) -> None:
    with contextlib.closing(open_store(str(tmp_path / "c.db"))) as store:
        for place in ("c.db", "none/d.db"):
            with pytest.raises(Problem, match=place):
                store.backup(str(tmp_path / place))


def _newer(path: Path) -> None:
    open_store(str(path)).close()
    with contextlib.closing(sqlite3.connect(path)) as raw:
        raw.execute("PRAGMA user_version = 999")


def _another_programs(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as raw:
        raw.execute("CREATE TABLE mine (x)")


def _text(path: Path) -> None:
    path.write_text("no database at all, but long enough to be one\n" * 100)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_newer, "newer collector .schema 999.*upgrade"),
        (_another_programs, "another program"),
        (_text, "not a database"),
        (Path.mkdir, "a directory"),
        (os.mkfifo, "not a regular file"),
    ],
)
@pytest.mark.parametrize("create", [True, False])
def test_files_that_are_not_ours(tmp_path: Path, make: object, words: str, create: bool) -> None:
    path = tmp_path / "c.db"
    make(path)  # type: ignore[operator]
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(Problem, match=words) as problem:
        open_store(str(path), create=create)
    assert str(path) in str(problem.value)
    assert before == (path.read_bytes() if path.is_file() else b"")


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize(
    "url",
    [
        *("", "postgres://h/d", "sqlite://", "/nix/c.db", "sqlite:////nix/c"),
        *("x" * 300, f"/nix/{'x' * 5000}", "/dev/null", "/dev/null/c.db"),
    ],
)
def test_places_where_no_database_can_be(url: str, create: bool) -> None:
    with pytest.raises(Problem) as problem:
        open_store(url, create=create)
    assert "\n" not in str(problem.value)


def test_a_reader_makes_no_file(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="no such database"):
        open_store(str(tmp_path / "c.db"), create=False)
    assert list(tmp_path.iterdir()) == []


def test_a_reader_makes_no_schema(tmp_path: Path) -> None:
    path = tmp_path / "c.db"
    path.touch()
    with pytest.raises(Problem, match=r"no database there.*--db.*collector serve"):
        open_store(str(path), create=False)
    assert path.read_bytes() == b""
    assert list(tmp_path.iterdir()) == [path]


def test_a_reader_leaves_an_older_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "c.db"
    open_store(str(path)).close()
    before = path.read_bytes()
    old = len(schema.STEPS)
    monkeypatch.setattr(schema, "STEPS", [*schema.STEPS, ("CREATE TABLE more (x)",)])
    with pytest.raises(Problem, match=f"older collector .schema {old}, this one reads {old + 1}"):
        open_store(str(path), create=False)
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["a?mode=ro#%41 .db", "\udcff.db", ":memory:", "é"])
def test_names_that_urls_would_take_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for path in (name, f"{tmp_path}/{name}"):
        open_store(path).close()
        open_store(path, create=False).close()
        assert os.listdir(tmp_path) == [name]


def test_sqlite_urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    open_store("sqlite:///relative.db").close()
    open_store(f"sqlite:///{tmp_path}/absolute.db").close()
    assert (tmp_path / "relative.db").exists()
    assert (tmp_path / "absolute.db").exists()
