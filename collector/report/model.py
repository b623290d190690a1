"""What the page of a run says, without how it looks: counts, matrices, clusters, timelines."""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from collector import explanation
from collector.match import TIME
from collector.outcomes.outcome import PASSED, SKIPPED
from collector.report.cluster import SHOWN, Cluster, Clusters, Detail, Other, alike
from collector.report.labels import application, domain
from collector.report.matrix import Matrix, matrix
from collector.report.timeline import timeline
from collector.run import RUNNING, Test
from collector.store import Store
from probe.causes import CAUSES
from probe.coverage import SENSES
from probe.events import JsonObject
from probe.terminal import escape, shorten

# The causes that end a sandbox, or are how one comes to its end.
CRASHES = ("sandbox.lost", "sandbox.restarted", "memory.cgroup_oom", "memory.system_oom")
LAYERS = ("sandbox", "interface", "workload", "unknown")
_FREEING = ("sandbox", "interface")  # layers whose advice is about something else than the work
_APPLICATIONS, _DOMAINS, _PRIMITIVES, _CAUSES = 12, 24, 16, 20  # of a matrix
_CRASHED = 20  # sandboxes that are named
_ADVICE = 10
_REASONS = 3  # why a sense was shut
_NAMED = 5  # tests of a sandbox that crashed
_OTHERS = 3  # alternatives of a verdict
_NAME, _TEXT, _MESSAGE = 200, 600, 2000  # characters

_CAUSE_ORDER = {cause: number for number, cause in enumerate(CAUSES)}
_PRIMITIVE_ORDER = {
    primitive: number
    for number, primitive in enumerate(dict.fromkeys(one.primitive for one in CAUSES.values()))
}


@dataclass(frozen=True, slots=True)
class Advice:
    """One step, and how many tests it would free."""

    words: str
    frees: int
    confidence: float
    causes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Crash:
    """A sandbox that was killed in, lost or started anew, and the tests that it took along."""

    sandbox: str
    cause: str
    count: int
    tests: tuple[str, ...]
    summary: str


@dataclass(frozen=True, slots=True)
class Sense:
    """Of all tests that ran: how many it saw fully, in part and not at all."""

    name: str
    full: int
    partial: int
    none: int
    lost: int  # events
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """Everything that the page of a run says."""

    run: str
    passed: int
    skipped: int
    running: int
    skips_unknown: bool
    layers: dict[str, int]
    primitives: dict[str, int]  # of the sandbox's layer alone
    causes: dict[str, int]
    by_application: Matrix
    by_domain: Matrix
    clusters: tuple[Cluster, ...]  # the largest first
    clusters_left_out: int
    advice: tuple[Advice, ...]
    crashes: tuple[Crash, ...]
    crashed: int  # tests, also those of sandboxes that are not named
    senses: tuple[Sense, ...]
    engines: dict[str, int]
    unseen: int  # tests that no probe saw
    guessed: int  # failing tests whose spans are known by sandbox and time alone

    @property
    def failed(self) -> int:
        return sum(self.layers.values())

    @property
    def ran(self) -> int:
        return self.failed + self.passed

    @property
    def left_out(self) -> int:
        """Failing tests that are counted, but not shown in full."""
        return self.failed - sum(len(cluster.tests) for cluster in self.clusters)


def build(store: Store, run: str) -> Page:
    """The page of a run that the store knows."""
    return gather(run, explanation.each(store, run))


def gather(run: str, tests: Iterable[tuple[Test, JsonObject | None]]) -> Page:
    """From every test of a run, those that failed with their reports."""
    outcomes: Counter[str] = Counter()
    found = _Found()
    watched = _Watched()
    skips_unknown = False
    for test, report in tests:
        skips_unknown |= test.perhaps_skipped
        if report is None:
            outcomes[test.outcome] += 1
        else:
            found.add(test, report)
        if test.outcome not in (SKIPPED, RUNNING):
            found.ran(test)
            watched.add(test, report)
    clusters = found.clusters.largest_first
    return Page(
        run=escape(run),
        passed=outcomes[PASSED],
        skipped=outcomes[SKIPPED],
        running=outcomes[RUNNING],
        skips_unknown=skips_unknown,
        layers={layer: found.layers[layer] for layer in LAYERS},
        primitives=dict(found.primitives.most_common()),
        causes=dict(found.causes.most_common()),
        by_application=matrix(
            found.by_application,
            found.applications,
            _APPLICATIONS,
            _PRIMITIVES,
            lambda name: (_PRIMITIVE_ORDER[name], name),
        ),
        by_domain=matrix(
            found.by_domain,
            found.domains,
            _DOMAINS,
            _CAUSES,
            lambda name: (_CAUSE_ORDER[name], name),
        ),
        clusters=clusters[:SHOWN],
        clusters_left_out=len(clusters[SHOWN:]),
        advice=_advice(clusters),
        crashes=tuple(found.crashes()),
        crashed=sum(found.causes[cause] for cause in CRASHES),
        senses=watched.senses(),
        engines=dict(watched.engines.most_common()),
        unseen=watched.unseen,
        guessed=found.guessed,
    )


