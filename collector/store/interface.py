"""What every store can do. Its methods may be called from any thread."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from collector.outcomes import Outcome
from probe.coverage import Coverage, Losses
from probe.events import Event
from probe.problem import Problem
from probe.span import Span

# An event as databases keep it, made by rows.event_row: sequence, span, kind, time_ns, message.
EventRow = tuple[int, int, str, int, bytes]
LIVE_NS = 60 * 1_000_000_000  # a sandbox that was heard in this time is there


@dataclass(frozen=True, slots=True)
class Hello:
    """A probe that came. `clock_offset_ns`: its clock minus the collector's."""

    sandbox: str
    boot: str
    version: str
    coverage: Coverage
    clock_offset_ns: int


@dataclass(frozen=True, slots=True)
class Observation:
    """A span with what its probe could see of it. `clock_offset_ns`: as in its probe's Hello.

    `last_heard_ns`: when its boot of the sandbox was last heard, by a collector's clock.
    `next_boot`: the one that came after it, if any.
    """

    span: Span
    coverage: Coverage
    losses: Losses
    clock_offset_ns: int = 0
    last_heard_ns: int = 0
    next_boot: str | None = None


@dataclass(frozen=True, slots=True)
class Delivery:
    """A batch of one probe. `spans` come with their item's number; `last` is the last item's.

    One without items says that the probe is there. `clock_offset_ns`: as in Hello, where it
    is known better since then.
    """

    sandbox: str
    boot: str
    last: int
    events: tuple[EventRow, ...] = ()
    spans: tuple[tuple[int, Observation], ...] = ()
    clock_offset_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Status:
    """What lies in a database. Times in nanoseconds since the epoch by the collectors' clocks.

    `live`: sandboxes heard in the last minute. `clock_offset_ns`: the greatest among those.
    `size`: bytes, with indexes. `first_heard_ns` and `last_heard_ns` are None in an empty one.
    """

    database: str
    schema: int
    size: int
    sandboxes: int
    live: int
    runs: int
    spans: int
    outcomes: int
    first_heard_ns: int | None
    last_heard_ns: int | None
    clock_offset_ns: int


@dataclass(frozen=True, slots=True)
class Pruned:
    """How many were removed; the events of a dropped partition are not counted one by one."""

    sandboxes: int = 0
    runs: int = 0
    spans: int = 0
    events: int = 0
    partitions: int = 0

    def plus(self, other: Pruned) -> Pruned:
        return Pruned(
            self.sandboxes + other.sandboxes,
            self.runs + other.runs,
            self.spans + other.spans,
            self.events + other.events,
            self.partitions + other.partitions,
        )


class Away(Problem):
    """The database cannot be reached just now; it may come."""


class Ingesting(Protocol):
    """What takes what probes send. Every method raises Problem when the database cannot do it."""

    @property
    def writers(self) -> int:
        """How many calls of `add` at once are of use; each thread may call it."""

    def greet_all(self, hellos: Sequence[Hello]) -> list[int]:
        """Remembers the probes; of each the highest item number that is committed, 0 for none."""

    def add(self, deliveries: Sequence[Delivery]) -> None:
        """Commits all of them or none. Events that are already there stay as they are.

        Problem too for a probe that was pruned since it was greeted: it has to greet again.
        """


class Store(Ingesting, Protocol):
    """All of it. Every method raises Problem when the database cannot do it."""

    def greet(self, hello: Hello) -> int:
        """One of greet_all."""

    def add_outcomes(self, run: str, outcomes: Iterable[Outcome]) -> None:
        """Commits all of them or none. The newer outcome of a test replaces the older."""

    def runs(self, limit: int) -> list[str]:
        """Names of runs, the one that was begun last first."""

    def has_run(self, run: str) -> bool:
        """Whether anything is known of the run."""

    def observations(self, run: str) -> list[Observation]:
        """The spans of a run in the order in which they began."""

    def outcomes(self, run: str) -> list[Outcome]:
        """The imported outcomes of a run, by test."""

    def events(self, span: Span) -> list[Event]:
        """The events of a span in order of time."""

    def status(self) -> Status:
        """Cheap enough to be asked every few seconds."""

    def prune(self, before_ns: int) -> Pruned:
        """Removes sandboxes that were not heard since, and runs begun before that have no span.

        In steps, each a transaction of its own, so that probes can deliver in between; what
        was broken off is finished by the next one.
        """

    def prune_run(self, run: str) -> Pruned:
        """Removes a run: its spans with their events, and its outcomes."""

    def backup(self, path: str) -> None:
        """Copies the database, as it is at one instant, into a new file while others write."""

    def close(self) -> None:
        """Nothing may be called after it."""
