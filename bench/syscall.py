"""What one system call costs while somebody listens at the exit of every call.

A loop around getppid(2), the cheapest call there is, and one around an open(2) of
a file that is not there, the call that fails most in any program; each without
and with a seccomp filter, since filters make the probe look closer (calls.c). The
floor is an empty BPF program at raw_tp/sys_exit: whatever listens to all system
calls pays for the kernel's slow path, so only what lies above is the probe's own.
"""

from __future__ import annotations

import statistics
import subprocess

from bench.measure import Goal, Rounds, Table, differences, spread
from bench.testbed import Testbed

ROUNDS = 9
ABOVE_FLOOR_MAX = 60.0

NOTHING, FLOOR, AGENT = "nothing attached", "floor: an empty program", "probe agent"
_LOOPS = {
    "getppid": ("getppid", "plain"),
    "getppid, filter": ("getppid", "filter"),
    "missing file": ("missing", "plain"),
    "missing file, filter": ("missing", "filter"),
}

Costs = dict[str, float]  # nanoseconds a call, by loop


def costs(bed: Testbed) -> Costs:
    """Of each loop, now."""
    return {
        name: float(subprocess.check_output([bed.helper("calls"), *arguments]))
        for name, arguments in _LOOPS.items()
    }


def measure(bed: Testbed, rounds: int | None) -> Table:
    def over_floor() -> Costs:
        with bed.floor():
            return costs(bed)

    def under_agent() -> Costs:
        with bed.agent():
            return costs(bed)

    turns = Rounds(rounds or ROUNDS)
    taken = turns.interleave(
        {NOTHING: lambda: costs(bed), FLOOR: over_floor, AGENT: under_agent},
    )

    def above_floor(loop: str) -> list[float]:
        return differences([one[loop] for one in taken[AGENT]], [one[loop] for one in taken[FLOOR]])

    rows = [
        [name, *(spread([one[loop] for one in some], 0) for loop in _LOOPS)]
        for name, some in taken.items()
    ]
    rows.append(["probe above the floor", *(spread(above_floor(loop), 0) for loop in _LOOPS)])
    return Table(
        title=f"One system call, {turns.count} rounds: nanoseconds",
        headers=["", *_LOOPS],
        rows=rows,
        goals=[
            Goal(f"{loop} above the floor", statistics.median(above_floor(loop)), ABOVE_FLOOR_MAX)
            for loop in ("getppid", "getppid, filter")
        ],
        samples=taken,
        notes=turns.note(),
    )
