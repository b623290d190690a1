"""One failing test as a picture: its processes as lanes, and what happened on them.

A page shows thousands of these, so each is bounded: what the verdict rests on stays.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from probe.events import JsonObject, time_from_text
from probe.terminal import escape, shorten
from probe.text import describe

LANES = 16
MARKS = 60
_WORDS = 240  # characters of one event
_NAME = 40
_MS = 1e6  # nanoseconds
EVIDENCE, DISMISSED, FAILURE, OTHER = "evidence", "dismissed", "failure", "other"
_ROLES = (EVIDENCE, DISMISSED, FAILURE, OTHER)  # what is worth more comes first


@dataclass(frozen=True, slots=True)
class Lane:
    """One process. Times in milliseconds from the start of the test; `end` None: not seen."""

    pid: int
    name: str
    depth: int
    start: float
    end: float | None
    ended: str  # "exit 1", "SIGKILL", or nothing
    failed: bool


@dataclass(frozen=True, slots=True)
class Mark:
    """One event on a lane."""

    lane: int
    at: float
    kind: str
    words: str
    role: str
    reason: str = ""  # why it was dismissed


@dataclass(frozen=True, slots=True)
class Timeline:
    """`lanes_left_out` and `marks_left_out`: how many were too many."""

    duration: float
    lanes: tuple[Lane, ...] = ()
    marks: tuple[Mark, ...] = ()
    lanes_left_out: int = 0
    marks_left_out: int = 0


@dataclass(slots=True)
class _Process:
    pid: int
    parent: int
    events: list[JsonObject] = field(default_factory=list)
    worth: int = len(_ROLES)  # of its weightiest event, the least is the most

    @property
    def end(self) -> JsonObject | None:
        return next((one for one in reversed(self.events) if one["kind"] == "exit"), None)

    @property
    def name(self) -> str:
        started = [one for one in self.events if one["kind"] == "exec" and "errno" not in one]
        path = started[-1]["path"] if started else ""
        return os.path.basename(path) or self.events[-1]["comm"] or "?"

    def born_ns(self) -> int:
        end = self.end
        first = time_from_text(self.events[0]["time"])
        if end is None or end.get("duration_s") is None:
            return first
        return min(first, time_from_text(end["time"]) - int(end["duration_s"] * 1e9))


def timeline(report: JsonObject) -> Timeline:
    """Of a test's report (probe.report/1)."""
    start_ns = time_from_text(report["span"]["started_at"])
    roles, reasons = _roles(report)
    processes = _processes(report["events"], roles)
    shown = _chosen(processes)
    lanes = tuple(_lane(processes[pid], depth, start_ns) for pid, depth in _ordered(shown))
    at = {lane.pid: index for index, lane in enumerate(lanes)}
    candidates = [one for one in report["events"] if one["pid"] in at]
    marks = tuple(
        _mark(one, at[one["pid"]], start_ns, roles[one["id"]], reasons.get(one["id"], ""))
        for one in _weightiest(candidates, roles)
    )
    last = max([mark.at for mark in marks] + [lane.end or 0 for lane in lanes], default=0.0)
    return Timeline(
        duration=max(last, (report["span"]["duration_s"] or 0) * 1e3),
        lanes=lanes,
        marks=marks,
        lanes_left_out=len(processes) - len(lanes),
        marks_left_out=len(report["events"]) - len(marks),
    )


def _roles(report: JsonObject) -> tuple[dict[str, str], dict[str, str]]:
    """What each event is to the verdict, and why those were dismissed that were."""
    verdict = report["verdict"]
    evidence = set(verdict["evidence"]) if verdict else set()
    reasons = {one["event"]: _text(one["reason"], _WORDS) for one in report["dismissed"]}
    roles = {}
    for event in report["events"]:
        id_ = event["id"]
        if id_ in evidence:
            roles[id_] = EVIDENCE
        elif id_ in reasons:
            roles[id_] = DISMISSED
        else:
            roles[id_] = FAILURE if _is_failure(event) else OTHER
    return roles, reasons


