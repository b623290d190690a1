"""What one sandbox may ask, and that the book on it stays small."""

from __future__ import annotations

import time

import pytest

from collector import quota
from collector.quota import Complaints, Exhausted, Quota


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_a_burst_is_free_and_what_follows_is_not(clock: list[float]) -> None:
    accounts = Quota(rate=100)
    accounts.enter("s1")
    accounts.enter("s2")
    assert accounts.charge("s1", 200, 0) == 0
    assert accounts.charge("s1", 50, 0) == pytest.approx(0.5)
    assert accounts.charge("s2", 50, 0) == 0
    clock[0] += 0.5
    assert accounts.charge("s1", 1, 0) == pytest.approx(0.01)
    clock[0] += 3600
    assert accounts.charge("s1", 200, 0) == 0
    assert accounts.charge("s1", 0, 10 * 1024) == pytest.approx(0.1)  # bytes count too


def test_streams_are_counted(clock: list[float]) -> None:
    accounts = Quota(streams=2)
    accounts.enter("s1")
    accounts.enter("s1")
    with pytest.raises(Exhausted, match="more than 2 streams"):
        accounts.enter("s1")
    accounts.enter("s2")
    accounts.leave("s1")
    accounts.enter("s1")


def test_a_million_names_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota, "_REMEMBERED", 10)
    accounts, complaints = Quota(streams=1), Complaints()
    accounts.enter("stays")
    for number in range(1000):
        accounts.enter(f"s{number}")
        accounts.leave(f"s{number}")
        assert complaints.is_new(f"s{number}", "x")
    assert len(accounts._idle) <= 10 and len(accounts._busy) == 1 and len(complaints._made) <= 10
    with pytest.raises(Exhausted):
        accounts.enter("stays")


def test_a_complaint_is_made_once_and_only_so_many() -> None:
    complaints = Complaints()
    assert complaints.is_new("s1", "x") and not complaints.is_new("s1", "x")
    assert complaints.is_new("s2", "x")
    assert sum(complaints.is_new("s1", str(number)) for number in range(100)) < 20
