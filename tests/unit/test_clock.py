"""The offset of a sandbox's clock, from exchanges whose ways take unknown times."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.clock import Clock
from probe.wire import stream_pb2 as wire

HOUR = 3600 * 10**9
WAYS = st.integers(0, 10**9)


class Two:
    """Our clock and a sandbox's, which both stand still but for what the ways take."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, offset: int) -> None:
        self.now, self.offset = 10**18, offset
        monkeypatch.setattr(time, "time_ns", lambda: self.now)
        self.clock = Clock(offset + 12345)

    def exchange(self, there: int, back: int, kept: int = 10**9) -> bool:
        heard = self.clock.say()
        self.now += there
        received = self.now + self.offset
        self.now += kept
        sent = self.now + self.offset
        self.now += back
        return self.clock.hear(wire.Clock(heard_ns=heard, received_ns=received, sent_ns=sent))


@given(st.integers(-HOUR, HOUR), st.lists(st.tuples(WAYS, WAYS), min_size=1, max_size=8))
def test_it_is_known_to_half_of_the_best_way(offset: int, ways: list[tuple[int, int]]) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        two = Two(monkeypatch, offset)
        for there, back in ways:
            two.exchange(there, back)
        assert abs(two.clock.offset_ns - offset) * 2 <= min(map(sum, ways)) + 1


@given(st.integers(2 * 10**9, HOUR), st.booleans(), WAYS, WAYS)
def test_a_clock_that_is_set_is_measured_anew(
    jump: int, backwards: bool, there: int, back: int
) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        two = Two(monkeypatch, 0)
        two.exchange(1000, 1000)
        two.offset = -jump if backwards else jump
        assert two.exchange(there, back)
        assert abs(two.clock.offset_ns - two.offset) * 2 <= there + back + 1


def test_what_cannot_be_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    two = Two(monkeypatch, 500)
    assert two.exchange(10, 10)
    for heard, received, sent in ((0, 0, 0), (1, 2, 3), (two.clock.say(), 0, 1 << 62)):
        assert not two.clock.hear(wire.Clock(heard_ns=heard, received_ns=received, sent_ns=sent))
    assert two.clock.offset_ns == 500
