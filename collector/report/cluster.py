"""Failures with one explanation: the same cause, and the same thing to do about it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from collector.report.timeline import Timeline
from probe.events import JsonObject

FULL = 2000  # tests that a page shows in full
LEAST = 5  # of each cluster, as long as there is a larger one to take from
SHOWN = 300  # clusters, the largest

# Sizes, numbers, random names and cgroups are a test's own, for most have a sandbox each;
# addresses, ports and versions are not.
_OWN = re.compile(
    r"(?P<kept>\d+(?:\.\d+)+(?!\.?\d| ?[KMGT]?i?B)(?::\d+)?|:\d+\b)"
    r"|(?<=memory limit of )/\S+|(?<=pids\.max of )/\S+"
    r"|\d+(?:\.\d+)? ?(?:[KMGT]i)?B\b|\b(?=[a-f]*\d)[0-9a-f]{8,}\b|\d+"
)


@dataclass(frozen=True, slots=True)
class Other:
    """A cause that is less likely."""

    cause: str
    confidence: float
    summary: str


@dataclass(frozen=True, slots=True)
class Detail:
    """A failing test in full. Texts are escaped, and of a bounded length."""

    id: str
    application: str
    domain: str
    outcome: str
    ended: str
    command: str
    sandbox: str
    started_at: str
    confidence: float
    summary: str
    message: str
    others: tuple[Other, ...]
    blind: tuple[str, ...]  # the senses that did not see everything, with the reason
    lost: int
    guessed: bool  # the span is known by sandbox and time alone
    timeline: Timeline


@dataclass(slots=True)
class Cluster:
    """`verdict` is the surest one's, which speaks for all; `tests` those shown in full."""

    verdict: JsonObject
    count: int = 0
    sure: float = 0.0  # confidence, of all tests together
    tests: list[Detail] = field(default_factory=list)

    @property
    def cause(self) -> str:
        return str(self.verdict["cause"])

    @property
    def confidence(self) -> float:
        return self.sure / self.count

    def add(self, verdict: JsonObject) -> None:
        if verdict["confidence"] > self.verdict["confidence"]:
            self.verdict = verdict
        self.count += 1
        self.sure += verdict["confidence"]


class Clusters:
    """Grows with each failing test. Holds FULL tests in full at most, and some of each cluster."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], Cluster] = {}
        self._full = 0
        self._is_settled = False  # no cluster has more than LEAST, so none gives way any more

    def add(self, verdict: JsonObject) -> Cluster:
        """Counts one test; the cluster that it belongs to."""
        key = verdict["cause"], alike(verdict["advice"])
        cluster = self._found.setdefault(key, Cluster(verdict))
        cluster.add(verdict)
        return cluster

    def make_room(self, cluster: Cluster) -> bool:
        """Whether the cluster may hold one more; a small one may at the expense of the largest."""
        if self._full < FULL:
            self._full += 1
            return True
        if self._is_settled or len(cluster.tests) >= LEAST:
            return False
        largest = max(self._found.values(), key=lambda one: len(one.tests))
        self._is_settled = len(largest.tests) <= LEAST
        if not self._is_settled:
            largest.tests.pop()
        return not self._is_settled

    @property
    def largest_first(self) -> tuple[Cluster, ...]:
        return tuple(sorted(self._found.values(), key=lambda one: (-one.count, one.cause)))


def alike(words: str) -> str:
    """Advice without what is a test's own."""
    return _OWN.sub(lambda found: found["kept"] or "#", words)
