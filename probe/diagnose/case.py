"""What goes into an explanation, and what comes out of it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from probe.coverage import Coverage, Losses
from probe.diagnose.background import Background
from probe.diagnose.searches import fold_searches
from probe.events import Event, Exec, JsonObject, Loss, time_text
from probe.exchange import Exchange
from probe.span import Span


@dataclass(frozen=True, slots=True)
class SandboxState:
    """What a collector knows of a span's sandbox, and the sandbox itself cannot.

    `silent_since_ns`: when it was last heard, by the collector's clock; None while it is heard.
    `next_boot`: the boot that came after the span's own. `clock_offset_ns`: the sandbox's clock
    minus the collector's.
    """

    silent_since_ns: int | None = None
    next_boot: str | None = None
    clock_offset_ns: int = 0

    def as_json(self) -> JsonObject:
        since = self.silent_since_ns
        return {
            "silent_since": None if since is None else time_text(since),
            "next_boot": self.next_boot,
            "clock_offset_s": self.clock_offset_ns / 1e9,
        }


@dataclass(frozen=True, slots=True)
class Case:
    """Everything that is known of one span. `events` are its own, in order of time."""

    span: Span
    events: tuple[Event, ...]
    coverage: Coverage
    losses: Losses = field(default_factory=Losses)
    background: Background | None = None  # what the other tests of its run show
    sandbox: SandboxState | None = None
    exchange: Exchange | None = None  # what its client and its server tell of the call


def make_case(
    span: Span,
    events: Iterable[Event],
    coverage: Coverage,
    losses: Losses | None = None,
    background: Background | None = None,
    sandbox: SandboxState | None = None,
    exchange: Exchange | None = None,
) -> Case:
    """A case from a span's events in any order. What was lost on the way is among the losses."""
    ordered = sorted(events, key=lambda event: (event.time_ns, event.sequence))
    lost: Counter[str] = Counter((losses or Losses()).by_sense)
    for event in ordered:
        if isinstance(event, Loss):
            lost[event.sense] += event.count
    folded = tuple(fold_searches(_without_ours(ordered)))
    return Case(span, folded, coverage, Losses(dict(lost)), background, sandbox, exchange)


def _without_ours(events: Iterable[Event]) -> Iterator[Event]:
    """`probe span end` runs inside of the span that it ends, and may replace its very shell."""
    ours: set[int] = set()
    for event in events:
        if isinstance(event, Exec) and event.errno is None:
            words = [os.path.basename(word) for word in event.argv[:4]]
            named = "probe" in words and words[words.index("probe") + 1 :][:1] == ["span"]
            (ours.add if named else ours.discard)(event.pid)
        if event.pid not in ours:
            yield event


@dataclass(frozen=True, slots=True)
class Finding:
    """One possible cause: an id of probe.causes, the events it rests on, and words for it."""

    cause: str
    confidence: float
    summary: str
    advice: str
    evidence: tuple[str, ...] = ()

    def as_json(self) -> JsonObject:
        from probe.causes import CAUSES

        cause = CAUSES[self.cause]
        return {
            "cause": self.cause,
            "layer": cause.layer,
            "primitive": cause.primitive,
            "confidence": round(self.confidence, 3),
            "summary": self.summary,
            "advice": self.advice,
            "evidence": list(self.evidence),
        }


@dataclass(frozen=True, slots=True)
class Dismissal:
    """An event that looks like a cause and is none, with the reason."""

    event: str
    reason: str

    def as_json(self) -> JsonObject:
        return {"event": self.event, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Explanation:
    """`verdict` is None when the span passed."""

    verdict: Finding | None
    alternatives: tuple[Finding, ...] = ()
    dismissed: tuple[Dismissal, ...] = ()