class _Found:
    """The failing tests, while a run is read."""

    def __init__(self) -> None:
        self.clusters = Clusters()
        self.layers: Counter[str] = Counter()
        self.primitives: Counter[str] = Counter()
        self.causes: Counter[str] = Counter()
        self.by_application: list[tuple[str, str]] = []
        self.by_domain: list[tuple[str, str]] = []
        self.applications: Counter[str] = Counter()
        self.domains: Counter[str] = Counter()
        self.guessed = 0
        self._crashes: dict[tuple[str, str], list[str]] = defaultdict(list)
        self._summaries: dict[tuple[str, str], str] = {}

    def ran(self, test: Test) -> None:
        self.applications[application(test)] += 1
        self.domains[domain(test)] += 1

    def add(self, test: Test, report: JsonObject) -> None:
        verdict = _verdict(report["verdict"])
        cause = verdict["cause"]
        self.layers[verdict["layer"]] += 1
        self.causes[cause] += 1
        if verdict["layer"] == "sandbox":
            self.primitives[verdict["primitive"]] += 1
        self.by_application.append((application(test), verdict["primitive"]))
        self.by_domain.append((domain(test), cause))
        self.guessed += test.match == TIME
        cluster = self.clusters.add(verdict)
        if self.clusters.make_room(cluster):
            cluster.tests.append(_detail(test, report, verdict))
        if cause in CRASHES:
            key = escape(report["span"]["sandbox"]), cause
            self._crashes[key].append(_text(test.id, _NAME))
            self._summaries.setdefault(key, verdict["summary"])

    def crashes(self) -> Iterator[Crash]:
        ordered = sorted(self._crashes.items(), key=lambda item: (-len(item[1]), item[0]))
        for (sandbox, cause), tests in ordered[:_CRASHED]:
            summary = self._summaries[sandbox, cause]
            yield Crash(sandbox, cause, len(tests), tuple(tests[:_NAMED]), summary)


class _Watched:
    """What could be seen of the tests that ran, while a run is read."""

    def __init__(self) -> None:
        self.engines: Counter[str] = Counter()
        self.unseen = 0
        self._states: dict[str, Counter[str]] = {sense: Counter() for sense in SENSES}
        self._lost: Counter[str] = Counter()

    def add(self, test: Test, report: JsonObject | None) -> None:
        if test.deciding is None:
            self.unseen += 1
            return
        coverage = test.coverage
        self.engines[_text(coverage.engine, _NAME)] += 1
        for sense, state in coverage.senses.items():
            self._states.setdefault(sense, Counter())[state] += 1
        for observation in test.observations:
            if report is not None and observation is test.deciding:
                self._lost.update(report["lost"]["by_sense"])  # with those that events tell of
            else:
                self._lost.update(observation.losses.by_sense)

    def senses(self) -> tuple[Sense, ...]:
        return tuple(
            Sense(
                _text(name, _NAME),
                full=states["full"],
                partial=_count(states, "partial"),
                none=_count(states, "none"),
                lost=self._lost[name],
                reasons=tuple(
                    _text(state, _TEXT) for state, _ in states.most_common() if state != "full"
                )[:_REASONS],
            )
            for name, states in ((one, self._states.get(one, Counter())) for one in self._names())
        )

    def _names(self) -> list[str]:
        return [*self._states, *sorted(self._lost.keys() - self._states.keys())]


def _count(states: Counter[str], kind: str) -> int:
    return sum(count for state, count in states.items() if state.startswith(kind))


def _verdict(verdict: JsonObject) -> JsonObject:
    """With words that may be shown."""
    return {**verdict, **{name: _text(verdict[name], _TEXT) for name in ("summary", "advice")}}


def _detail(test: Test, report: JsonObject, verdict: JsonObject) -> Detail:
    span, coverage = report["span"], report["coverage"]
    blind = (f"{name}: {state}" for name, state in coverage["senses"].items() if state != "full")
    message = test.span(span["run"]).message
    return Detail(
        id=_text(test.id, _NAME),
        application=application(test),
        domain=domain(test),
        outcome=report["outcome"],
        ended=_ended(span),
        command=_text(shlex.join(span["command"]), _TEXT),
        sandbox=_text(span["sandbox"], _NAME),
        started_at=span["started_at"] if test.deciding is not None else "",
        confidence=verdict["confidence"],
        summary=verdict["summary"],
        message=_lines(message or "", _MESSAGE),
        others=tuple(
            Other(one["cause"], one["confidence"], _text(one["summary"], _TEXT))
            for one in report["alternatives"][:_OTHERS]
        ),
        blind=tuple(_text(state, _TEXT) for state in blind) if test.deciding is not None else (),
        lost=report["lost"]["total"],
        guessed=test.match == TIME,
        timeline=timeline(report),
    )


def _ended(span: JsonObject) -> str:
    if span["signal"]:
        return _text(span["signal"], _NAME)
    return "" if span["exit_code"] is None else f"exit {span['exit_code']}"


def _advice(clusters: tuple[Cluster, ...]) -> tuple[Advice, ...]:
    """What would free the most tests first; nothing of what only the work itself can mend."""
    groups: dict[str, list[Cluster]] = defaultdict(list)
    for cluster in clusters:
        if cluster.verdict["layer"] in _FREEING and cluster.verdict["advice"]:
            groups[alike(cluster.verdict["advice"])].append(cluster)
    ranked = [
        Advice(
            max(group, key=lambda one: one.count).verdict["advice"],
            frees=sum(one.count for one in group),
            confidence=sum(one.sure for one in group) / sum(one.count for one in group),
            causes=tuple(sorted({one.cause for one in group})),
        )
        for group in groups.values()
    ]
    return tuple(sorted(ranked, key=lambda one: (-one.frees, -one.confidence, one.words)))[:_ADVICE]


def _text(text: str, limit: int) -> str:
    """Workloads choose names and words: no control characters, and not too many of them."""
    return shorten(escape(text), limit)


def _lines(text: str, limit: int) -> str:
    return "\n".join(escape(line) for line in shorten(text.strip(), limit).split("\n"))
