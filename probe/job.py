"""A job: what somebody started by hand (or a harness by itself), with all that came of it.

The recorder knows processes only. A job is the topmost one of them that has ended: above it
is whoever lives on, a shell or a daemon. What an interactive shell ran is a job of its own
when the shell has ended as well, and so is a session.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field

from probe.diagnose.process import is_program_path
from probe.events import Event, Exec, Exit

SHELLS = frozenset({"sh", "bash", "dash", "ash", "ksh", "zsh", "fish", "busybox"})
_PIPELINE_NS = 20_000_000  # its stages are created within so many nanoseconds
_DEPTH = 256
_SLACK_NS = 1_000_000  # between the clocks of a birth and of an end
# What lets somebody in, or runs something for them: what it starts in a session is its own.
_DOORS = frozenset(
    {"sshd", "sshd-session", "dropbear", "login", "in.telnetd", "cron", "crond", "atd", "systemd"}
)


@dataclass(slots=True, eq=False)
class Process:
    """One process of those that were recorded; numbers may be used again after its end."""

    pid: int
    above: int = 0
    parent: Process | None = None
    events: list[Event] = field(default_factory=list)
    started: list[Exec] = field(default_factory=list)
    exit: Exit | None = None

    @property
    def born_ns(self) -> int:
        if self.exit is not None and self.exit.duration_s is not None:
            return self.exit.time_ns - int(self.exit.duration_s * 1e9)
        return self.events[0].time_ns

    @property
    def name(self) -> str:
        return os.path.basename(self.argv[0]).lstrip("-").rstrip(":")

    @property
    def argv(self) -> tuple[str, ...]:
        """Of the program that it became first; else of the one that it could not become."""
        refused = [event for event in self.events if isinstance(event, Exec) and event.argv]
        if self.started or refused:
            return (self.started or refused)[0].argv
        missing = self.exit.missing if self.exit is not None else ()
        sought = [os.path.basename(path) for path in missing if is_program_path(path)]
        return (sought[-1] if sought else self.events[-1].comm,)

    @property
    def is_interactive_shell(self) -> bool:
        """A login shell, or one without a script or a command to run."""
        argv = self.started[-1].argv if self.started else ()
        if not argv:
            return False
        name = os.path.basename(argv[0])
        if name.startswith("-"):
            return True
        return name in SHELLS and all(word.startswith("-") and word != "-c" for word in argv[1:])


@dataclass(frozen=True, slots=True)
class Job:
    """The processes at its top (several: the stages of a pipeline), and all its events."""

    tops: tuple[Process, ...]
    events: tuple[Event, ...]

    @property
    def top(self) -> Process:
        """The one that speaks for it: that failed last, else that ended last."""
        return max(self.tops, key=lambda one: (_failed(one), _end(one)))

    @property
    def failed(self) -> bool:
        return any(map(_failed, self.tops))

    @property
    def pids(self) -> frozenset[int]:
        """Of all its processes, as the probe and as they themselves number them."""
        return frozenset(number for event in self.events for number in (event.pid, event.inner_pid))

    @property
    def sessions(self) -> frozenset[int]:
        return frozenset(event.session for one in self.tops for event in one.events)

    @property
    def uids(self) -> frozenset[int]:
        """Of those who ran it: what the processes at its top were in the end."""
        return frozenset(one.events[-1].uid for one in self.tops)

    @property
    def started_ns(self) -> int:
        return min(one.born_ns for one in self.tops)

    @property
    def ended_ns(self) -> int:
        return max(map(_end, self.tops))

    @property
    def command(self) -> tuple[str, ...]:
        """As the stages were started, with | between them."""
        words: list[str] = []
        for one in self.tops:
            words += ["|"] if words else []
            words += one.argv
        return tuple(words)


def _failed(process: Process) -> bool:
    return process.exit is not None and process.exit.is_failure


def _end(process: Process) -> int:
    return process.exit.time_ns if process.exit is not None else 0


def jobs(events: Iterable[Event]) -> list[Job]:
    """Those that have ended, in the order of their ends. `events` in order of time."""
    by_top: dict[int, tuple[Process, list[Event]]] = {}
    for process in _processes(events):
        top = _top(process)
        if top is not None:
            by_top.setdefault(id(top), (top, []))[1].extend(process.events)
    alone = sorted(by_top.values(), key=lambda pair: pair[0].born_ns)
    grouped: list[tuple[list[Process], list[Event]]] = []
    for top, own in alone:
        before = grouped[-1][0] if grouped else []
        if before and _one_pipeline(before[-1], top):
            before.append(top)
            grouped[-1][1].extend(own)
        else:
            grouped.append(([top], own))
    made = [
        Job(tuple(tops), tuple(sorted(own, key=lambda event: (event.time_ns, event.sequence))))
        for tops, own in grouped
    ]
    return sorted(made, key=lambda job: job.ended_ns)


def _processes(events: Iterable[Event]) -> list[Process]:
    found: list[Process] = []
    living: dict[int, Process] = {}
    for event in events:
        process = living.get(event.pid)
        if process is None or (process.exit is not None and not _is_echo(process.exit, event)):
            process = Process(event.pid, event.ppid, living.get(event.ppid))
            living[event.pid] = process
            found.append(process)
        process.events.append(event)
        if isinstance(event, Exec) and event.errno is None:
            process.started.append(event)
        elif isinstance(event, Exit):
            process.exit = event
    _link(found)
    return found


def _link(found: list[Process]) -> None:
    """To parents that nothing was told of before they ended: a shell's own copy, mostly."""
    ended: dict[int, list[Process]] = {}
    for process in found:
        if process.exit is not None:
            ended.setdefault(process.pid, []).append(process)
    for process in found:
        if process.parent is None:
            process.parent = next(
                (one for one in ended.get(process.above, ()) if _has_borne(one, process)), None
            )


def _has_borne(parent: Process, process: Process) -> bool:
    return parent.born_ns - _SLACK_NS <= process.born_ns <= _end(parent) and parent is not process


def _is_echo(ended: Exit, event: Event) -> bool:
    """What is told of a process after its end is about it still, until its number is reused."""
    return not isinstance(event, (Exec, Exit)) and event.time_ns - ended.time_ns < _PIPELINE_NS


def _top(process: Process) -> Process | None:
    """None while the job goes on."""
    for _ in range(_DEPTH):
        above = process.parent
        if above is None or above.exit is None or _is_apart(above, process):
            return process if process.exit is not None else None
        process = above
    return None


def _is_apart(above: Process, process: Process) -> bool:
    """What a shell runs for somebody is a job of its own; so is a session, of who let it in."""
    session = above.events[-1].session != process.events[-1].session
    return above.is_interactive_shell or (session and above.name in _DOORS)


def _one_pipeline(one: Process, other: Process) -> bool:
    """Stages begin together: one after the other has ended is the next command."""
    same = one.above == other.above and one.events[0].session == other.events[0].session
    together = other.born_ns - one.born_ns < _PIPELINE_NS
    return same and together and other.born_ns < _end(one)
