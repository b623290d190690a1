"""The SQLite store: exactly once, all or nothing, and files that are not its own."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.outcomes import Outcome
from collector.store import Delivery, Hello, Observation, Store, open_store, rows, schema, sqlite
from probe.coverage import SENSES, Coverage, Losses
from probe.events import KINDS, Event, Exec, Exit, Seccomp, detail_fields
from probe.problem import Problem
from probe.span import Span

COVERAGE = Coverage("core", {**dict.fromkeys(SENSES, "full"), "dns": "none: no capability"})
HELLO = Hello("s1", "b1", "0.1.0", COVERAGE, 5)


def span(key: int = 7, **fields: object) -> Span:
    given: dict[str, object] = {"run": "r1", "test": "t1", "started_ns": 100, "pid": 9}
    given |= {"command": ("sh", "-c", "x y"), "labels": {"team": "a"}, "outcome": "failed"}
    return Span(key=key, sandbox="s1", boot="b1", **given | fields)  # type: ignore[arg-type]


def event(sequence: int, key: int = 7) -> Event:
    return Exit(sequence=sequence, time_ns=1000 - sequence, pid=9, span=key, code=1)


def observed(sequence: int, span: Span) -> tuple[int, Observation]:
    return sequence, Observation(span, COVERAGE, Losses({"exec": 3}))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with contextlib.closing(open_store(str(tmp_path / "c.db"))) as store:
        yield store


def test_the_position_is_the_highest_committed_sequence(store: Store) -> None:
    assert store.greet(HELLO) == 0
    store.add([Delivery("s1", "b1", 12, (event(11), event(12)))])
    assert store.greet(HELLO) == 12
    store.add([Delivery("s1", "b1", 11, (event(11),))])
    assert store.greet(HELLO) == 12
    assert store.greet(Hello("s1", "b2", "0.1.0", COVERAGE, 5)) == 0


def test_what_comes_again_is_kept_once(store: Store) -> None:
    store.greet(HELLO)
    for _ in range(3):
        store.add([Delivery("s1", "b1", 3, (event(1), event(2)), (observed(3, span()),))])
    assert [one.sequence for one in store.events(span())] == [2, 1]  # in order of time
    assert store.observations("r1") == [observed(3, span())[1]]


def test_the_latest_word_of_a_span_holds(store: Store) -> None:
    store.greet(HELLO)
    begun, ended = span(outcome="lost"), span(ended_ns=200, exit_code=1)
    store.add([Delivery("s1", "b1", 2, (), (observed(1, begun), observed(2, ended)))])
    store.add([Delivery("s1", "b1", 1, (), (observed(1, begun),))])
    assert [one.span for one in store.observations("r1")] == [ended]


def test_all_deliveries_or_none(store: Store) -> None:
    store.greet(HELLO)
    broken = Exit(sequence=2, time_ns=1 << 80, pid=1)
    with pytest.raises(OverflowError):
        store.add([Delivery("s1", "b1", 1, (event(1),)), Delivery("s1", "b1", 2, (broken,))])
    assert store.greet(HELLO) == 0
    assert store.events(span()) == []


def test_outcomes_are_replaced_by_newer_ones(store: Store) -> None:
    first = [Outcome("a.t", "t", "failed", "boo", 1.5), Outcome("a.u", "u", "passed")]
    store.add_outcomes("r1", first)
    store.add_outcomes("r1", first)
    assert store.outcomes("r1") == first
    store.add_outcomes("r1", [Outcome("a.t", "t", "passed")])
    assert [one.outcome for one in store.outcomes("r1")] == ["passed", "passed"]


def test_the_latest_run_comes_first(store: Store) -> None:
    for run in ("r1", "r2", "r1"):
        store.add_outcomes(run, [Outcome("t", "t", "passed")])
    assert store.runs(9) == ["r2", "r1"]
    assert store.has_run("r1")
    assert not store.has_run("r3")


def test_many_threads_at_once(store: Store) -> None:
    store.greet(HELLO)

    def add(first: int) -> None:
        for sequence in range(first, first + 50):
            store.add([Delivery("s1", "b1", sequence, (event(sequence),))])

    threads = [threading.Thread(target=add, args=(1 + 50 * number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {one.sequence for one in store.events(span())} == set(range(1, 401))


def test_a_new_file_opened_by_many_at_once(tmp_path: Path) -> None:
    problems: list[Exception] = []

    def open_and_greet() -> None:
        try:
            with contextlib.closing(open_store(str(tmp_path / "c.db"))) as store:
                store.greet(HELLO)
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=open_and_greet) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


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
    monkeypatch.setattr(schema, "STEPS", [*schema.STEPS, ("CREATE TABLE more (x)",)])
    with pytest.raises(Problem, match=r"older collector .schema 1, this one reads 2"):
        open_store(str(path), create=False)
    assert path.read_bytes() == before


def test_a_reader_cannot_write(tmp_path: Path) -> None:
    open_store(str(tmp_path / "c.db")).close()
    with contextlib.closing(open_store(str(tmp_path / "c.db"), create=False)) as store:
        with pytest.raises(Problem, match="readonly"):
            store.add_outcomes("r1", [Outcome("t", "t", "passed")])
        assert store.runs(9) == []


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


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_BY_ANNOTATION = {
    "str": TEXT,
    "str | None": st.none() | TEXT,
    "int": st.integers(0, 1 << 62),
    "int | None": st.none() | st.integers(0, (1 << 64) - 1),
    "bool | None": st.none() | st.booleans(),
    "float | None": st.none() | st.floats(allow_nan=False, allow_infinity=False),
    "tuple[int, ...]": st.lists(st.integers(0, (1 << 64) - 1), max_size=6).map(tuple),
    "tuple[str, ...]": st.lists(TEXT, max_size=4).map(tuple),
}


@st.composite
def events(draw: st.DrawFn) -> Event:
    kind = draw(st.sampled_from(sorted(KINDS)))
    types = {name: field.type for name, field in KINDS[kind].__dataclass_fields__.items()}
    names = draw(st.sets(st.sampled_from(sorted(types)))) | {"sequence", "time_ns", "pid"}
    names |= {name for name in detail_fields(KINDS[kind]) if types[name] in ("str", "int")}
    fields = {name: draw(_BY_ANNOTATION[str(types[name])]) for name in names - {"kind"}}
    return KINDS[kind](**fields)


@given(events())
def test_an_event_comes_back_as_it_went(event: Event) -> None:
    assert rows.event_from(rows.event_row(event)) == event


def test_every_kind_of_event_through_the_file(store: Store) -> None:
    store.greet(HELLO)
    known = (
        Exec(sequence=1, time_ns=1, pid=1, span=7, path="/x\x00\x1b[31m", argv=("a", "")),
        Seccomp(sequence=2, time_ns=2, pid=1, span=7, syscall="ptrace", args=((1 << 64) - 1,)),
    )
    store.add([Delivery("s1", "b1", 2, known)])
    assert tuple(store.events(span())) == known
