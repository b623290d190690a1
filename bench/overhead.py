"""What it costs a workload to be watched.

One deterministic program (workload.c) compiles, touches files, starts processes
and connects for about two seconds: bare, under the probe in its two forms, while
an agent merely runs beside it, and under strace, the tool one would reach for
otherwise. strace is given its best case: a seccomp filter that stops the workload
only at execve and connect, a small part of what the probe sees, beside its
default, which stops at each call.

The ratios are to the bare run of the same round. The total is taken from outside,
so a watcher's start and end are in it; the parts are timed by the workload
itself, so they are not. A second core hides what a watcher computes meanwhile,
hence the column of its processor time.
"""

from __future__ import annotations

import contextlib
import resource
import statistics
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial

import psutil

from bench.measure import Goal, Rounds, Table, ratios, spread
from bench.testbed import PROBE, SOURCES, Testbed

ROUNDS = 5
PARTS = ("compile", "files", "spawn", "connect")
RATIO_MAX = 1.03

BARE, ALONE, SERVED, BESIDE = "bare", "probe run", "probe run, agent", "bare beside an agent"
FLOOR = "floor: an empty program"
FILTERED, TRACED = "strace --seccomp-bpf (2 calls)", "strace"

_STRACE = ("strace", "-f", "-o", "/dev/null")
_WAYS: dict[str, tuple[Sequence[str], bool]] = {
    BARE: ((), False),
    FLOOR: ((), False),
    ALONE: ((PROBE, "run", "--"), False),
    SERVED: ((PROBE, "run", "--"), True),
    BESIDE: ((), True),
    FILTERED: ((*_STRACE, "--seccomp-bpf", "-e", "trace=execve,connect"), False),
    TRACED: (_STRACE, False),
}


@dataclass(frozen=True)
class Run:
    """Seconds: in all, of each part, and of processor time that was not the workload's."""

    total: float
    parts: dict[str, float]
    watcher: float


def run(bed: Testbed, prefix: Sequence[str], agent: bool, floor: bool = False) -> Run:
    """The workload once, behind `prefix`, with an agent, the floor or neither."""
    with contextlib.ExitStack() as stack:
        if floor:
            stack.enter_context(bed.floor())
        pid = stack.enter_context(bed.agent()) if agent else None
        command = workload(bed, prefix)
        before = _cpu(pid)
        start = time.perf_counter()
        result = subprocess.run(
            command,
            env=bed.environment(agent=agent),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=True,
            text=True,
        )
        total = time.perf_counter() - start
        used = _cpu(pid) - before
    parts = {name: float(value) for name, value in map(str.split, result.stdout.splitlines())}
    return Run(total, parts, used - parts.pop("cpu"))


def workload(bed: Testbed, prefix: Sequence[str]) -> list[str]:
    """Its command line."""
    source = str(SOURCES / "workload.c")
    return [*prefix, bed.helper("workload"), str(bed.folder), source]


def _cpu(agent: int | None) -> float:
    """Processor seconds of all that was waited for, and of the agent."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    own = psutil.Process(agent).cpu_times() if agent else None
    return usage.ru_utime + usage.ru_stime + (own.user + own.system if own else 0.0)


def measure(bed: Testbed, rounds: int | None) -> Table:
    turns = Rounds(rounds or ROUNDS)
    variants = {name: partial(run, bed, *way, name == FLOOR) for name, way in _WAYS.items()}
    runs = turns.interleave(variants)
    totals = {name: [one.total for one in some] for name, some in runs.items()}
    middle = {name: statistics.median(ratios(totals[name], totals[BARE])) for name in _WAYS}

    def row(name: str) -> list[str]:
        parts = [
            ratios([one.parts[part] for one in runs[name]], [one.parts[part] for one in runs[BARE]])
            for part in PARTS
        ]
        return [
            name,
            spread(totals[name], 2),
            spread(ratios(totals[name], totals[BARE]), 3),
            *(f"{statistics.median(part):.2f}" for part in parts),
            f"{statistics.median(max(0.0, one.watcher) for one in runs[name]):.2f}",
        ]

    return Table(
        title=f"Mixed work, {turns.count} rounds: seconds, ratio to bare, ratio of each part",
        headers=["", "seconds", "ratio", *PARTS, "watcher's CPU s"],
        rows=[row(name) for name in _WAYS],
        goals=[
            Goal("probe run / bare", middle[ALONE], RATIO_MAX),
            Goal("probe run with an agent / floor", middle[SERVED] / middle[FLOOR], RATIO_MAX),
            Goal("probe run with an agent / bare", middle[SERVED], RATIO_MAX),
            Goal("probe run / bare, against strace's best", middle[ALONE], middle[FILTERED]),
        ],
        samples={name: [asdict(one) for one in some] for name, some in runs.items()},
        notes=turns.note(),
    )
