"""One case as the rules read it: the process tree, what was said, what came after."""

from __future__ import annotations

import bisect
import functools
import operator
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, cast

from probe.diagnose import faults, words
from probe.diagnose.case import Case
from probe.diagnose.chain import Chain
from probe.diagnose.crashes import ACCIDENTS, YIELD_NOTHING
from probe.diagnose.flows import Flows
from probe.diagnose.services import Services
from probe.diagnose.tree import MAKING, Process, Tree
from probe.events import KINDS, Connect, Dns, Event, Exec, Exit, File, Oom, Seccomp, Syscall


@dataclass(frozen=True, slots=True)
class Suspect:
    """A possible cause, not weighed yet. `prior` is its strength if nothing speaks against it."""

    cause: str
    event: Event
    prior: float
    summary: str
    advice: str
    mentions: tuple[str, ...] = ()  # words that would name it in the error output
    spellings: tuple[str, ...] = ()  # how its error is put, where errno's own words do not
    domain: tuple[str, ...] = ()  # words of its field, which speak for it a little
    silent: bool = False  # it leaves the process no time to say anything (a kill)
    evidence: tuple[str, ...] = ()
    went_on: bool = False  # who met with it took up something else
    killed: tuple[int, ...] = ()  # the processes that it ended
    most: float = 1.0  # as sure as its evidence allows, whatever speaks for it

    @property
    def insisted(self) -> bool:
        """Whether it was tried again and again, or waited for."""
        return isinstance(self.event, (Connect, Dns)) and self.prior >= _INSISTED


_INSISTED = 0.95
Kind = TypeVar("Kind", bound=Event)
_NOBODY_THERE = frozenset({"ECONNREFUSED", "ECONNRESET", "ENOENT"})
_SERVICE_LINK = 0.95
_LOOKED_AT = 6  # children at either end
_WORDS_BELOW = 20  # processes that are heard
_MAKING = re.compile(MAKING)
_FAINT = 0.05  # of a chain: below it the failure went another way
_JUDGED = 4  # of events that are alike
_JUDGED_OF_A_KIND = 64


_LIKENESS = ("errno", "syscall", "action", "address", "port", "name", "path", "signal", "code")


def _common(kind: type[Event]) -> Callable[[Event], object]:
    fields = [name for name in _LIKENESS if hasattr(kind, name)]
    return operator.attrgetter(*fields) if fields else lambda event: None


_COMMON = {kind: _common(kind) for kind in KINDS.values()}


def _likeness(event: Event) -> tuple[object, object]:
    """What two events have in common that are the same trouble."""
    kind = type(event)
    return kind, _COMMON[kind](event)


def _reads_it_as_a_script(event: Event, later: Exec) -> bool:
    """execvp(3) hands to sh whatever is ENOEXEC: of another machine's program nothing comes."""
    return (
        isinstance(event, Exec)
        and event.reason == "exec.wrong_architecture"
        and later.argv[1:2] == (event.path,)
    )


