"""Why tests failed: one of them, or a whole run's grouped by cause."""

from __future__ import annotations

import difflib
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from collector import run as runs
from collector.match import TIME
from collector.outcomes.outcome import PASSED, SKIPPED
from collector.run import RUNNING, Test
from collector.store import Store
from collector.test_id import canonical
from probe import report
from probe.diagnose import Case, Explanation, Finding, explain
from probe.diagnose.background import Background, background
from probe.diagnose.case import make_case
from probe.events import JsonObject
from probe.problem import Problem

SCHEMA_ID = "collector.explanation/1"
_GUESS = 0.7  # how sure sandbox and time alone are of whose a span is
_SEPARATING = 10  # features that an overview names
_NAMED = 5  # runs or tests that an error message names


@dataclass(frozen=True, slots=True)
class Explained:
    """What an overview keeps of a test's report."""

    test: str
    verdict: JsonObject


@dataclass(frozen=True, slots=True)
class Group:
    """Failing tests with the same cause, the surest first."""

    cause: str
    tests: tuple[Explained, ...]

    @property
    def verdict(self) -> JsonObject:
        """The surest one, which speaks for all."""
        return self.tests[0].verdict

    @property
    def alike(self) -> int:
        """How many others have a summary of their own, because they name another process."""
        summary = self.verdict["summary"]
        return sum(test.verdict["summary"] != summary for test in self.tests)

    def as_json(self) -> JsonObject:
        verdict = self.verdict
        return {
            **{name: verdict[name] for name in ("cause", "layer", "primitive", "summary")},
            "advice": verdict["advice"],
            "count": len(self.tests),
            "tests": [one.test for one in self.tests],
        }


@dataclass(frozen=True, slots=True)
class Separating:
    """A feature that failing tests show and passing ones do not, beyond chance."""

    feature: str
    suspicion: float  # Ochiai's coefficient
    failing: int  # tests that show it
    passing: int

    def as_json(self) -> JsonObject:
        return {
            "feature": self.feature,
            "suspicion": round(self.suspicion, 3),
            "failing": self.failing,
            "passing": self.passing,
        }


@dataclass(frozen=True, slots=True)
class Overview:
    """A whole run, the largest group first.

    `skips_unknown`: among those that passed are tests of which only the probe told, and
    a span does not tell a skipped test from one that passed. `guessed`: failing tests whose
    spans are known by sandbox and time alone.
    """

    run: str
    passed: int
    skipped: int
    running: int
    groups: tuple[Group, ...]
    skips_unknown: bool = False
    guessed: int = 0
    separating: tuple[Separating, ...] = ()

    @property
    def failed(self) -> int:
        return sum(len(group.tests) for group in self.groups)

    def as_json(self) -> JsonObject:
        """Without the reports, which are not kept."""
        return {
            "schema": SCHEMA_ID,
            "run": self.run,
            "passed": self.passed,
            "skipped": self.skipped,
            "running": self.running,
            "failed": self.failed,
            "groups": [group.as_json() for group in self.groups],
            "separating": [one.as_json() for one in self.separating],
        }


def choose_run(store: Store, run: str | None) -> str:
    """The named run, or the one that was begun last. Problem where there is none."""
    known = store.runs(_NAMED)
    if not known:
        raise Problem("the database knows no run", "stream to it with probe run --collector")
    if run is None:
        return known[0]
    if not store.has_run(run):
        raise Problem(
            f"no run {run!r}", f"known, the latest first: {', '.join(map(shlex.quote, known))}"
        )
    return run


def overview(
    store: Store, run: str, take: Callable[[JsonObject], object] | None = None
) -> Overview:
    """Every failing test of the run, explained and grouped.

    `take` gets each report, which is not kept: a run may hold more than fits into memory.
    """
    tests = runs.load(store, run).values()
    around = _background(tests)
    groups: dict[str, list[Explained]] = defaultdict(list)
    for test in tests:
        if test.failed:
            case, found = _explained(store, run, test, around)
            assert found.verdict is not None, "what failed has a verdict"
            groups[found.verdict.cause].append(Explained(test.id, found.verdict.as_json()))
            if take is not None:
                take(_report(test, case, found))
    return Overview(
        run,
        passed=sum(test.outcome == PASSED for test in tests),
        skipped=sum(test.outcome == SKIPPED for test in tests),
        running=sum(test.outcome == RUNNING for test in tests),
        groups=tuple(
            Group(cause, tuple(sorted(found, key=_surest_first)))
            for cause, found in sorted(groups.items(), key=lambda item: -len(item[1]))
        ),
        skips_unknown=any(test.perhaps_skipped for test in tests),
        guessed=sum(test.failed and test.match == TIME for test in tests),
        separating=tuple(
            Separating(feature, around.suspicion(feature), *around.counts[feature])
            for feature in around.separating()[:_SEPARATING]
        ),
    )