def _is_failure(event: JsonObject) -> bool:
    """As Event.is_failure, of what a report shows of it."""
    if event["kind"] == "exit":
        return event.get("code") != 0
    if event["kind"] == "dns":
        return event.get("rcode") != "NOERROR"
    always = event["kind"] in ("seccomp", "oom", "signal", "limit", "loss")
    return always or "errno" in event or bool(event.get("abandoned"))


def _processes(events: Sequence[JsonObject], roles: dict[str, str]) -> dict[int, _Process]:
    found: dict[int, _Process] = {}
    for event in events:
        process = found.setdefault(event["pid"], _Process(event["pid"], event["ppid"]))
        process.events.append(event)
        process.worth = min(process.worth, _ROLES.index(roles[event["id"]]))
    return found


def _chosen(processes: dict[int, _Process]) -> dict[int, _Process]:
    """The weightiest, with those that they descend from as far as there is room."""
    chosen: dict[int, _Process] = {}
    for process in sorted(processes.values(), key=lambda one: (one.worth, one.born_ns())):
        for one in reversed(list(_ancestry(process, processes))):
            if len(chosen) < LANES:
                chosen[one.pid] = one
    return chosen


def _ancestry(process: _Process, processes: dict[int, _Process]) -> Iterator[_Process]:
    """From the process itself upwards; numbers that were used again may make a circle."""
    met: set[int] = set()
    at: _Process | None = process
    while at is not None and at.pid not in met and len(met) < LANES:
        met.add(at.pid)
        yield at
        at = processes.get(at.parent)


def _ordered(chosen: dict[int, _Process]) -> list[tuple[int, int]]:
    """Each process below its parent, in the order of their births, with its depth."""
    children: dict[int, list[int]] = defaultdict(list)
    roots: list[int] = []
    for process in sorted(chosen.values(), key=lambda one: (one.born_ns(), one.pid)):
        is_root = process.parent not in chosen or process.parent == process.pid
        (roots if is_root else children[process.parent]).append(process.pid)
    order: dict[int, int] = {}
    # Those in a circle have no root; they come last.
    waiting = [(pid, 0) for pid in reversed([*roots, *chosen])]
    while waiting:
        pid, depth = waiting.pop()
        if pid not in order:
            order[pid] = depth
            waiting += [(child, depth + 1) for child in reversed(children[pid])]
    return list(order.items())


def _lane(process: _Process, depth: int, start_ns: int) -> Lane:
    end = process.end
    ended = ""
    if end is not None:
        ended = end.get("signal") or f"exit {end.get('code')}"
    return Lane(
        pid=process.pid,
        name=_text(process.name, _NAME),
        depth=depth,
        start=_ms(process.born_ns() - start_ns),
        end=None if end is None else _ms(time_from_text(end["time"]) - start_ns),
        ended=_text(ended, _NAME),
        failed=end is not None and end.get("code") != 0,
    )


def _weightiest(events: list[JsonObject], roles: dict[str, str]) -> list[JsonObject]:
    """At most MARKS of them, in their order."""
    worth = sorted(range(len(events)), key=lambda at: (_ROLES.index(roles[events[at]["id"]]), at))
    return [events[at] for at in sorted(worth[:MARKS])]


def _mark(event: JsonObject, lane: int, start_ns: int, role: str, reason: str) -> Mark:
    at = _ms(time_from_text(event["time"]) - start_ns)
    return Mark(lane, at, event["kind"], _text(describe(event), _WORDS), role, reason)


def _ms(duration_ns: int) -> float:
    """Not before the start: clocks and a probe's first sight may differ by a little."""
    return round(max(0, duration_ns) / _MS, 3)


def _text(text: str, limit: int) -> str:
    """Workloads choose names and words: no control characters, and not too many of them."""
    return shorten(escape(text), limit)
