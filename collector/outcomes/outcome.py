"""The outcome of one test, whatever format it came in."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from probe.exchange import Exchange

PASSED, FAILED, ERROR, TIMEOUT, SKIPPED = "passed", "failed", "error", "timeout", "skipped"
OUTCOMES = (SKIPPED, PASSED, TIMEOUT, ERROR, FAILED)  # the worst last
MESSAGE_LIMIT = 16_384  # characters
NAME_LIMIT = 1024  # bytes: PostgreSQL's indexes take no more than 2704 a row


@dataclass(frozen=True, slots=True)
class Outcome:
    """`test` is the harness's id; `name` its last part, which some harnesses run tests by.

    `sandbox` and `started_ns` (since the epoch, UTC) are where and when it ran, where the
    harness says so.
    """

    test: str
    name: str
    outcome: str
    message: str | None = None
    duration_s: float | None = None
    sandbox: str | None = None
    started_ns: int | None = None
    exchange: Exchange | None = None  # of the call that it was, as the client tells

    def worse_than(self, other: Outcome) -> bool:
        return OUTCOMES.index(self.outcome) > OUTCOMES.index(other.outcome)


def worst_of_each(outcomes: list[Outcome]) -> list[Outcome]:
    """One outcome a test: pytest, for one, reports a test twice when its teardown fails too."""
    worst: dict[str, Outcome] = {}
    for outcome in outcomes:
        known = worst.get(outcome.test)
        if known is None or outcome.worse_than(known):
            worst[outcome.test] = outcome
    return list(worst.values())


def storable(outcome: Outcome) -> Outcome:
    """As any database can keep it: names of a bounded length, and text that is text."""
    return replace(
        outcome,
        test=_bounded(_text(outcome.test)),
        name=_bounded(_text(outcome.name)),
        message=None if outcome.message is None else shortened(_text(outcome.message)),
        sandbox=None if outcome.sandbox is None else _bounded(_text(outcome.sandbox)),
    )


def shortened(message: str) -> str:
    """Of a long message, the beginning and the end."""
    if len(message) <= MESSAGE_LIMIT:
        return message
    half = MESSAGE_LIMIT // 2
    return f"{message[:half]}\n…\n{message[-half:]}"


def _text(text: str) -> str:
    """JSON can spell characters that UTF-8 lacks (half of a pair) and PostgreSQL (NUL)."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def _bounded(name: str) -> str:
    """Two long names that differ only at their ends stay two."""
    encoded = name.encode()
    if len(encoded) <= NAME_LIMIT:
        return name
    digest = hashlib.sha256(encoded).hexdigest()[:16]
    kept = encoded[: NAME_LIMIT - len(digest) - len("…".encode())]
    return kept.decode("utf-8", "ignore") + "…" + digest
