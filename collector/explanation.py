"""Why tests failed: one of them, or a whole run's grouped by cause."""

from __future__ import annotations

import difflib
import shlex
from collections import defaultdict
from dataclasses import dataclass

from collector import run as runs
from collector.outcomes.outcome import PASSED, SKIPPED
from collector.run import Test
from collector.store import Store
from collector.test_id import canonical
from probe import report
from probe.coverage import blind
from probe.diagnose import Case, Explanation, Finding, explain
from probe.diagnose.case import make_case
from probe.events import JsonObject
from probe.problem import Problem

SCHEMA_ID = "collector.explanation/1"
_NAMED = 5  # runs or tests that an error message names


@dataclass(frozen=True, slots=True)
class Group:
    """Failing tests with the same cause: their reports, the surest first."""

    cause: str
    reports: tuple[JsonObject, ...]

    @property
    def verdict(self) -> JsonObject:
        """The surest one, which speaks for all."""
        verdict: JsonObject = self.reports[0]["verdict"]
        return verdict

    @property
    def alike(self) -> int:
        """How many others have a summary of their own, because they name another process."""
        summary = self.verdict["summary"]
        return sum(report["verdict"]["summary"] != summary for report in self.reports)

    def as_json(self) -> JsonObject:
        verdict = self.verdict
        return {
            **{name: verdict[name] for name in ("cause", "layer", "primitive", "summary")},
            "advice": verdict["advice"],
            "count": len(self.reports),
            "tests": [one["span"]["test"] for one in self.reports],
        }


@dataclass(frozen=True, slots=True)
class Overview:
    """A whole run, the largest group first.

    `skips_unknown`: among those that passed are tests of which only the probe told, and
    a span does not tell a skipped test from one that passed.
    """

    run: str
    passed: int
    skipped: int
    groups: tuple[Group, ...]
    skips_unknown: bool = False

    @property
    def failed(self) -> int:
        return sum(len(group.reports) for group in self.groups)

    def as_json(self) -> JsonObject:
        return {
            "schema": SCHEMA_ID,
            "run": self.run,
            "passed": self.passed,
            "skipped": self.skipped,
            "failed": self.failed,
            "groups": [group.as_json() for group in self.groups],
            "reports": [one for group in self.groups for one in group.reports],
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


def overview(store: Store, run: str) -> Overview:
    """Every failing test of the run, explained and grouped."""
    tests = runs.load(store, run).values()
    groups: dict[str, list[JsonObject]] = defaultdict(list)
    for test in tests:
        if test.failed:
            explained = _report(store, run, test)
            groups[explained["verdict"]["cause"]].append(explained)
    return Overview(
        run,
        passed=sum(test.outcome == PASSED for test in tests),
        skipped=sum(test.outcome == SKIPPED for test in tests),
        groups=tuple(
            Group(cause, tuple(sorted(found, key=_surest_first)))
            for cause, found in sorted(groups.items(), key=lambda item: -len(item[1]))
        ),
        skips_unknown=any(test.perhaps_skipped for test in tests),
    )


def of_test(store: Store, run: str, name: str) -> JsonObject:
    """The report of one test. Problem where the run has no such test or it was skipped."""
    test = _find(runs.load(store, run), run, name)
    if test.outcome == SKIPPED:
        raise Problem(f"{test.id} was skipped in run {run!r}", "there is nothing to explain")
    return _report(store, run, test)


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


def _surest_first(explained: JsonObject) -> tuple[float, str]:
    return -explained["verdict"]["confidence"], explained["span"]["test"]


def _report(store: Store, run: str, test: Test) -> JsonObject:
    span, observation = test.span(run), test.deciding
    if observation is None:
        case = Case(span, (), blind("no probe reported this test"))
        return report.build(case, Explanation(_unseen(run, test) if test.failed else None))
    case = make_case(span, store.events(span), observation.coverage, observation.losses)
    return report.build(case, explain(case))


def _unseen(run: str, test: Test) -> Finding:
    names = f"--test {shlex.quote(test.id)} --run {shlex.quote(run)}"
    return Finding(
        "unknown",
        0.5,
        f"no probe reported {test.id}, so nothing is known of it but its outcome",
        f"run it under: probe run {names} --collector ADDR -- COMMAND",
    )
