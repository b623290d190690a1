"""From a case to its explanation: every rule is asked, then the findings are ranked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from probe.diagnose import (
    filesystem,
    libraries,
    limits,
    memory,
    network,
    privileges,
    process,
    seccomp,
    workload,
)
from probe.diagnose.case import Case, Dismissal, Explanation, Finding
from probe.diagnose.story import Story, Suspect

Rule = Callable[[Story], Iterator[Suspect | Dismissal]]

RULES: tuple[Rule, ...] = (
    seccomp.suspects,
    privileges.suspects,
    process.suspects,
    memory.suspects,
    network.suspects,
    filesystem.suspects,
    libraries.suspects,
    limits.suspects,
)
CERTAIN_ENOUGH = 0.4  # below it, a finding is an alternative to the work's own fault
ALTERNATIVES = 4
DISMISSALS = 50


def explain(case: Case) -> Explanation:
    """The ranked causes of one span's failure; no verdict when it passed."""
    story = Story(case)
    findings: dict[str, Finding] = {}
    dismissed: list[Dismissal] = []
    for suspect in _suspects(story):
        judged = suspect if isinstance(suspect, Dismissal) else story.weigh(suspect)
        if isinstance(judged, Dismissal):
            dismissed.append(judged)
        else:
            _keep_best(findings, judged)
    if case.span.passed:
        return Explanation(None, (), tuple(dismissed[:DISMISSALS]))
    ranked = sorted(findings.values(), key=lambda finding: -finding.confidence)
    if not ranked or ranked[0].confidence < CERTAIN_ENOUGH:
        ranked = [workload.verdict(story), *ranked]
    return Explanation(
        ranked[0], tuple(ranked[1 : 1 + ALTERNATIVES]), tuple(dismissed[:DISMISSALS])
    )


def _suspects(story: Story) -> Iterable[Suspect | Dismissal]:
    for rule in RULES:
        yield from rule(story)


def _keep_best(findings: dict[str, Finding], finding: Finding) -> None:
    """One finding a cause and thing: what happened again is not another cause."""
    key = finding.cause
    if key not in findings or finding.confidence >= findings[key].confidence:
        findings[key] = finding
