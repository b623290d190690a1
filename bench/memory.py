"""What the probe holds in memory: `probe run` at its peak, an agent idle and after work.

The work is the overhead bench's workload as one span, so events have passed
through every part. BPF maps are charged to nobody's resident set; what the kernel
itself says of them (`memlock` in /proc/PID/fdinfo) has a column of its own.
Beside them the floor: the same interpreter doing nothing.
"""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from bench import overhead
from bench.measure import Goal, Rounds, Table, spread
from bench.testbed import PROBE, Testbed

ROUNDS = 3
AGENT_MAX_MB = 45.0
MB = 1 << 20

FLOOR, ALONE, SERVED = "floor: python -c pass, peak", "probe run, peak", "probe run, agent, peak"
IDLE, WORKED = "agent, idle", "agent, after work"
STREAMING = "agent with a collector, after work"


@dataclass(frozen=True)
class Size:
    """MiB: the resident set, and the BPF maps that the process holds open."""

    resident: float
    maps: float = 0.0


def peak(bed: Testbed, command: Sequence[str], *, agent: bool = False) -> Size:
    """The largest resident set of `command` (that of its children is smaller)."""
    measured = [bed.helper("peak"), *command]
    kilobytes = subprocess.check_output(measured, env=bed.environment(agent=agent))
    return Size(int(kilobytes) * 1024 / MB)


def size(pid: int) -> Size:
    """Of a running process."""
    maps = 0
    for info in Path(f"/proc/{pid}/fdinfo").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it has been closed since
            fields = dict(map(_field, info.read_text().splitlines()))
            maps += int(fields["memlock"]) if "map_id" in fields else 0
    return Size(psutil.Process(pid).memory_info().rss / MB, maps / MB)


def _field(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name, value.strip()


def measure(bed: Testbed, rounds: int | None) -> Table:
    def served() -> Size:
        with bed.agent():
            return peak(bed, [PROBE, "run", "--", "true"], agent=True)

    def idle() -> Size:
        with bed.agent() as pid:
            return size(pid)

    def worked(*options: str) -> Size:
        with bed.agent(*options) as pid:
            command = overhead.workload(bed, [PROBE, "run", "--"])
            quiet = subprocess.DEVNULL
            subprocess.run(command, env=bed.environment(agent=True), stdout=quiet, check=True)
            return size(pid)

    def streaming() -> Size:
        with bed.collector() as address:
            return worked("--collector", address)

    variants: dict[str, Callable[[], Size]] = {
        FLOOR: lambda: peak(bed, [sys.executable, "-c", "pass"]),
        ALONE: lambda: peak(bed, [PROBE, "run", "--", "true"]),
        SERVED: served,
        IDLE: idle,
        WORKED: worked,
        STREAMING: streaming,
    }
    turns = Rounds(rounds or ROUNDS)
    taken = turns.interleave(variants)
    resident = {name: [one.resident for one in some] for name, some in taken.items()}
    maps = {name: statistics.median(one.maps for one in some) for name, some in taken.items()}
    return Table(
        title=f"Memory, {turns.count} rounds: MiB",
        headers=["", "resident", "BPF maps"],
        rows=[[name, spread(resident[name], 1), f"{maps[name]:.1f}"] for name in variants],
        goals=[
            Goal(f"{name}, MiB", statistics.median(resident[name]), AGENT_MAX_MB)
            for name in (IDLE, WORKED, STREAMING)
        ],
        samples={name: [asdict(one) for one in some] for name, some in taken.items()},
    )
