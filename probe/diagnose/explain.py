"""From a case to its explanation: every rule is asked, then the findings are ranked."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator

from probe.diagnose import (
    filesystem,
    inferred,
    interface,
    libraries,
    limits,
    memory,
    network,
    privileges,
    process,
    sandbox,
    seccomp,
    workload,
)
from probe.diagnose.carriers import carrier
from probe.diagnose.case import Case, Dismissal, Explanation, Finding
from probe.diagnose.story import Story, Suspect
from probe.diagnose.weighing import at_most, ceiling, confidence, grounds, weigh
from probe.events import Connect, Dns, Event, Syscall

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
    sandbox.suspects,
    inferred.suspects,
)
CERTAIN_ENOUGH = 0.65  # below it, a finding is an alternative to the work's own fault
_INFERRED_ENOUGH = 0.55  # where nobody sees refusals, to not knowing
ALTERNATIVES = 4
DISMISSALS = 50


def explain(case: Case) -> Explanation:
    """The ranked causes of one span's failure; no verdict when it passed."""
    story = Story(case)
    findings: dict[str, Judged] = {}
    dismissed: list[Dismissal] = []
    for suspect in suspects(story):
        if isinstance(suspect, Dismissal):
            dismissed.append(suspect)
            continue
        judged = _judged(story, suspect)
        if isinstance(judged, Dismissal):
            dismissed.append(judged)
        else:
            _keep_best(findings, judged)
    if case.span.passed:
        return Explanation(None, (), tuple(dismissed[:DISMISSALS]))
    ranked = _ranked(story, findings.values())
    apart = interface.verdict(case) or sandbox.fate(case)
    if apart is not None:
        ranked = [apart, *ranked]
    elif not ranked or ranked[0].confidence < _enough(case):
        rival = ranked[0].confidence if ranked else 0.0
        ranked = [workload.verdict(story, rival), *ranked]
    return Explanation(
        ranked[0], tuple(ranked[1 : 1 + ALTERNATIVES]), tuple(dismissed[:DISMISSALS])
    )


def _enough(case: Case) -> float:
    return _INFERRED_ENOUGH if case.coverage.only_looks else CERTAIN_ENOUGH


@dataclasses.dataclass(frozen=True, slots=True)
class Judged:
    """`score` is not bounded, as a confidence is: of two that are sure, one is surer."""

    finding: Finding
    suspect: Suspect
    score: float


_AT_ONCE_NS = 50_000_000
_LIKELY, _SURE = 0.4, 0.9


def _ranked(story: Story, judged: Iterable[Judged]) -> list[Finding]:
    """The surest first; but a consequence comes behind what it is a consequence of."""
    ranked = sorted(judged, key=lambda one: -one.score)
    found = [one.finding for one in ranked]
    for at, one in enumerate(ranked[1:], 1):
        first = ranked[0].suspect
        if (
            (one.finding.confidence >= _LIKELY and _follows(story, first, one.suspect))
            or _gave_the_end(story, first, one)
            or _was_to_be_made(story, first, one)
            or _was_to_serve(first.event, one.suspect.event)
        ):
            sure = max(found[0].confidence, one.finding.confidence)
            found.insert(0, dataclasses.replace(found.pop(at), confidence=sure))
            break
    return found


def _gave_the_end(story: Story, suspect: Suspect, reason: Judged) -> bool:
    """Whether a process below was refused something, and later its parent something else, of
    which that told and ended."""
    below, above = story.process(suspect.event), story.process(reason.suspect.event)
    root = story.tree.process(story.tree.root)
    return (
        reason.finding.confidence >= _SURE
        and reason.finding.cause not in _OF_OTHERS
        and not _follows(story, reason.suspect, suspect)
        and above in story.tree.ancestors(below.pid)[1:]
        and reason.suspect.event.time_ns > below.end_ns
        and above.status == root.status != below.status
    )


def _follows(story: Story, suspect: Suspect, reason: Suspect) -> bool:
    """Whether one is what becomes of the other: patience lost, or a service that is away.

    What somebody was waiting for comes before who lost patience; what ended a service
    inside the sandbox before that it is not there.
    """
    if suspect.cause == "limit.killed":
        return reason.insisted or reason.event.pid in suspect.killed
    if not (isinstance(suspect.event, Connect) and suspect.event.is_local):
        return False
    # A reset follows upon the death of a peer so closely that either may be told first.
    slack_ns = _AT_ONCE_NS if suspect.cause == "net.reset" else 0
    return (
        not isinstance(reason.event, (Connect, Dns))
        and reason.event.pid != suspect.event.pid
        and reason.event.time_ns < _last_try_ns(story, suspect.event) + slack_ns
    )


def _last_try_ns(story: Story, event: Connect) -> int:
    """When the same service was sought in vain for the last time, by anybody."""
    return max(
        one.time_ns
        for one in story.all(Connect)
        if (one.address, one.port, one.errno) == (event.address, event.port, event.errno)
    )


def _was_to_serve(event: Event, reason: Event) -> bool:
    """Whether it was at this address that a server could not be had."""
    return (
        isinstance(event, Connect)
        and isinstance(reason, Syscall)
        and reason.syscall == "bind"
        and reason.port == event.port
        and event.address in (reason.detail or "")
    )


# What is often only how a failure below is noticed.
_OF_OTHERS = frozenset({"limit.killed", "fs.missing", "fs.not_persisted"})
_OF_WHAT_IS_MISSING = frozenset({"fs.missing", "fs.not_persisted", "exec.not_found"})


def _was_to_be_made(story: Story, suspect: Suspect, reason: Judged) -> bool:
    """What is missing is what the other one's program was to make, and failed.

    A relative path is the work's own, so whoever likely failed before may have been to make it.
    """
    maker = story.process(reason.suspect.event)
    if suspect.cause not in _OF_WHAT_IS_MISSING or not maker.failed:
        return False
    if maker.end_ns >= story.tree.end_ns(suspect.event.pid):
        return False
    made = story.flows.products(maker)
    if any(os.path.basename(name) in made for name in suspect.mentions):
        return True
    own = suspect.cause == "fs.missing" and not any(map(os.path.isabs, suspect.mentions[:1]))
    return own and reason.finding.confidence >= _LIKELY


def suspects(story: Story) -> Iterator[Suspect | Dismissal]:
    """What the rules suspect, and what they clear at once."""
    for rule in RULES:
        yield from rule(story)


def cleared(story: Story, suspect: Suspect) -> str | None:
    """Why it did not matter, where that is proven; None where it is to be weighed."""
    reason = story.aftermath(suspect.event)
    return None if reason is None or carrier(story, suspect) is not None else reason


def _judged(story: Story, suspect: Suspect) -> Judged | Dismissal:
    """A finding with its confidence, or a dismissal with the reason."""
    reason = cleared(story, suspect)
    if reason is not None:
        return Dismissal(suspect.event.id, reason)
    score = at_most(weigh(grounds(story, suspect)), ceiling(story, suspect))
    evidence = suspect.evidence or (suspect.event.id,)
    exit_event = story.process(suspect.event).exit
    if exit_event is not None and exit_event.id not in evidence:
        evidence = (*evidence, exit_event.id)
    finding = Finding(suspect.cause, confidence(score), suspect.summary, suspect.advice, evidence)
    return Judged(finding, suspect, score)


def _keep_best(findings: dict[str, Judged], judged: Judged) -> None:
    """One finding a cause: what happened again is not another cause."""
    cause = judged.finding.cause
    if cause not in findings or judged.score >= findings[cause].score:
        findings[cause] = judged
