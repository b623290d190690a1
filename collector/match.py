"""Which spans are those of a test that a harness reported, and how that is known.

By the test's id, in any spelling; else by its bare name, where no other test has it; else
by where and when it ran. The last is a guess: whoever shows it has to say so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from collector.outcomes import Outcome
from collector.store import Observation
from collector.test_id import canonical

ID, NAME, TIME = "id", "name", "time"
_TOLERANCE_NS = 100_000_000  # harnesses round, and their clocks are set over the network


@dataclass(frozen=True, slots=True)
class Match:
    """An outcome with the key of the spans that are its own. `kind` is None where none are."""

    outcome: Outcome
    key: str
    kind: str | None


def by_key(outcomes: Sequence[Outcome], seen: Mapping[str, object]) -> list[Match]:
    """Harnesses that run a test by its bare name are met halfway.

    Where an id has no span but the name alone does, and no other test has that name, they
    are the same test.
    """
    named: dict[str, int] = defaultdict(int)
    for outcome in outcomes:
        named[canonical(outcome.name)] += 1
    return [_by_key(outcome, seen, named) for outcome in outcomes]


def _by_key(outcome: Outcome, seen: Mapping[str, object], named: Mapping[str, int]) -> Match:
    key, name = canonical(outcome.test), canonical(outcome.name)
    if key in seen:
        return Match(outcome, key, ID)
    if name in seen and named[name] == 1:
        return Match(outcome, name, NAME)
    return Match(outcome, key, None)


def by_time(
    outcomes: Iterable[Outcome], spans: Sequence[Observation]
) -> dict[str, list[Observation]]:
    """By test, the spans that lie in its time and in no other's, in its sandbox.

    A harness that names no sandbox ran its tests in the only one, if it is the only one.
    Spans are told by the sandbox's clock, which is set right by its measured offset.
    """
    sandboxes = {observation.span.sandbox for observation in spans}
    only = next(iter(sandboxes)) if len(sandboxes) == 1 else None
    windows = [window for outcome in outcomes if (window := _window(outcome, only))]
    found: dict[str, list[Observation]] = defaultdict(list)
    for observation in spans:
        around = [window.test for window in windows if window.holds(observation)]
        if len(around) == 1:
            found[around[0]].append(observation)
    return found


@dataclass(frozen=True, slots=True)
class _Window:
    test: str
    sandbox: str
    began_ns: int
    ended_ns: int

    def holds(self, observation: Observation) -> bool:
        span, offset = observation.span, observation.clock_offset_ns
        if span.sandbox != self.sandbox or span.ended_ns is None:
            return False
        return self.began_ns <= span.started_ns - offset and span.ended_ns - offset <= self.ended_ns


def _window(outcome: Outcome, only_sandbox: str | None) -> _Window | None:
    sandbox = outcome.sandbox or only_sandbox
    if sandbox is None or outcome.started_ns is None or outcome.duration_s is None:
        return None
    ended = outcome.started_ns + int(outcome.duration_s * 1e9)
    return _Window(outcome.test, sandbox, outcome.started_ns - _TOLERANCE_NS, ended + _TOLERANCE_NS)
