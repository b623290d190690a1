"""What a run's other tests say of an event."""

from __future__ import annotations

import math
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probe.diagnose.background import (
    Background,
    address_class,
    background,
    feature_of,
    features,
    path_class,
)
from probe.events import Connect, Event, Exec, File, Seccomp


def event(kind: type[Event], **fields: object) -> Event:
    return kind(sequence=1, time_ns=1, pid=1, comm="sh", exe="/usr/bin/python3", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("told", "feature"),
    [
        (event(Seccomp, syscall="mkdir", errno="EPERM"), "seccomp mkdir EPERM by python3"),
        (
            event(Connect, family="ipv4", address="10.1.2.3", port=80, errno="ETIMEDOUT"),
            "connect ETIMEDOUT private:80 by python3",
        ),
        (event(Connect, family="ipv4", address="10.1.2.3", port=80), None),
        (
            event(File, syscall="openat", path="/tmp/job-12/out", errno="EROFS"),
            "file EROFS /tmp/job-#/out by python3",
        ),
        (event(Exec, path="/opt/bin/tool", errno="ENOENT"), "exec ENOENT tool by python3"),
        (event(Exec, path="/opt/bin/tool"), None),
    ],
)
def test_what_an_event_comes_down_to(told: Event, feature: str | None) -> None:
    assert feature_of(told) == feature
    assert features([told, told]) == ((feature,) if feature else ())


def test_classes() -> None:
    assert path_class("/var/tmp/1f2e/a9") == "/var/tmp/#/#"
    addresses = ["127.0.0.1", "::1", "192.168.0.9", "169.254.1.1", "8.8.8.8", "@abstract"]
    told = ["loopback", "loopback", "private", "link-local", "8.8.8.8", "@abstract"]
    assert [address_class(address) for address in addresses] == told


def test_what_only_failing_tests_show_separates() -> None:
    run = background([["refused", "noise"]] * 10, [["noise"]] * 40)
    assert run.suspicion("refused") == 1
    assert run.suspicion("noise") == pytest.approx(10 / math.sqrt(10 * 50))
    assert run.share_of_passing("noise") == 1 and run.share_of_passing("refused") == 0
    assert run.separating() == ["refused"]


def test_few_tests_prove_nothing() -> None:
    assert background([["refused"]], [[]]).separating() == []


@given(st.integers(0, 6), st.integers(0, 6), st.data())
def test_the_chance_is_that_of_drawing_tests_at_random(
    failing: int, passing: int, data: st.DataObject
) -> None:
    """Counted one by one over all ways to deal the feature out."""
    bad = data.draw(st.integers(0, failing))
    good = data.draw(st.integers(0, passing))
    run = Background(failing, passing, {"it": (bad, good)})
    ways = list(combinations(range(failing + passing), bad + good))
    as_bad = sum(sum(test < failing for test in chosen) >= bad for chosen in ways)
    assert run.chance("it") == pytest.approx(as_bad / len(ways))
