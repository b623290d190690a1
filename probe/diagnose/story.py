"""One case as the rules read it: the process tree, what was said, what came after."""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, cast

from probe.diagnose import words
from probe.diagnose.case import Case, Dismissal, Finding
from probe.diagnose.tree import Process, Tree
from probe.events import Event, Exec

_MS = 1_000_000
DEATHS = (
    *("killed", "SIGKILL", "SIGSYS", "SIGSEGV", "SIGABRT", "out of memory", "OOM", "137", "139"),
    *("-9", "-11", "-6", "died with", "segmentation", "aborted", "core dumped", "bad system call"),
    *("non-zero", "exit status", "signal", "terminated", "timed out", "timeout"),
)
_OWN_CRASHES = frozenset({"SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL"})


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


Kind = TypeVar("Kind", bound=Event)
_JUDGED = 4  # of events that are alike
_JUDGED_OF_A_KIND = 64


def _likeness(event: Event) -> tuple[object, ...]:
    """What two events have in common that are the same trouble."""
    return tuple(
        getattr(event, name, None)
        for name in ("errno", "syscall", "action", "address", "port", "name", "path", "signal")
    )


class Story:
    """Answers the questions that every rule asks."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.events = case.events
        self.tree = Tree(case.span, case.events)
        self._by_kind: dict[type[Event], list[Event]] = {}
        self._by_pid: dict[int, list[Event]] = {}
        for event in case.events:
            self._by_kind.setdefault(type(event), []).append(event)
            self._by_pid.setdefault(event.pid, []).append(event)

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
        return f"{name} (pid {event.pid})"

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

    def _said(self, line: list[Process]) -> str:
        ended = [process.exit for process in line if process.exit]
        said = [exit.last_words for exit in ended] + [self.case.span.message]
        told = words.told("\n".join(text for text in said if text)).strip()
        return told or "\n".join(exit.last_output or "" for exit in ended).strip()

    def named(self, suspect: Suspect) -> float:
        """How much the error output speaks for (above 1) or against (below 1) a suspect."""
        event = suspect.event
        said = self.words(event.pid)
        if not said:
            return 0.65
        errno = getattr(event, "errno", None)
        spellings = (*suspect.spellings, *(words.errno_spellings(errno) if errno else ()))
        error_named = words.mentions(said, spellings)
        thing_named = any(words.names(said, thing) for thing in suspect.mentions)
        if error_named and words.only_warned(said, spellings):
            return 0.3
        if thing_named and words.passed_over(said, suspect.mentions):
            return 0.3
        if error_named and words.overtaken(said, spellings):
            return 0.35
        exit_event = self.process(event).exit
        own = words.told(exit_event.last_words or "") if exit_event else ""
        if error_named and words.thrown_after(own, spellings):
            return 0.35
        if error_named:
            return 1.25 if thing_named else 1.15
        if words.own_fault(said):
            return 0.25
        if thing_named:
            return 0.9
        if suspect.domain and words.mentions(said, suspect.domain):
            return 0.8
        if self._left_it_to_others(self.process(event)):
            return 0.65
        return 0.5 if words.some_fault(said) else 0.6

    def _left_it_to_others(self, process: Process) -> bool:
        """A program that failed without a word; those above it only sum up."""
        if process.exit is None or process.exit.last_words or not process.failed:
            return False
        return process.pid != self.tree.root and bool(process.programs or process.refused)

    def heard_of(self, suspect: Suspect) -> float:
        """What those above a process that was killed say: of its death, or of another fault."""
        said = self._said(self.tree.ancestors(suspect.event.pid)[1:])
        if not said or words.mentions(said, (*suspect.spellings, *DEATHS)):
            return 1.0
        return 0.4 if words.own_fault(said) else 0.55

    def _left_to_itself(self, suspect: Suspect) -> float:
        """Less where the process failed through a child, or crashed, after the event."""
        process, event = self.process(suspect.event), suspect.event
        if suspect.silent or process.exit is None or event is process.exit:
            return 1.0
        if process.exit.signal in _OWN_CRASHES:
            return 0.4
        inherited = any(
            child.failed and child.status == process.status and child.end_ns > event.time_ns
            for child in self.tree.children(process.pid)
        )
        return 0.5 if inherited else 1.0

    def closeness(self, event: Event) -> float:
        """How near to the process's end the event was: 1 at the end, less before."""
        lag = self.tree.end_ns(event.pid) - event.time_ns
        for limit_ms, value in ((100, 1.0), (500, 0.95), (2000, 0.85), (10_000, 0.75)):
            if lag < limit_ms * _MS:
                return value
        return 0.65

    def aftermath(self, event: Event) -> str | None:
        """Why the event did not matter, where the process or those above it prove it."""
        process = self.process(event)
        later = self.started_later(event)
        if later is not None:
            return f"{self.who(event)} went on and became {later.path}"
        if process.exit is not None and not process.failed:
            return f"{self.who(event)} went on and ended well"
        if process.weight == 0:
            above = self.tree.ancestors(event.pid)[1:]
            handler = next((p for p in above if p.exit is not None and not p.failed), None)
            if handler is not None:
                return f"{handler.name} (pid {handler.pid}) dealt with it and ended well"
            return "the failure did not reach the test"
        return None

    def later(self, event: Event) -> list[Event]:
        """The same process's events after this one."""
        own = self._by_pid.get(event.pid, [])
        return own[bisect.bisect_right(own, event.time_ns, key=lambda other: other.time_ns) :]

    def started_later(self, event: Event) -> Exec | None:
        """A program that the same process became afterwards."""
        programs = self.process(event).programs
        at = bisect.bisect_right(programs, event.time_ns, key=lambda other: other.time_ns)
        return programs[at] if at < len(programs) else None

    def weigh(self, suspect: Suspect) -> Finding | Dismissal:
        """A finding with its confidence, or a dismissal with the reason."""
        reason = self.aftermath(suspect.event)
        if reason is not None:
            return Dismissal(suspect.event.id, reason)
        confidence = suspect.prior * self.process(suspect.event).weight
        if not suspect.silent:
            confidence *= self.closeness(suspect.event)
            confidence *= self.named(suspect)
        else:
            confidence *= self.heard_of(suspect)
        confidence *= self._left_to_itself(suspect)
        evidence = suspect.evidence or (suspect.event.id,)
        exit_event = self.process(suspect.event).exit
        if exit_event is not None and exit_event.id not in evidence:
            evidence = (*evidence, exit_event.id)
        return Finding(
            suspect.cause, min(confidence, 0.99), suspect.summary, suspect.advice, evidence
        )
