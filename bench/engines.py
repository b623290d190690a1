"""What each engine costs: to start, in memory, and to the work that it watches.

Each is asked for by name, alone, so all take turns on the same machine. What the work
takes is timed by the work itself, so that a start is counted once; strace, the tool one
would reach for otherwise, and an interpreter that does nothing stand beside them.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial

from bench import memory, overhead, startup
from bench.measure import Rounds, Table, differences, ratios, spread
from bench.testbed import PROBE, Testbed
from probe.engine.choice import AUTOMATIC, ENGINES

ROUNDS = 3
BARE, FLOOR, PEER = "bare", "floor: python -c pass", "strace -f"
_PREFIXES: dict[str, Sequence[str]] = {
    BARE: (),
    PEER: ("strace", "-f", "-o", "/dev/null"),
    **{name: (PROBE, "run", "--engine", name, "--") for name in ENGINES},
}


@dataclass(frozen=True)
class Cost:
    """Of one way to run something; what does not apply is none."""

    start_ms: float
    peak_mb: float  # of the largest process among all that it starts
    work_s: float | None = None
    agent_mb: float | None = None  # resident, of an agent that waits


def cost(bed: Testbed, name: str) -> Cost:
    nothing = [sys.executable, "-c", "pass"] if name == FLOOR else [*_PREFIXES[name], "true"]
    start_ms = startup.milliseconds(bed, nothing, False)
    peak = memory.peak(bed, nothing).resident
    if name == FLOOR:
        return Cost(start_ms, peak)
    work = overhead.run(bed, _PREFIXES[name], agent=False)
    return Cost(start_ms, peak, sum(work.parts.values()), _agent(bed, name))


def _agent(bed: Testbed, name: str) -> float | None:
    if name not in AUTOMATIC:
        return None
    with bed.agent("--engine", name) as pid:
        return memory.size(pid).resident


def measure(bed: Testbed, rounds: int | None) -> Table:
    turns = Rounds(rounds or ROUNDS)
    taken = turns.interleave({name: partial(cost, bed, name) for name in (*_PREFIXES, FLOOR)})
    bare = taken[BARE]

    def row(name: str) -> list[str]:
        costs = taken[name]
        starts = differences([one.start_ms for one in costs], [one.start_ms for one in bare])
        peak = statistics.median(one.peak_mb for one in costs)
        agent = [one.agent_mb for one in costs if one.agent_mb is not None]
        work = [one.work_s for one in costs if one.work_s is not None]
        slower = ratios(work, [one.work_s or 1.0 for one in bare]) if work else []
        return [
            name,
            spread(starts, 0),
            f"{peak:.1f}",
            f"{statistics.median(agent):.1f}" if agent else "",
            spread(slower, 2) if slower else "",
        ]

    return Table(
        title=f"Engines, {turns.count} rounds",
        headers=["", "start, ms more than bare", "peak MiB", "agent MiB", "work, ratio to bare"],
        rows=[row(name) for name in taken],
        goals=[],
        samples={name: [asdict(one) for one in some] for name, some in taken.items()},
        notes=turns.note(),
    )
