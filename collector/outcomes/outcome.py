"""The outcome of one test, whatever format it came in."""

from __future__ import annotations

from dataclasses import dataclass

PASSED, FAILED, ERROR, TIMEOUT, SKIPPED = "passed", "failed", "error", "timeout", "skipped"
_SEVERITY = (SKIPPED, PASSED, TIMEOUT, ERROR, FAILED)
MESSAGE_LIMIT = 16_384  # characters


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

    def worse_than(self, other: Outcome) -> bool:
        return _SEVERITY.index(self.outcome) > _SEVERITY.index(other.outcome)


def worst_of_each(outcomes: list[Outcome]) -> list[Outcome]:
    """One outcome a test: pytest, for one, reports a test twice when its teardown fails too."""
    worst: dict[str, Outcome] = {}
    for outcome in outcomes:
        known = worst.get(outcome.test)
        if known is None or outcome.worse_than(known):
            worst[outcome.test] = outcome
    return list(worst.values())