def verdicts(store: Store, run: str, tests: Iterable[Test]) -> dict[str, JsonObject]:
    """Of the failing ones among a run's tests, by their ids."""
    every = list(tests)
    around = _background(every)
    found = {}
    for test in every:
        if test.failed:
            _, explained = _explained(store, run, test, around)
            assert explained.verdict is not None, "what failed has a verdict"
            found[test.id] = explained.verdict.as_json()
    return found


def each(store: Store, run: str) -> Iterator[tuple[Test, JsonObject | None]]:
    """Every test of a run; those that failed with their reports, of which none is kept."""
    tests = runs.load(store, run).values()
    around = _background(tests)
    for test in tests:
        explained = _explained(store, run, test, around) if test.failed else None
        yield test, _report(test, *explained) if explained else None


def _background(tests: Iterable[Test]) -> Background:
    """What failing and passing tests show, of those that a probe saw."""
    over = [test for test in tests if test.outcome not in (SKIPPED, RUNNING)]
    seen = [test for test in over if test.deciding is not None]
    return background(
        (test.features for test in seen if test.failed),
        (test.features for test in seen if not test.failed),
    )


def of_test(store: Store, run: str, name: str) -> JsonObject:
    """The report of one test. Problem where the run has no such test or it was skipped."""
    tests = runs.load(store, run)
    test = _find(tests, run, name)
    if test.outcome == SKIPPED:
        raise Problem(f"{test.id} was skipped in run {run!r}", "there is nothing to explain")
    if test.outcome == RUNNING:
        raise Problem(f"{test.id} in run {run!r} is still running", "ask again when it has ended")
    return _report(test, *_explained(store, run, test, _background(tests.values())))


def _find(tests: dict[str, Test], run: str, name: str) -> Test:
    """By any spelling of its id, or by the end of it where only one test ends so."""
    key = canonical(name)
    if key in tests:
        return tests[key]
    ending = [test for known, test in tests.items() if known.endswith("." + key)]
    if len(ending) == 1:
        return ending[0]
    near = [tests[known].id for known in difflib.get_close_matches(key, tests, _NAMED, 0.4)]
    named = [test.id for test in ending[:_NAMED]] or near or [t.id for t in tests.values()][:_NAMED]
    raise Problem(f"no test {name!r} in run {run!r}", f"did you mean: {', '.join(named)}")


def _surest_first(explained: Explained) -> tuple[float, str]:
    return -explained.verdict["confidence"], explained.test


def _explained(store: Store, run: str, test: Test, around: Background) -> tuple[Case, Explanation]:
    span, observation = test.span(run), test.deciding
    if observation is None:
        case = Case(span, (), test.coverage)
        return case, Explanation(_unseen(run, test) if test.failed else None)
    case = make_case(
        span,
        store.events(span),
        test.coverage,
        observation.losses,
        around,
        test.sandbox,
        test.exchange,
    )
    found = explain(case)
    return case, _guessed(found) if test.match == TIME else found


def _report(test: Test, case: Case, found: Explanation) -> JsonObject:
    """With `match`: how the span is known to be the test's; null where nobody had to know."""
    return {**report.build(case, found), "match": test.match}


def _guessed(found: Explanation) -> Explanation:
    """No finding is surer than that the span is the test's."""
    findings = [*([found.verdict] if found.verdict else []), *found.alternatives]
    less = [replace(one, confidence=one.confidence * _GUESS) for one in findings]
    verdict = less.pop(0) if found.verdict else None
    return replace(found, verdict=verdict, alternatives=tuple(less))


def _unseen(run: str, test: Test) -> Finding:
    if test.exchange is not None and test.exchange.error is not None:
        return Finding(
            "interface.not_delivered",
            0.8,
            f"the call of {test.id} never reached the sandbox: no process was started for it",
            "see the log of what stands before the sandbox, and whether it was let in",
        )
    names = f"--test {shlex.quote(test.id)} --run {shlex.quote(run)}"
    return Finding(
        "unknown",
        0.5,
        f"no probe reported {test.id}, so nothing is known of it but its outcome",
        f"run it under: probe run {names} --collector ADDR -- COMMAND",
    )
