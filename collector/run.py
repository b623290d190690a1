"""One run: what the harness said of each test beside what the probes saw of it."""

from __future__ import annotations

import dataclasses
import shlex
from collections import defaultdict
from dataclasses import dataclass

from collector.outcomes import Outcome
from collector.outcomes.outcome import PASSED, SKIPPED
from collector.store import Observation, Store
from collector.test_id import canonical
from probe.span import Span


@dataclass(frozen=True, slots=True)
class Test:
    """`observations` are its spans in order of time: retries, or several commands."""

    __test__ = False  # not one of pytest's

    id: str
    reported: Outcome | None
    observations: tuple[Observation, ...] = ()

    @property
    def outcome(self) -> str:
        """The harness's word counts; without one, a test fails with any of its commands."""
        if self.reported is not None:
            return self.reported.outcome
        deciding = self.deciding
        return deciding.span.outcome if deciding is not None else PASSED

    @property
    def failed(self) -> bool:
        return self.outcome not in (PASSED, SKIPPED)

    @property
    def perhaps_skipped(self) -> bool:
        """A test that ran inside of a process, of which no harness has told."""
        deciding = self.deciding
        inside = deciding is not None and not deciding.span.whole_process
        return inside and self.reported is None and self.outcome == PASSED

    @property
    def deciding(self) -> Observation | None:
        """The last span that failed, else the last one."""
        failed = [one for one in self.observations if not one.span.passed]
        candidates = failed or self.observations
        return candidates[-1] if candidates else None

    def span(self, run: str) -> Span:
        """The deciding span with the harness's outcome; a bare one when none was seen.

        The words that the span came with are the exceptions' own; a report's stand in for them.
        """
        observation, reported = self.deciding, self.reported
        span = observation.span if observation is not None else _unseen(run, self.id, reported)
        span = dataclasses.replace(span, test=self.id, outcome=self.outcome)
        if reported is not None:
            span.message = span.message or reported.message
        return span


def load(store: Store, run: str) -> dict[str, Test]:
    """Every test of the run by the canonical form of its id."""
    seen: dict[str, list[Observation]] = defaultdict(list)
    for observation in store.observations(run):
        seen[canonical(_name(observation.span))].append(observation)
    reported = _reported(store.outcomes(run), set(seen))
    tests = {}
    for key in sorted(seen.keys() | reported.keys()):
        observations = tuple(seen.get(key, ()))
        outcome = reported.get(key)
        id_ = _name(observations[0].span) if observations else outcome.test if outcome else key
        tests[key] = Test(id_, outcome, observations)
    return tests


def _name(span: Span) -> str:
    """A command that was run for no named test goes by its own words."""
    return span.test or shlex.join(span.command)


def _reported(outcomes: list[Outcome], seen: set[str]) -> dict[str, Outcome]:
    """Outcomes by the key of the spans that they belong to.

    Harnesses that run a test by its bare name are met halfway: where an id has no span
    but the name alone does, and no other test has that name, they are the same test.
    """
    named: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        named[canonical(outcome.name)].append(outcome)
    reported = {}
    for outcome in outcomes:
        key, name = canonical(outcome.test), canonical(outcome.name)
        by_name = key not in seen and name in seen and len(named[name]) == 1
        reported[name if by_name else key] = outcome
    return reported


def _unseen(run: str, test: str, reported: Outcome | None) -> Span:
    duration_s = (reported.duration_s if reported else None) or 0
    return Span(
        key=0,
        run=run,
        test=test,
        command=(),
        sandbox="",
        boot="",
        pid=0,
        started_ns=0,
        ended_ns=int(duration_s * 1e9),
    )
