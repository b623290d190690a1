"""Samples taken in turns, what they say together, and the table that shows it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TypeVar

from bench.testbed import loaded_programs
from probe.terminal import Terminal, escape

Sample = TypeVar("Sample")


@dataclass
class Rounds:
    """How often to take turns, and in how many of them somebody else was listening too."""

    count: int
    shared: int = 0

    def interleave(self, variants: Mapping[str, Callable[[], Sample]]) -> dict[str, list[Sample]]:
        """The samples of each variant, A B C A B C …, so that all meet the same noise.

        The first variant runs once more before, unmeasured, to fill the caches.
        """
        samples: dict[str, list[Sample]] = {name: [] for name in variants}
        next(iter(variants.values()))()
        for _ in range(self.count):
            self.shared += loaded_programs() > 0
            for name, take in variants.items():
                samples[name].append(take())
        return samples

    def note(self) -> list[str]:
        """What a reader must know to believe the numbers."""
        if not self.shared:
            return []
        return [
            f"Before {self.shared} of {self.count} rounds other BPF programs were loaded: "
            "every row may bear their cost too, and the ratios look better than they are."
        ]


def spread(values: Sequence[float], digits: int) -> str:
    """Median, least and most: `2.51 (2.49-2.60)`."""
    middle, least, most = statistics.median(values), min(values), max(values)
    return f"{middle:.{digits}f} ({least:.{digits}f}-{most:.{digits}f})"


def ratios(values: Sequence[float], base: Sequence[float]) -> list[float]:
    """Pair by pair: what the two of a round suffered alike cancels out."""
    return [value / other for value, other in zip(values, base, strict=True)]


def differences(values: Sequence[float], base: Sequence[float]) -> list[float]:
    """Pair by pair, like `ratios`."""
    return [value - other for value, other in zip(values, base, strict=True)]


@dataclass(frozen=True)
class Goal:
    """A limit that the probe means to keep. It is told, never enforced: machines differ."""

    text: str
    value: float
    limit: float

    @property
    def met(self) -> bool:
        return self.value <= self.limit

    def __str__(self) -> str:
        verdict = "met" if self.met else "MISSED"
        return f"goal {verdict}: {self.text} is {self.value:.3g}, at most {self.limit:.3g}"


@dataclass
class Table:
    """One bench's result. The first column names the rows."""

    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    goals: list[Goal]
    samples: Mapping[str, object]
    notes: list[str] = field(default_factory=list)

    def show(self, terminal: Terminal) -> None:
        terminal.line(terminal.style(self.title, "bold"))
        widths = [max(map(len, column)) for column in zip(self.headers, *self.rows, strict=True)]
        for row in (self.headers, *self.rows):
            terminal.line("  ", escape(_aligned(row, widths)))
        for goal in self.goals:
            terminal.line("  ", terminal.style(str(goal), "green" if goal.met else "yellow"))
        for note in self.notes:
            terminal.text(note, "  ", "dim")
        terminal.line()

    def as_json(self) -> dict[str, object]:
        goals = [{**asdict(goal), "met": goal.met} for goal in self.goals]
        return {"title": self.title, "samples": self.samples, "goals": goals, "notes": self.notes}


def _aligned(row: Iterable[str], widths: Iterable[int]) -> str:
    (name, first), *others = zip(row, widths, strict=True)
    return "  ".join([f"{name:<{first}}", *(f"{cell:>{width}}" for cell, width in others)])
