"""Every store: exactly once, all or nothing, forwards only, and what is pruned is gone."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from collector.outcomes import Outcome
from collector.store import Delivery, EventRow, Hello, Observation, Store, open_store, rows, sql
from probe.coverage import SENSES, Coverage, Losses
from probe.events import Event, Exec, Exit, Seccomp
from probe.message import event_message
from probe.problem import Problem
from probe.span import Span

COVERAGE = Coverage("core", {**dict.fromkeys(SENSES, "full"), "dns": "none: no capability"})
HELLO = Hello("s1", "b1", "0.1.0", COVERAGE, 5)


def span(key: int = 7, **fields: object) -> Span:
    given: dict[str, object] = {"run": "r1", "test": "t1", "started_ns": 100, "pid": 9}
    given |= {"command": ("sh", "-c", "x y"), "labels": {"team": "a"}, "outcome": "failed"}
    return Span(key=key, sandbox="s1", boot="b1", **given | fields)  # type: ignore[arg-type]


def row(event: Event) -> EventRow:
    return rows.event_row(event_message(event))


def event(sequence: int, key: int = 7) -> EventRow:
    return row(Exit(sequence=sequence, time_ns=1000 - sequence, pid=9, span=key, code=1))


def observed(sequence: int, span: Span) -> tuple[int, Observation]:
    return sequence, Observation(span, COVERAGE, Losses({"exec": 3}), HELLO.clock_offset_ns)


def told(observation: Observation) -> Observation:
    """Without what the store knows of when."""
    return replace(observation, last_heard_ns=0)


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with contextlib.closing(open_store(url)) as store:
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
    assert [told(one) for one in store.observations("r1")] == [observed(3, span())[1]]


def test_the_latest_word_of_a_span_holds(store: Store) -> None:
    store.greet(HELLO)
    begun, ended = span(outcome="lost"), span(ended_ns=200, exit_code=1)
    store.add([Delivery("s1", "b1", 2, (), (observed(1, begun), observed(2, ended)))])
    store.add([Delivery("s1", "b1", 1, (), (observed(1, begun),))])
    assert [one.span for one in store.observations("r1")] == [ended]


def test_when_a_boot_was_last_heard_and_what_came_after_it(store: Store) -> None:
    store.greet(HELLO)
    store.add([Delivery("s1", "b1", 1, (), (observed(1, span()),))])
    [first] = store.observations("r1")
    assert first.next_boot is None
    store.add([Delivery("s1", "b1", 0)])  # nothing but a sign of life
    [second] = store.observations("r1")
    assert first.last_heard_ns < second.last_heard_ns
    assert store.greet(HELLO) == 1
    for boot in ("b2", "b3"):
        store.greet(replace(HELLO, boot=boot))
    store.greet(replace(HELLO, sandbox="s2", boot="b4"))
    [third] = store.observations("r1")
    assert third.next_boot == "b2"
    store.add([Delivery("s1", "b1", 0)])
    [still_there] = store.observations("r1")
    assert still_there.next_boot is None  # another sandbox that goes by the same name


def test_all_deliveries_or_none(store: Store) -> None:
    store.greet(HELLO)
    broken = replace(span(), started_ns=1 << 80)
    with pytest.raises((OverflowError, ValueError, Problem)):
        store.add(
            [
                Delivery("s1", "b1", 1, (event(1),)),
                Delivery("s1", "b1", 2, (), (observed(2, broken),)),
            ]
        )
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


def test_a_replay_under_new_numbers_is_kept_once(store: Store) -> None:
    """A probe that was restarted numbers its items anew; its events keep their own numbers."""
    store.greet(HELLO)
    store.add([Delivery("s1", "b1", 10, (event(1), event(2)))])
    store.add([Delivery("s1", "b1", 20, (event(2), event(3)))])
    store.add([Delivery("s1", "b1", 15, (event(3), event(4)))])
    assert sorted(one.sequence for one in store.events(span())) == [1, 2, 3, 4]
    assert store.greet(HELLO) == 20


def test_one_replaying_probe_costs_no_other_anything(store: Store) -> None:
    for sandbox in ("s1", "s2"):
        store.greet(replace(HELLO, sandbox=sandbox))
    store.add([Delivery("s1", "b1", 1, (event(1),))])
    store.add([Delivery("s1", "b1", 9, (event(1),)), Delivery("s2", "b1", 9, (event(1), event(2)))])
    assert len(store.events(span())) == 1
    assert len(store.events(replace(span(), sandbox="s2"))) == 2


def test_two_collectors_of_one_database(url: str) -> None:
    """The same probes, and the same items, through both at once."""
    failures: list[Exception] = []
    names = [f"s{number}" for number in range(6)]

    def serve(turned: bool) -> None:
        try:
            with contextlib.closing(open_store(url)) as store:
                for name in names:
                    store.greet(replace(HELLO, sandbox=name))
                for first in range(1, 200, 10):
                    events = tuple(event(number) for number in range(first, first + 10))
                    seen = observed(first + 10, span(run=f"r{first % 7}", started_ns=first))
                    deliveries = [
                        Delivery(name, "b1", first + 10, events, (seen,)) for name in names
                    ]
                    store.add(deliveries[::-1] if turned else deliveries)
        except Exception as error:
            failures.append(error)

    open_store(url).close()
    threads = [threading.Thread(target=serve, args=(turned,)) for turned in (False, True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    with contextlib.closing(open_store(url, create=False)) as store:
        for name in names:
            found = store.events(replace(span(), sandbox=name))
            assert sorted(one.sequence for one in found) == list(range(1, 201))


def test_a_new_database_opened_by_many_at_once(url: str) -> None:
    problems: list[Exception] = []

    def open_and_greet() -> None:
        try:
            with contextlib.closing(open_store(url)) as store:
                store.greet(HELLO)
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=open_and_greet) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def test_a_reader_cannot_write(url: str) -> None:
    open_store(url).close()
    with contextlib.closing(open_store(url, create=False)) as store:
        with pytest.raises(Problem, match=r"read-?only"):
            store.add_outcomes("r1", [Outcome("t", "t", "passed")])
        assert store.runs(9) == []


def test_the_state_of_a_database(store: Store) -> None:
    before = time.time_ns()
    assert store.status().last_heard_ns is None
    store.greet(replace(HELLO, clock_offset_ns=-7))
    store.add([Delivery("s1", "b1", 2, (event(1),), (observed(2, span()),))])
    store.add_outcomes("r2", [Outcome("t", "t", "passed")])
    status = store.status()
    counted = (status.sandboxes, status.live, status.runs, status.spans, status.outcomes)
    assert counted == (1, 1, 2, 1, 1)
    assert status.clock_offset_ns == 7
    assert status.size > 0
    assert status.first_heard_ns is not None and before <= status.first_heard_ns
    assert status.last_heard_ns is not None and status.last_heard_ns <= time.time_ns()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets what the stores take for now."""

    def set_to(now_ns: int) -> None:
        monkeypatch.setattr(time, "time_ns", lambda: now_ns)

    return set_to


