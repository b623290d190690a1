"""Long spans that were made up, and how long it takes to explain them."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

from probe.coverage import Coverage, Losses
from probe.diagnose import Case, explain
from probe.events import Connect, Event, Exec, Exit, File, Seccomp
from probe.span import Span

MS = 1e3


def took_ms(case: Case) -> float:
    """The best of three, or the only one where it takes long."""
    best = float("inf")
    for _ in range(3):
        began = time.perf_counter()
        explain(case)
        best = min(best, (time.perf_counter() - began) * MS)
        if best > 1000:
            break
    return best


def made_up(events: Sequence[Event]) -> Case:
    """A failed span of these events, whose root is process 1, seen in full."""
    last = events[-1].time_ns
    ended = dataclasses.replace(_exit(1, 0, last + 1, 1), last_words="Error: build failed")
    span = Span(0, "", "made up", ("make",), "", "", 1, 0, ended_ns=last + 2, exit_code=1)
    span.outcome = "failed"
    return Case(span, (*events, ended), Coverage("bpf", {}), Losses())


def _exit(pid: int, ppid: int, at: int, code: int) -> Exit:
    return Exit(sequence=at, time_ns=at * 1000, pid=pid, ppid=ppid, code=code, duration_s=1e-3)


def many_processes(count: int) -> Case:
    """Processes that start, meet a refusal or a missing file, and end; one in ten fails."""
    events: list[Event] = [Exec(sequence=0, time_ns=1, pid=1, path="/usr/bin/make")]
    for number in range(count // 4):
        pid, at = number + 2, 4 * number + 1
        parent = 1 if number % 8 == 0 else pid - 1
        path = f"/usr/bin/tool{number % 7}"
        events += [
            Exec(sequence=at, time_ns=at * 1000, pid=pid, ppid=parent, path=path),
            _failure(number, pid, parent, at + 1),
            _failure(number + 1, pid, parent, at + 2),
            _exit(pid, parent, at + 3, int(number % 10 == 0)),
        ]
    return made_up(events)


def one_process(count: int) -> Case:
    """One program that fails at everything it tries, each time at another thing."""
    events: list[Event] = [Exec(sequence=0, time_ns=1, pid=1, path="/usr/bin/python3")]
    return made_up([*events, *(_failure(number, 1, 0, number) for number in range(1, count))])


def many_connections(count: int) -> Case:
    """Processes that are refused, each at another port, and fail with their own words for it."""
    events: list[Event] = [Exec(sequence=0, time_ns=1, pid=1, path="/usr/bin/make")]
    for number in range(3, 2 * count, 4):  # the fourth kind of failure
        ended = _exit(number, 1, number + 1, 1)
        said = f"cannot reach 10.0.0.1:{number}: Connection refused"
        events += [_failure(number, number, 1, number), dataclasses.replace(ended, last_words=said)]
    return made_up(events)


MADE_UP: dict[str, Callable[[int], Case]] = {
    "processes": many_processes,
    "one process": one_process,
    "connections": many_connections,
}


def _failure(number: int, pid: int, ppid: int, at: int) -> Event:
    common: dict[str, Any] = {"sequence": at, "time_ns": at * 1000, "pid": pid, "ppid": ppid}
    path = f"/srv/file{number}"
    kinds: tuple[Callable[[], Event], ...] = (
        lambda: Seccomp(**common, syscall="mkdir", path=path, errno="EPERM", next=("write=1",)),
        lambda: Exec(**common, path=f"/usr/bin/tool{number}", errno="ENOENT"),
        lambda: File(**common, syscall="openat", path=path, errno="EROFS", mount="/srv"),
        lambda: Connect(
            **common, family="ipv4", address="10.0.0.1", port=number, errno="ECONNREFUSED"
        ),
    )
    return kinds[number % len(kinds)]()  # many_connections counts on the order
