"""One run: what the harness said of each test beside what the probes saw of it."""

from __future__ import annotations

import dataclasses
import shlex
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from collector import match
from collector.outcomes import Outcome
from collector.outcomes.outcome import PASSED, SKIPPED
from collector.store import Observation, Store
from collector.store.interface import LIVE_NS
from collector.test_id import canonical
from probe.coverage import Coverage, blind
from probe.diagnose import SandboxState
from probe.exchange import Exchange
from probe.span import Span

RUNNING = "running"  # the outcome of a test that has none yet


@dataclass(frozen=True, slots=True)
class Test:
    """`observations` are its spans in order of time: retries, or several commands.

    `match` says how they are known to be its own (collector.match); None where no harness
    told of the test, or no probe.
    """

    __test__ = False  # not one of pytest's

    id: str
    reported: Outcome | None
    observations: tuple[Observation, ...] = ()
    match: str | None = None

    @property
    def outcome(self) -> str:
        """The harness's word counts; without one, a test fails with any of its commands."""
        if self.reported is not None:
            return self.reported.outcome
        deciding = self.deciding
        if deciding is None:
            return PASSED
        return RUNNING if self._is_running(deciding) else deciding.span.outcome

    @staticmethod
    def _is_running(observation: Observation) -> bool:
        """Neither it nor its sandbox has come to an end yet."""
        gone = observation.next_boot is not None or _silent_since(observation) is not None
        return observation.span.ended_ns is None and not gone

    @property
    def failed(self) -> bool:
        return self.outcome not in (PASSED, SKIPPED, RUNNING)

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

    @property
    def sandbox(self) -> SandboxState | None:
        """Of the deciding span; None where no probe saw the test."""
        seen = self.deciding
        if seen is None:
            return None
        return SandboxState(_silent_since(seen), seen.next_boot, seen.clock_offset_ns)

    @property
    def exchange(self) -> Exchange | None:
        """What both ends of the call tell of it, if it was one."""
        told = self.reported.exchange if self.reported is not None else None
        seen = self.deciding.span.transfers if self.deciding is not None else ()
        return (told or Exchange()).plus(seen) if told or seen else None

    @property
    def features(self) -> frozenset[str]:
        """Of all its spans."""
        return frozenset(name for one in self.observations for name in one.span.features)

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

    @property
    def coverage(self) -> Coverage:
        """Of the deciding span; a guess at whose it is leaves no exact attribution."""
        if self.deciding is None:
            return blind("no probe reported this test")
        seen = self.deciding.coverage
        return dataclasses.replace(seen, attribution="time") if self.match == match.TIME else seen


def _silent_since(observation: Observation) -> int | None:
    silent = time.time_ns() - observation.last_heard_ns > LIVE_NS
    return observation.last_heard_ns if silent else None


def load(store: Store, run: str) -> dict[str, Test]:
    """Every test of the run by the canonical form of its id."""
    seen: dict[str, list[Observation]] = defaultdict(list)
    for observation in store.observations(run):
        seen[canonical(_name(observation.span))].append(observation)
    matches = match.by_key(store.outcomes(run), seen)
    tests = {one.key: _test(one, seen.pop(one.key, [])) for one in matches}
    tests |= _by_time(tests, [span for spans in seen.values() for span in spans])
    taken = {id(span) for test in tests.values() for span in test.observations}
    for key, spans in seen.items():
        own = tuple(span for span in spans if id(span) not in taken)
        if own:
            tests[key] = Test(_name(own[0].span), None, own)
    return dict(sorted(tests.items()))


def _test(found: match.Match, spans: Sequence[Observation]) -> Test:
    id_ = _name(spans[0].span) if spans else found.outcome.test
    return Test(id_, found.outcome, tuple(spans), found.kind)


def _by_time(tests: dict[str, Test], spans: Sequence[Observation]) -> dict[str, Test]:
    """Those that no span goes by the name of, with the spans of their time."""
    reported = {test.reported.test: key for key, test in tests.items() if test.reported}
    lonely = [test.reported for test in tests.values() if test.reported and not test.match]
    ordered = sorted(spans, key=lambda one: one.span.started_ns)
    return {
        reported[name]: dataclasses.replace(
            tests[reported[name]], observations=tuple(found), match=match.TIME
        )
        for name, found in match.by_time(lonely, ordered).items()
    }


def _name(span: Span) -> str:
    """A command that was run for no named test goes by its own words."""
    return span.test or shlex.join(span.command)


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
