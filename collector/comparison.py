"""What one run broke, against another: an image, a profile or a week later."""

from __future__ import annotations

from dataclasses import dataclass

from collector import explanation
from collector import run as runs
from collector.outcomes.outcome import PASSED
from collector.run import Test
from collector.store import Store
from collector.test_id import canonical
from probe.events import JsonObject

SCHEMA_ID = "collector.comparison/1"


@dataclass(frozen=True, slots=True)
class Change:
    """One test that ended otherwise. `before` and `after` are verdicts, None where it passed."""

    test: str
    before: JsonObject | None
    after: JsonObject | None

    def as_json(self) -> JsonObject:
        return {"test": self.test, "before": self.before, "after": self.after}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Of the tests that both runs have; the others are counted."""

    run_a: str
    run_b: str
    same: int
    broke: tuple[Change, ...]  # passed in A, failed in B
    mended: tuple[Change, ...]  # the other way round
    changed: tuple[Change, ...]  # failed in both, for another cause
    only_a: int
    only_b: int

    def as_json(self) -> JsonObject:
        lists = {name: getattr(self, name) for name in ("broke", "mended", "changed")}
        return {
            "schema": SCHEMA_ID,
            **{name: getattr(self, name) for name in ("run_a", "run_b", "same")},
            **{name: [one.as_json() for one in found] for name, found in lists.items()},
            "only_a": self.only_a,
            "only_b": self.only_b,
        }


def compare(store: Store, run_a: str, run_b: str) -> Comparison:
    """Problem where there is no such run."""
    before, after = (_tests(store, run) for run in (run_a, run_b))
    verdicts_a = explanation.verdicts(store, run_a, before.values())
    verdicts_b = explanation.verdicts(store, run_b, after.values())
    changes = [
        Change(after[key].id, verdicts_a.get(before[key].id), verdicts_b.get(after[key].id))
        for key in sorted(before.keys() & after.keys())
    ]
    return Comparison(
        run_a,
        run_b,
        same=sum(_cause(one.before) == _cause(one.after) for one in changes),
        broke=tuple(one for one in changes if one.before is None and one.after is not None),
        mended=tuple(one for one in changes if one.before is not None and one.after is None),
        changed=tuple(
            one
            for one in changes
            if one.before and one.after and _cause(one.before) != _cause(one.after)
        ),
        only_a=len(before.keys() - after.keys()),
        only_b=len(after.keys() - before.keys()),
    )


def _tests(store: Store, run: str) -> dict[str, Test]:
    """Those that passed or failed, by their names in one spelling."""
    found = runs.load(store, explanation.choose_run(store, run)).values()
    return {canonical(test.id): test for test in found if test.failed or test.outcome == PASSED}


def _cause(verdict: JsonObject | None) -> str | None:
    return verdict["cause"] if verdict is not None else None
