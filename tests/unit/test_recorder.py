"""The flight recorder: bounded, and the most valuable is what stays."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from test_message import EVENTS

from probe.coverage import Losses
from probe.events import Event, Exec, Exit
from probe.recorder import Recorder

S = 1_000_000_000


def ran(sequence: int, pid: int, code: int, at_s: float = 0.0) -> list[Event]:
    """A program that started and ended."""
    at = {"time_ns": int(at_s * S), "pid": pid}
    return [
        Exec(sequence=sequence, **at, path="/bin/x", argv=("x", "y" * 100)),
        Exit(sequence=sequence + 1, **at, code=code),
    ]


def record(recorder: Recorder, *events: Event) -> list[int]:
    for event in events:
        recorder.add(event)
    return [event.sequence for event in recorder.events()]


def test_failures_outlive_noise_and_keep_their_names() -> None:
    recorder = Recorder(age_s=1e6, size_max=1 << 30, events_max=100)
    kept = record(recorder, *ran(1, 1, 3))
    for number in range(1000):
        kept = record(recorder, *ran(10 + 2 * number, 2 + number, 0))
    assert kept[:2] == [1, 2]  # the failure, and the program that it was of
    assert len(kept) <= 100 and kept[-1] == 10 + 2 * 999 + 1
    assert recorder.dropped == 0


def test_what_is_old_goes() -> None:
    recorder = Recorder(age_s=60, size_max=1 << 30)
    record(recorder, *ran(1, 1, 3, 0), *ran(3, 2, 0, 0))
    assert record(recorder, *ran(5, 3, 0, 59.9)) == [1, 2, 3, 4, 5, 6]
    assert record(recorder, *ran(7, 4, 0, 61)) == [5, 6, 7, 8]
    assert recorder.dropped == 0  # they had their time


def test_failures_that_go_before_their_time_are_counted() -> None:
    recorder = Recorder(age_s=60, size_max=1 << 30, events_max=10)
    for number in range(20):
        record(recorder, Exit(sequence=number, time_ns=0, pid=number, code=1))
    assert [event.sequence for event in recorder.events()] == list(range(14, 20))
    assert recorder.dropped == 14  # six of ten places are for failures


def test_no_users_flood_takes_the_room_of_another() -> None:
    recorder = Recorder(age_s=1e6, size_max=1 << 30, events_max=100)
    record(recorder, *(Exit(sequence=n, time_ns=0, pid=n, code=n % 2, uid=1) for n in (1, 2)))
    for number in range(3, 1000):
        code = number % 2
        kept = record(recorder, Exit(sequence=number, time_ns=0, pid=number, code=code, uid=2))
    assert kept[:2] == [1, 2] and len(kept) == 100


@given(st.lists(EVENTS, max_size=60), st.integers(1, 40), st.integers(1000, 30_000))
def test_it_stays_within_its_bounds(events: list[Event], count: int, size: int) -> None:
    recorder = Recorder(age_s=1e12, size_max=size, events_max=count)
    unique = {event.sequence: event for event in events}
    for event in unique.values():
        recorder.add(event)
        assert len(recorder) <= count and recorder.size <= size
    kept = {event.sequence for event in recorder.events()}
    assert kept <= unique.keys() and len(kept) == len(recorder)
    for event in recorder.events():
        assert event == unique[event.sequence]


def test_losses_since() -> None:
    recorder = Recorder(age_s=60, size_max=1 << 20)
    assert recorder.lost_since(0) == Losses()
    for at_s, lost in ((1, 0), (6, 5), (11, 5), (16, 9)):
        recorder.note_losses(at_s * S, Losses({"exec": lost} if lost else {}))
    assert recorder.lost_since(20 * S).total == 0
    assert recorder.lost_since(12 * S).total == 4
    assert recorder.lost_since(2 * S).total == 9
