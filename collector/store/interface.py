"""What every store can do. Its methods may be called from any thread."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from collector.outcomes import Outcome
from probe.coverage import Coverage, Losses
from probe.events import Event
from probe.span import Span


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
    """A span with what its probe could see of it."""

    span: Span
    coverage: Coverage
    losses: Losses


@dataclass(frozen=True, slots=True)
class Delivery:
    """A batch of one probe. `spans` come with their item's number; `last` is the last item's."""

    sandbox: str
    boot: str
    last: int
    events: tuple[Event, ...] = ()
    spans: tuple[tuple[int, Observation], ...] = ()


class Store(Protocol):
    """Every method raises Problem when the database cannot do it."""

    def greet(self, hello: Hello) -> int:
        """Remembers the probe; the highest item number that is committed for it, 0 for none."""

    def add(self, deliveries: Sequence[Delivery]) -> None:
        """Commits all of them or none. Events that are already there stay as they are."""

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

    def close(self) -> None:
        """Nothing may be called after it."""
