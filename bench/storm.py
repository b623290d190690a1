"""A storm of failing calls: is each accounted for, and at what cost to the watcher?

One program makes N calls that fail alike, as fast as it can: denied by a filter, a
program that is not there, a connection refused. "Accounted" is the sum of the counts
in the report plus what it says was lost. The floor is the same program unwatched.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from bench.measure import Goal, Rounds, Table, spread
from bench.testbed import PROBE, Testbed

ROUNDS = 3
CALLS = 200_000
CORE_SHARE_MAX = 0.10
GROWTH_MAX_MB = 1.0
MB = 1e6
KINDS = ("seccomp", "exec", "connect")


@dataclass(frozen=True)
class Storm:
    """Calls a second, bare and watched; what was accounted for; the agent's part in it."""

    bare_rate: float
    rate: float
    accounted: int
    core_share: float
    growth_mb: float


def measure(bed: Testbed, rounds: int | None) -> Table:
    turns = Rounds(rounds or ROUNDS)
    with bed.agent() as agent:
        process = psutil.Process(agent)
        one(bed, process, "seccomp")  # the caches of its first span are no growth
        variants = {kind: lambda kind=kind: one(bed, process, kind) for kind in KINDS}
        taken = turns.interleave(variants)
    rows = []
    for kind, storms in taken.items():
        rows.append(
            [
                kind,
                spread([storm.bare_rate / 1000 for storm in storms], 0),
                spread([storm.rate / 1000 for storm in storms], 0),
                f"{min(storm.accounted for storm in storms):,} of {CALLS:,}",
                spread([storm.core_share * 100 for storm in storms], 1),
                spread([storm.growth_mb for storm in storms], 1),
            ]
        )
    return Table(
        title=f"Storms, {turns.count} rounds of {CALLS:,} calls",
        headers=["", "bare, 1000/s", "watched, 1000/s", "accounted", "% of a core", "growth, MB"],
        rows=rows,
        goals=[goal for kind, storms in taken.items() for goal in _goals(kind, storms)],
        samples={kind: [asdict(storm) for storm in storms] for kind, storms in taken.items()},
    )


def _goals(kind: str, storms: list[Storm]) -> list[Goal]:
    missing = max(CALLS - storm.accounted for storm in storms)
    share = statistics.median(storm.core_share for storm in storms)
    growth = statistics.median(storm.growth_mb for storm in storms)
    return [
        Goal(f"{kind}: calls not accounted for", missing, 0),
        Goal(f"{kind}: agent's share of a core", share, CORE_SHARE_MAX),
        Goal(f"{kind}: growth of the agent, MB", growth, GROWTH_MAX_MB),
    ]


def one(bed: Testbed, agent: psutil.Process, kind: str) -> Storm:
    command = [bed.helper("storm"), kind, str(CALLS)]
    bare = _elapsed(command, bed)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report"
        watched: list[str | Path] = [
            PROBE,
            "run",
            "--explain",
            "never",
            "--json",
            report,
            "--",
            *command,
        ]
        before, size = sum(agent.cpu_times()[:2]), agent.memory_info().rss
        took = _elapsed(watched, bed)
        used = sum(agent.cpu_times()[:2]) - before
        growth = agent.memory_info().rss - size
        content = json.loads(report.read_text())
    counted = sum(
        event["count"]
        for event in content["events"]
        if event["kind"] == kind and event["comm"] == "storm" and event.get("errno")
    )
    return Storm(
        CALLS / bare, CALLS / took, counted + content["lost"]["total"], used / took, growth / MB
    )


def _elapsed(command: Sequence[str | Path], bed: Testbed) -> float:
    began = time.perf_counter()
    subprocess.run(
        [str(word) for word in command],
        env=bed.environment(agent=True),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return time.perf_counter() - began
