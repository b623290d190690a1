"""What `probe run` adds to a command that does nothing.

`true` bare, under a probe that brings an engine of its own, and under one that
asks a running agent. From the start of the process to its end, since that is what
a caller waits for. Beside them the floor of anything written in Python: the same
interpreter doing nothing.
"""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial

from bench.measure import Goal, Rounds, Table, differences, spread
from bench.testbed import PROBE, Testbed

ROUNDS = 15
REPEATS = 3
ALONE_MAX_MS, SERVED_MAX_MS = 150.0, 30.0
WHY_MAX_MS = 500.0  # from asking to reading

BARE, FLOOR, ALONE, SERVED = "true", "floor: python -c pass", "probe run", "probe run, agent"
WHY = "a failure and probe why"
_UNDER_PROBE = (PROBE, "run", "--", "true")
_ASKING = ("sh", "-c", 'cat /no/such 2>&1; exec "$0" why --brief', PROBE)
_WAYS: dict[str, tuple[Sequence[str], bool]] = {
    BARE: (("true",), False),
    FLOOR: ((sys.executable, "-c", "pass"), False),
    ALONE: (_UNDER_PROBE, False),
    SERVED: (_UNDER_PROBE, True),
    WHY: (_ASKING, True),
}


def milliseconds(bed: Testbed, command: Sequence[str], agent: bool) -> float:
    """The median of a few runs."""
    environment = bed.environment(agent=agent)
    times = []
    with bed.agent() if agent else contextlib.nullcontext():
        for _ in range(REPEATS):
            start = time.perf_counter()
            subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
            times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def measure(bed: Testbed, rounds: int | None) -> Table:
    turns = Rounds(rounds or ROUNDS)
    taken = turns.interleave(
        {name: partial(milliseconds, bed, *way) for name, way in _WAYS.items()}
    )
    added = {name: differences(some, taken[BARE]) for name, some in taken.items()}
    return Table(
        title=f"Start-up, {turns.count} rounds: milliseconds",
        headers=["", "milliseconds", "more than bare"],
        rows=[[name, spread(some, 1), spread(added[name], 1)] for name, some in taken.items()],
        goals=[
            Goal("probe why, ms", statistics.median(taken[WHY]), WHY_MAX_MS),
            Goal("probe run, added ms", statistics.median(added[ALONE]), ALONE_MAX_MS),
            Goal(
                "probe run with an agent, added ms", statistics.median(added[SERVED]), SERVED_MAX_MS
            ),
        ],
        samples=taken,
        notes=turns.note(),
    )
