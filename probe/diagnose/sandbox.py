"""Rules for the sandbox as a whole: it fell silent, it was started anew, its clock is wrong.

They rest on what a collector knows (SandboxState); inside of a sandbox none of it can be seen.
"""

from __future__ import annotations

from collections.abc import Iterator

from probe.diagnose import words
from probe.diagnose.case import Case, Finding
from probe.diagnose.story import Story, Suspect
from probe.events import Exit, time_text

_TOLERATED_NS = 30_000_000_000  # what leases and freshly made certificates allow for
_BEHIND = (
    *("not yet valid", "not valid yet", "CERT_NOT_YET_VALID", "NotBefore", "in the future"),
    *("used before issued", "not valid before", "issued in the future", "not active yet"),
)
_AHEAD = (
    *("certificate has expired", "CERT_HAS_EXPIRED", "certificate expired", "NotAfter"),
    *("token has expired", "token expired", "TokenExpired", "ExpiredToken", "lease expired"),
    *("request has expired", "signature expired", "signature has expired"),
)
_EITHER = ("clock skew", "TooSkewed", "RequestExpired", "clock is wrong", "system clock")


def fate(case: Case) -> Finding | None:
    """Why nobody said how the span ended, where its sandbox is no longer what it was."""
    span, state = case.span, case.sandbox
    if state is None or span.ended_ns is not None or span.passed:
        return None
    evidence = tuple(event.id for event in case.events[-1:])
    if state.next_boot is not None:
        return Finding(
            "sandbox.restarted",
            0.95,
            f"sandbox {span.sandbox} was started anew while the test ran: "
            f"boot {span.boot} became {state.next_boot}",
            "see in its host's log who restarted it, or why it crashed; then run the test again",
            evidence,
        )
    if state.silent_since_ns is not None:
        return Finding(
            "sandbox.lost",
            0.9,
            f"sandbox {span.sandbox} was last heard at {time_text(state.silent_since_ns)}, "
            "before the test ended",
            "see in its host's log whether it was stopped, crashed or cut off; keep it until "
            "the collector has everything",
            evidence,
        )
    return None


def suspects(story: Story) -> Iterator[Suspect]:
    """A clock that is off, where somebody failed over what is too new or too old for it."""
    state = story.case.sandbox
    if state is None or abs(state.clock_offset_ns) <= _TOLERATED_NS:
        return
    ahead = state.clock_offset_ns > 0
    spellings = (*(_AHEAD if ahead else _BEHIND), *_EITHER)
    direction = "ahead of" if ahead else "behind"
    for event in story.worth_judging(Exit, unless=lambda event: event.code == 0):
        if words.mentions(story.own_words(event.pid), spellings):
            yield Suspect(
                cause="sandbox.clock",
                event=event,
                prior=0.97,
                summary=f"the sandbox's clock is {abs(state.clock_offset_ns) / 1e9:,.0f} s "
                f"{direction} the collector's, and {story.who(event)} failed over a date",
                advice="set the sandbox's clock from its host's, or run a time service in it",
                spellings=spellings,
            )
