"""Fits the weights of the grounds for a suspect: `python -m bench.calibration KNOWN.json...`.

Each file is what `python -m bench.accuracy --json FILE` wrote: reports of scenarios whose
cause is known. Every suspect of a failure is one row, true where its cause is a right one.
Logistic regression with a pull towards zero; what comes out is written to
probe/diagnose/weights.py. Printed is what cross-validation says of it: each family of
scenarios, those of one cause, judged by weights fitted without it.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from bench.known import Known, load
from probe.causes import CAUSES
from probe.diagnose import explain, weighing, weights
from probe.diagnose.case import Dismissal
from probe.diagnose.explain import cleared, suspects
from probe.diagnose.story import Story

PULL = 0.3  # how strongly a weight is held at where it starts, for want of examples
ROUNDS = 60
BESIDE_THE_RIGHT_ONE = 0.3  # how much a wrong suspect counts that only has to rank below it
TARGET = Path(weights.__file__)
BINS = (0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)

Grounds = weighing.Grounds


@dataclass(frozen=True)
class Row:
    family: str
    grounds: Grounds
    true: bool
    share: float = 1.0  # how much it counts


def rows_of(one: Known) -> list[Row]:
    """The suspects of a failure that survive a first look."""
    if one.case.span.passed:
        return []
    story = Story(one.case)
    found: dict[str, list[Grounds]] = defaultdict(list)
    for suspect in suspects(story):
        if not isinstance(suspect, Dismissal) and cleared(story, suspect) is None:
            found[suspect.cause].append(weighing.grounds(story, suspect))
    beaten = BESIDE_THE_RIGHT_ONE if any(cause in one.wanted for cause in found) else 1.0
    return [
        Row(one.family, grounds, true, (1.0 if true else beaten) / len(alike))
        for cause, alike in found.items()
        for true in [cause in one.wanted]
        for grounds in alike
    ]


def fit(rows: Sequence[Row]) -> dict[str, float]:
    """The weights that make the rows likeliest, each held near its start (Newton's method)."""
    names = sorted({name for row in rows for name in row.grounds} | START.keys())
    place = {name: at for at, name in enumerate(names)}
    sparse = [[(place[name], value) for name, value in row.grounds.items()] for row in rows]
    start = [START.get(name, 0.0) for name in names]
    found = list(start)
    for _ in range(ROUNDS):
        slope = [PULL * (start[at] - found[at]) for at in range(len(names))]
        bend = [[PULL if at == to else 0.0 for to in range(len(names))] for at in range(len(names))]
        for row, values in zip(rows, sparse, strict=True):
            score = sum(found[at] * value for at, value in values)
            share = 1 / (1 + math.exp(-max(-30.0, min(30.0, score))))
            for at, value in values:
                slope[at] += row.share * value * (row.true - share)
                for to, other in values:
                    bend[at][to] += row.share * share * (1 - share) * value * other
        step = solve(bend, slope)
        longest = max(1.0, *map(abs, step))  # a full step may overshoot
        step = [change / longest for change in step]
        found = [weight + change for weight, change in zip(found, step, strict=True)]
        if max(map(abs, step)) < 1e-6:
            break
    return dict(zip(names, found, strict=True))


# Where a weight starts: a log-odds scale on which the prior counts as it is.
START = {
    "prior": 1.0,
    "chain": 1.5,
    "said error and thing": 1.0,
    "said error": 0.7,
    "said another fault": -2.5,
    "said another fault as well": -2.0,
    "said another fault thrown": -2.5,
    "said it, and another had the status": -3.0,
    "said that it waited": -1.0,
    "another failed later": -2.5,
    "another failed beside": -1.0,
    "above died of another fault": -2.0,
    "above only warned": -1.0,
    "those above went on to other programs": -0.3,
    "said a warning": -2.0,
    "said that it goes without": -2.0,
    "above said another fault": -1.5,
    "ended long after": -1.0,
    "ended late": -0.7,
    "crashed": -1.5,
    "a child failed later": -1.0,
    "a child failed later by a fault of its own": -3.0,
    "known as harmless": -1.5,
    "known as harmless, yet told": -1.0,
    "known as fatal": 1.0,
    "said unheard, another fault": -4.0,
    "said unheard, something else": -1.5,
    "said unheard, it": 1.5,
    "another denial came later": -0.5,
    "above spoke of something else": -3.0,
    "above spoke of something else, after more": -3.0,
    "another gave the status": -3.0,
    "another had failed before": -4.5,
    "gave up": -1.5,
    "did no harm to others": -1.0,
    "said nothing, by a status of its own": -1.0,
    "did no harm to its twin": -3.0,
    "divided by zero": -4.0,
    "what it was to make was missed": 1.0,
    "said unheard, a lack": -1.0,
    "above said a lack": -1.0,
    "was tidying up": -1.0,
    "looked for others later": -1.5,
    "a probe of configure": -4.0,
    "went on to other programs": -0.7,
    "those above ignored it": -4.0,
    "said a warning at last": -1.5,
    "said a lack": -1.0,
    "said error, then a lack": -0.5,
    "one beside gave the status": -1.5,
    "an earlier one had the status": -1.0,
    "a child failed later of something else": -2.0,
    "was thrown": 1.0,
    # Of one test alone nothing is known of these, so they stay.
    "passing tests show it": -4.0,
    "failing tests alone show it": 1.0,
}


def solve(matrix: list[list[float]], values: list[float]) -> list[float]:
    """Gaussian elimination; the matrix is positive definite."""
    size = len(values)
    work = [[*line, value] for line, value in zip(matrix, values, strict=True)]
    for at in range(size):
        pivot = max(range(at, size), key=lambda line: abs(work[line][at]))
        work[at], work[pivot] = work[pivot], work[at]
        for below in range(at + 1, size):
            factor = work[below][at] / work[at][at]
            if factor:
                work[below] = [a - factor * b for a, b in zip(work[below], work[at], strict=True)]
    found = [0.0] * size
    for at in reversed(range(size)):
        rest = sum(work[at][to] * found[to] for to in range(at + 1, size))
        found[at] = (work[at][size] - rest) / work[at][at]
    return found


def judged(cases: Iterable[Known], chosen: dict[str, float]) -> list[tuple[Known, str, float]]:
    """Each with the verdict's cause and confidence under these weights; "none" where it passed."""
    with mock.patch.object(weighing, "WEIGHTS", chosen):
        told = []
        for one in cases:
            verdict = explain(one.case).verdict
            told.append(
                (one, verdict.cause if verdict else "none", verdict.confidence if verdict else 1.0)
            )
        return told


def cross_validated(cases: Sequence[Known]) -> list[tuple[Known, str, float]]:
    """Each family judged by weights that never saw it."""
    rows = {one.name: rows_of(one) for one in cases}
    families: dict[str, list[Known]] = defaultdict(list)
    for one in cases:
        families[one.family].append(one)
    told = []
    for family, members in families.items():
        others = [row for one in cases if one.family != family for row in rows[one.name]]
        told.extend(judged(members, fit(others)))
    return told


def table(told: Sequence[tuple[Known, str, float]]) -> list[str]:
    """How often it is right, and how often it is right of what it is as sure of."""
    right = sum(cause in one.wanted for one, cause, _ in told)
    blamed = sum(_false_blame(one.wanted, cause) for one, cause, _ in told)
    lines = [
        f"right {right} of {len(told)} ({100 * right / len(told):.1f} %), false blame {blamed}"
    ]
    for low, high in itertools.pairwise(BINS):
        here = [
            (one, cause)
            for one, cause, sure in told
            if low <= sure and (sure < high or high == 1.0) and cause != "none"
        ]
        if here:
            hits = sum(cause in one.wanted for one, cause in here)
            lines.append(f"  said {low:.2f} to {high:.2f}: {hits} of {len(here)} right")
    return lines


def _false_blame(wanted: tuple[str, ...], cause: str) -> bool:
    own = all(one == "none" or CAUSES[one].layer == "workload" for one in wanted)
    return own and cause != "none" and CAUSES[cause].layer in ("sandbox", "interface")


def write(chosen: dict[str, float], path: Path = TARGET) -> None:
    lines = [f'    "{name}": {weight:.3f},' for name, weight in sorted(chosen.items())]
    head = path.read_text().partition("WEIGHTS")[0]
    path.write_text(f"{head}WEIGHTS: dict[str, float] = {{\n" + "\n".join(lines) + "\n}\n")


def main(paths: Sequence[str], say: Callable[[str], None] = print) -> None:
    cases = [one for path in paths for one in load(Path(path))]
    chosen = fit([row for one in cases for row in rows_of(one)])
    say("\n".join(["fitted on all:", *table(judged(cases, chosen))]))
    say("\n".join(["each family by weights fitted without it:", *table(cross_validated(cases))]))
    write(chosen)


if __name__ == "__main__":
    main(sys.argv[1:])