class Story:
    """Answers the questions that every rule asks."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.events = case.events
        self.tree = Tree(case.span, case.events)
        self.flows = Flows(self.tree)
        if not case.span.passed:
            Chain(self.tree, self.flows).weigh()
        self._by_kind: dict[type[Event], list[Event]] = {}
        self._by_pid: dict[int, list[Event]] = {}
        for event in case.events:
            self._by_kind.setdefault(type(event), []).append(event)
            self._by_pid.setdefault(event.pid, []).append(event)
        self.services = Services(self.tree, self.all(Connect))
        self._faulty: dict[int, list[Process]] = {}
        self._alike: dict[int, list[Process]] = {}
        self._unharmed: dict[object, frozenset[int]] = {}  # by likeness
        self._sharers: dict[object, frozenset[int]] = {}  # by likeness
        self._births: dict[int, list[int]] = {}  # of children that ended well
        self.dead_services: list[Process] = []  # by accident or for want of memory
        self._blame_dead_services()

    def _blame_dead_services(self) -> None:
        """Who was reached before and is refused now has died since: its death counts as ours."""
        reached: dict[object, int] = {}
        for event in self.all(Connect):
            service = event.address, event.port
            if event.errno is None and not event.abandoned:
                reached[service] = event.time_ns
            elif event.errno in _NOBODY_THERE and service in reached:
                weight = _SERVICE_LINK * self.tree.process(event.pid).weight
                for process in self.tree.ended_between(reached[service], event.time_ns):
                    crashed = process.exit is not None and process.exit.signal in ACCIDENTS
                    killed = any(isinstance(other, Oom) for other in self._by_pid[process.pid])
                    if (crashed or killed) and process.pid != event.pid:
                        process.weight = max(process.weight, weight)
                        self.dead_services.append(process)

    def all(self, kind: type[Kind]) -> list[Kind]:
        """Every event of a kind, in order of time."""
        return cast("list[Kind]", self._by_kind.get(kind, []))

    def worth_judging(
        self, kind: type[Kind], unless: Callable[[Kind], bool] = lambda event: False
    ) -> list[Kind]:
        """Of those that are alike, the ones nearest to the failure: a storm is one suspect."""
        alike: dict[object, list[Kind]] = {}
        for event in self.all(kind):
            if unless(event):
                continue
            alike.setdefault(_likeness(event), []).append(event)
        chosen: list[Kind] = []
        for events in alike.values():
            if len(events) > _JUDGED:
                events = sorted(events, key=self._nearness)[-_JUDGED:]
            chosen.extend(events)
        return sorted(chosen, key=self._nearness)[-_JUDGED_OF_A_KIND:]

    def _nearness(self, event: Event) -> tuple[float, int]:
        return self.tree.process(event.pid).weight, event.time_ns

    def process(self, event: Event) -> Process:
        return self.tree.process(event.pid)

    def who(self, event: Event) -> str:
        """The program, for a sentence: "python3 (pid 12)"."""
        process = self.process(event)
        program = process.program_at(event.time_ns)
        name = program.path.rsplit("/", 1)[-1] if program else event.comm
        return f"{name or self.name(process)} (pid {event.pid})"

    def name(self, process: Process) -> str:
        """Of its program; of the span's first, what was to be started, where nobody saw it."""
        command = self.case.span.command
        if process.pid == self.tree.root and command and len(process.programs) < 2:
            return process.name or os.path.basename(command[0])
        return process.name or "a process"

    def words(self, pid: int) -> str:
        """What the process and those above it said last, and the harness's own message.

        What went to stdout speaks only where nothing was said on stderr.
        """
        return self._said(self.tree.ancestors(pid))

    def own_words(self, pid: int) -> str:
        """What the process itself said last, on stderr or else on stdout."""
        ended = self.tree.process(pid).exit
        if ended is None:
            return self.case.span.message or ""
        return (ended.last_words or "").strip() or (ended.last_output or "")

    def words_below(self, pid: int) -> str:
        """What a process that failed and those below it that failed with it said."""
        said, waiting = [], [pid]
        while waiting:
            pid = waiting.pop()
            said.append(self.own_words(pid))
            status = self.tree.process(pid).status
            waiting += [
                child.pid
                for child in self.tree.children(pid)
                if child.failed and child.status == status and child.pid != pid
            ]
            if len(said) > _WORDS_BELOW:
                break
        return "\n".join(said)

    def passed_on(self, pid: int) -> frozenset[int | None]:
        """The statuses of children that a process failed for: those that it tells, as make(1)
        does, or its own."""
        told = words.statuses(self.own_words(pid))
        return told or frozenset((self.tree.process(pid).status,))

    def children_like(self, pid: int) -> list[Process]:
        """Of the first and last that failed, those for whose status it did."""
        if pid not in self._alike:
            statuses = self.passed_on(pid)
            failed = [
                child
                for child in self.tree.children(pid)
                if child.failed and child.status in statuses
            ]
            ends = (*failed[:_LOOKED_AT], *failed[-_LOOKED_AT:])
            self._alike[pid] = list(dict.fromkeys(ends))
        return self._alike[pid]

    def faulty_children(self, pid: int) -> list[Process]:
        """Those of them that speak of a fault of their own; of all, where none had the status."""
        if pid not in self._faulty:
            failed = [child for child in self.tree.children(pid) if child.failed]
            self._faulty[pid] = [
                child
                for child in self.children_like(pid) or failed[:_LOOKED_AT]
                if faults.of_work(words.told(self.words_below(child.pid)))
            ]
        return self._faulty[pid]

    @functools.cached_property
    def sufferers(self) -> list[Process]:
        """The processes whose failure surely became the span's."""
        return [one for one in self.tree.processes.values() if one.suffers]

    @functools.cached_property
    def crashed(self) -> list[Process]:
        """Of these, whom an accident of the program ended, to which nothing was refused."""
        return [
            one
            for one in self.sufferers
            if one.exit is not None
            and one.exit.signal in ACCIDENTS
            and not any(
                isinstance(event, (File, Seccomp, Syscall)) and event.syscall not in YIELD_NOTHING
                for event in self._by_pid[one.pid]
            )
        ]

    def met_with(self, pid: int, errno: str) -> bool:
        """Whether the process has an event of its own with this errno."""
        return any(getattr(event, "errno", None) == errno for event in self._by_pid.get(pid, ()))

    def met_with_the_like(self, event: Event, process: Process) -> bool:
        """Whether the process, or one below it, met with such an event: an end is no such thing."""
        if isinstance(event, Exit):
            return False
        likeness = _likeness(event)
        if likeness not in self._sharers:
            line = {
                one
                for pid in self._alike_pids.get(likeness, ())
                for one in self.tree.ancestors(pid)
            }
            self._sharers[likeness] = frozenset(one.pid for one in line)
        return process.pid in self._sharers[likeness]

    @functools.cached_property
    def _alike_pids(self) -> dict[object, set[int]]:
        """By likeness, the processes that met with such an event."""
        found: dict[object, set[int]] = {}
        for event in self.events:
            if event.is_failure:
                found.setdefault(_likeness(event), set()).add(event.pid)
        return found

    @functools.cached_property
    def removers(self) -> list[Process]:
        """The processes that took files away."""
        return [one for one in self.tree.processes.values() if one.removes and one.status == 0]

    @functools.cached_property
    def refused_to_make(self) -> list[Seccomp | File]:
        """What was to make a file or a directory, and was refused."""
        events: list[Seccomp | File] = [*self.all(Seccomp), *self.all(File)]
        return [event for event in events if event.errno and _MAKING.search(event.syscall)]

    @functools.cached_property
    def last_denials(self) -> dict[tuple[int, str | None], dict[str, int]]:
        """By process and errno: when each syscall was refused last."""
        found: dict[tuple[int, str | None], dict[str, int]] = {}
        for event in self.all(Seccomp):
            found.setdefault((event.pid, event.errno), {})[event.syscall] = event.time_ns
        return found

    @functools.cached_property
    def started(self) -> frozenset[str]:
        """The names of all programs that were started."""
        return frozenset(
            os.path.basename(event.path) for event in self.all(Exec) if not event.errno
        )

    def _said(self, line: list[Process]) -> str:
        ended = [process.exit for process in line if process.exit]
        said = [exit.last_words for exit in ended] + [self.case.span.message]
        told = words.told("\n".join(text for text in said if text)).strip()
        return told or "\n".join(exit.last_output or "" for exit in ended).strip()

    def left_it_to_others(self, process: Process) -> bool:
        """A program that failed without a word; those above it only sum up."""
        if process.exit is None or process.exit.last_words or not process.failed:
            return False
        return process.pid != self.tree.root and bool(process.programs or process.refused)

    def words_above(self, pid: int) -> str:
        """What those above the process say."""
        return self._said(self.tree.ancestors(pid)[1:])

    def aftermath(self, event: Event) -> str | None:
        """Why the event did not matter, where the process or those above it prove it."""
        process = self.process(event)
        later = self.started_later(event)
        if later is not None:
            return f"{self.who(event)} went on and became {later.path}"
        if process.exit is not None and not process.failed:
            return f"{self.who(event)} went on and ended well"
        if process.weight < _FAINT:
            handler = self._handler(event.pid)
            if handler is not None:
                return f"{handler.name} (pid {handler.pid}) dealt with it and ended well"
            return "the failure did not reach the test"
        return None

    def did_no_harm_elsewhere(self, event: Event) -> bool:
        """Whether another process met with the like and ended well."""
        return bool(self._got_over(event) - {event.pid})

    def did_no_harm_to_its_twin(self, event: Event) -> bool:
        """Whether another one did that was started alike, or forked by the same parent."""
        own = self.process(event)
        others = self._got_over(event) - {event.pid}
        return any(own.is_twin(self.tree.process(pid)) for pid in others)

    def _got_over(self, event: Event) -> frozenset[int]:
        """The processes that met with such an event and ended well, or above which it was dealt
        with."""
        likeness = _likeness(event)
        if likeness not in self._unharmed:
            alike = self._alike_pids.get(likeness, ())
            self._unharmed[likeness] = frozenset(filter(self._got_well_out_of_it, alike))
        return self._unharmed[likeness]

    def _got_well_out_of_it(self, pid: int) -> bool:
        return self.tree.process(pid).status == 0 or self._handler(pid) is not None

    def _handler(self, pid: int) -> Process | None:
        """Who ended well above a process whose failure did not reach the test."""
        if self.tree.process(pid).weight >= _FAINT:
            return None
        above = self.tree.ancestors(pid)[1:]
        return next((p for p in above if p.exit is not None and not p.failed), None)

    def started_well_after(self, event: Event) -> int:
        """How many programs the same process started afterwards, that ended well."""
        return self._well_started(event.pid, event.time_ns)

    def started_well_above(self, process: Process) -> int:
        """How many programs its parent started after its end, that ended well."""
        parents = self.tree.ancestors(process.pid)[1:2]
        return sum(self._well_started(parent.pid, process.end_ns) for parent in parents)

    def _well_started(self, pid: int, after_ns: int) -> int:
        if pid not in self._births:
            self._births[pid] = sorted(
                child.born_ns
                for child in self.tree.children(pid)
                if child.status == 0 and child.programs
            )
        births = self._births[pid]
        return len(births) - bisect.bisect_right(births, after_ns)

    def command_lines(self, pid: int) -> str:
        """Of the process and those above it, as they were started last."""
        line = self.tree.ancestors(pid)
        return "\n".join(" ".join(one.programs[-1].argv) for one in line if one.programs)

    def started_later(self, event: Event) -> Exec | None:
        """A program that the same process became afterwards."""
        programs = self.process(event).programs
        at = bisect.bisect_right(programs, event.time_ns, key=lambda other: other.time_ns)
        later = programs[at] if at < len(programs) else None
        return None if later is not None and _reads_it_as_a_script(event, later) else later