def test_what_is_old_is_pruned(store: Store, clock: Callable[[int], None]) -> None:
    for now, sandbox, run in ((100, "old", "r1"), (200, "lasting", "r2"), (300, "new", "r3")):
        clock(now)
        store.greet(replace(HELLO, sandbox=sandbox))
        seen = observed(3, span(run=run))
        store.add([Delivery(sandbox, "b1", 3, (event(1), event(2)), (seen,))])
        store.add_outcomes(f"{run}-outcomes", [Outcome("t", "t", "passed")])
    clock(400)
    store.add([Delivery("lasting", "b1", 4)])
    pruned = store.prune(250)
    assert (pruned.sandboxes, pruned.spans, pruned.events) == (1, 1, 2)
    assert pruned.runs == 3  # r1, and the two of which only outcomes are known
    assert sorted(store.runs(9)) == ["r2", "r3", "r3-outcomes"]
    assert store.events(replace(span(), sandbox="old")) == []
    assert len(store.events(replace(span(), sandbox="lasting"))) == 2
    assert store.observations("r1") == []
    assert store.prune(250).sandboxes == 0


def test_a_pruned_probe_has_to_greet_again(store: Store, clock: Callable[[int], None]) -> None:
    clock(100)
    store.greet(HELLO)
    store.add([Delivery("s1", "b1", 1, (event(1),))])
    store.prune(200)
    store.greet(replace(HELLO, sandbox="another"))  # it may not take the other's number
    with pytest.raises(Problem, match="pruned"):
        store.add([Delivery("s1", "b1", 2, (event(2),))])
    assert store.greet(HELLO) == 0
    store.add([Delivery("s1", "b1", 2, (event(2),))])
    assert [one.sequence for one in store.events(span())] == [2]
    assert store.events(replace(span(), sandbox="another")) == []


def test_a_run_is_pruned(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, "PRUNED_TOGETHER", 3)
    store.greet(HELLO)
    numbers = itertools.count(1)
    for key, run in ((1, "r1"), (2, "r2"), (3, "r1")):
        events = tuple(event(next(numbers), key) for _ in range(7))
        seen = observed(next(numbers), span(key, run=run))
        store.add([Delivery("s1", "b1", seen[0], events, (seen,))])
    store.add_outcomes("r1", [Outcome("t", "t", "passed")])
    pruned = store.prune_run("r1")
    assert (pruned.runs, pruned.spans, pruned.events) == (1, 2, 14)
    assert store.runs(9) == ["r2"]
    assert store.outcomes("r1") == store.observations("r1") == []
    assert len(store.events(span(2))) == 7
    assert store.events(span(1)) == store.events(span(3)) == []


def test_events_come_back_as_they_went(store: Store) -> None:
    store.greet(HELLO)
    known = (
        Exec(sequence=1, time_ns=1, pid=1, span=7, path="/x\x00\x1b[31m", argv=("a", "")),
        Seccomp(sequence=2, time_ns=2, pid=1, span=7, syscall="ptrace", args=((1 << 64) - 1,)),
    )
    store.add([Delivery("s1", "b1", 2, tuple(map(row, known)))])
    assert tuple(store.events(span())) == known
