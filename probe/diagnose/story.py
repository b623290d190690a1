"""One case as the rules read it: the process tree, what was said, what came after."""

from __future__ import annotations

from dataclasses import dataclass

from probe import abi
from probe.diagnose.case import Case, Dismissal, Finding
from probe.diagnose.tree import Process, Tree
from probe.events import Event, Exec

_MS = 1_000_000
# How errnos are spelled where runtimes do not print strerror(3) or the errno's name.
_SPELLINGS: dict[str, tuple[str, ...]] = {
    "EPERM": ("PermissionError", "not permitted", "AccessDenied"),
    "EACCES": ("PermissionError", "AccessDenied", "permission denied"),
    "ENOENT": ("FileNotFoundError", "NoSuchFile", "not found", "cannot find"),
    "ECONNREFUSED": ("ConnectionRefused", "connection refused", "could not connect"),
    "EAGAIN": ("BlockingIOError", "Cannot fork", "unable to create native thread"),
    "ENOMEM": ("MemoryError", "OutOfMemory", "bad_alloc", "out of memory"),
    "ENOSYS": ("not implemented", "not supported"),
    "ETIMEDOUT": ("timed out", "TimeoutError", "timeout"),
    "EROFS": ("read-only",),
    "ENOSPC": ("no space left", "disk full"),
    "ENETUNREACH": ("unreachable",),
    "EHOSTUNREACH": ("unreachable", "no route"),
    "ECONNRESET": ("ConnectionReset", "reset by peer"),
}
_OWN_FAULT = (
    "assert",
    "expected",
    "Traceback",
    "Exception",
    "panic",
    "error:",
    "Error:",
    "ERROR",
    "FAILED",
    "FAIL:",
)


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
    silent: bool = False  # it leaves the process no time to say anything (a kill)
    evidence: tuple[str, ...] = ()


def says(words: str, errno: str) -> bool:
    """Whether an error output speaks of this errno, in one of its spellings."""
    lower = words.lower()
    spellings = (abi.errno_text(errno), errno, *_SPELLINGS.get(errno, ()))
    return any(spelling.lower() in lower for spelling in spellings)


class Story:
    """Answers the questions that every rule asks."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.events = case.events
        self.tree = Tree(case.span, case.events)

    def process(self, event: Event) -> Process:
        return self.tree.process(event.pid)

    def who(self, event: Event) -> str:
        """The program, for a sentence: "python3 (pid 12)"."""
        process = self.process(event)
        program = process.program_at(event.time_ns)
        name = program.path.rsplit("/", 1)[-1] if program else event.comm
        return f"{name} (pid {event.pid})"

    def words(self, pid: int) -> str:
        """What the process and those above it said last, and the harness's own message."""
        said = [p.exit.last_words or "" for p in self.tree.ancestors(pid) if p.exit]
        return "\n".join([*said, self.case.span.message or ""]).strip()

    def named(self, suspect: Suspect) -> float:
        """How much the error output speaks for (above 1) or against (below 1) a suspect."""
        event, mentions = suspect.event, suspect.mentions
        words = self.words(event.pid)
        if not words:
            return 0.9
        lower = words.lower()
        errno = getattr(event, "errno", None)
        error_named = (errno is not None and says(words, errno)) or any(
            spelling in lower for spelling in suspect.spellings
        )
        thing_named = any(mention and mention.lower() in lower for mention in mentions)
        if error_named:
            return 1.25 if thing_named else 1.15
        if thing_named:
            return 0.9
        return 0.25 if any(sign.lower() in lower for sign in _OWN_FAULT) else 0.5

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
        return [e for e in self.events if e.pid == event.pid and e.time_ns > event.time_ns]

    def started_later(self, event: Event) -> Exec | None:
        """A program that the same process became afterwards."""
        for other in self.later(event):
            if isinstance(other, Exec) and other.errno is None:
                return other
        return None

    def weigh(self, suspect: Suspect) -> Finding | Dismissal:
        """A finding with its confidence, or a dismissal with the reason."""
        reason = self.aftermath(suspect.event)
        if reason is not None:
            return Dismissal(suspect.event.id, reason)
        confidence = suspect.prior * self.process(suspect.event).weight
        if not suspect.silent:
            confidence *= self.closeness(suspect.event)
            confidence *= self.named(suspect)
        evidence = suspect.evidence or (suspect.event.id,)
        exit_event = self.process(suspect.event).exit
        if exit_event is not None and exit_event.id not in evidence:
            evidence = (*evidence, exit_event.id)
        return Finding(
            suspect.cause, min(confidence, 0.99), suspect.summary, suspect.advice, evidence
        )
