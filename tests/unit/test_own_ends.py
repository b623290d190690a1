"""Ends that are the work's own, though something was refused before."""

from __future__ import annotations

import pytest
from test_diagnose import FULL, ROOT, at, cause, ended, span
from test_hearing import CHILD, GRANDCHILD, denied, read_only, started

from probe.diagnose import explain, make_case
from probe.events import Event, Signal

WATCHDOG = (
    "Timeout (0:00:01.500000)!\nThread 0x00007f8f29c83040 (most recent call first):\n"
    '  File "/usr/lib/python3.11/threading.py", line 1112 in join\n  File "x.py", line 15\n'
)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/home/ci/.viminfo", "workload.failed"),
        ("/home/ci/.python_history", "workload.failed"),
        ("/home/ci/app/__pycache__", "workload.failed"),
        ("/home/ci/app/.pytest_cache/v/cache/nodeids", "workload.failed"),
        ("/tmp/hsperfdata_root", "workload.failed"),
        ("/home/ci/app/cache", "fs.read_only"),
        ("/home/ci/history.db", "fs.read_only"),
    ],
)
def test_nobody_fails_for_what_it_keeps_for_the_next_time(path: str, expected: str) -> None:
    assert cause([read_only(1, 990, path=path), ended(2, 1000)]) == expected


def test_a_hang_that_faulthandler_ended_has_no_refusal_for_a_reason() -> None:
    assert cause([denied(1, 10), ended(2, 1600, last_words=WATCHDOG)]) == "workload.failed"


def stopped(**end: object) -> list[Event]:
    """A script whose one program sends SIGINT to another, which ends in some way."""
    return [
        started(1, 10, CHILD, "/usr/bin/server"),
        started(2, 100, GRANDCHILD, "/usr/bin/serverctl", "stop"),
        Signal(**{**at(3, 200, GRANDCHILD), "ppid": ROOT}, signal="SIGINT", target=CHILD,
               sender="process"),
        ended(4, 300, CHILD, ppid=ROOT, **end),
        ended(5, 310, GRANDCHILD, ppid=ROOT, code=0),
        ended(6, 400),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ({"code": None, "signal": "SIGINT"}, "limit.killed"),
        ({"code": 130}, "limit.killed"),
        ({"code": 1}, "workload.failed"),
    ],
    ids=["killed by it", "told so", "ended as it likes"],
)
def test_who_was_asked_to_end_was_not_killed(end: dict[str, object], expected: str) -> None:
    verdict = explain(make_case(span(), stopped(**end), FULL)).verdict
    assert verdict is not None
    assert verdict.cause == expected
