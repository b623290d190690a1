"""What an agent takes at a steady rate of events, with its spool and its stream.

Processes that fail evenly (pace.c) make so many events a second for some seconds, a
span each second, and a collector stores them. "Accounted" is what the store has,
plus what was told as lost.
"""

from __future__ import annotations

import contextlib
import sqlite3
import statistics
import subprocess
import time
from dataclasses import asdict, dataclass
from functools import partial

import psutil

from bench.measure import Goal, Rounds, Table, spread
from bench.testbed import PROBE, Testbed
from probe import local

ROUNDS = 3
SECONDS = 5
RATES = (1_000, 10_000)
RESIDENT_MAX_MB = 64.0
MB = 1 << 20


@dataclass(frozen=True)
class Pace:
    """Events a second, made and accounted for; the agent's share of a core, and its MiB."""

    made: int
    accounted: int
    rate: float
    core_share: float
    resident_mb: float


def measure(bed: Testbed, rounds: int | None) -> Table:
    turns = Rounds(rounds or ROUNDS)
    taken = turns.interleave({f"{rate:,}/s": partial(one, bed, rate) for rate in RATES})
    rows = [
        [
            name,
            spread([pace.rate for pace in paces], 0),
            f"{sum(pace.accounted for pace in paces):,} of {sum(pace.made for pace in paces):,}",
            spread([pace.core_share * 100 for pace in paces], 1),
            spread([pace.resident_mb for pace in paces], 1),
        ]
        for name, paces in taken.items()
    ]
    return Table(
        title=f"Agent at a steady rate, {turns.count} rounds of {SECONDS} s",
        headers=["", "events/s", "accounted", "% of a core", "resident, MiB"],
        rows=rows,
        goals=[goal for name, paces in taken.items() for goal in _goals(name, paces)],
        samples={name: [asdict(pace) for pace in paces] for name, paces in taken.items()},
        notes=turns.note(),
    )


def _goals(name: str, paces: list[Pace]) -> list[Goal]:
    missing = max(pace.made - pace.accounted for pace in paces)
    resident = statistics.median(pace.resident_mb for pace in paces)
    return [
        Goal(f"{name}: events not accounted for", missing, 0),
        Goal(f"{name}: agent's resident set, MiB", resident, RESIDENT_MAX_MB),
    ]


def one(bed: Testbed, rate: int) -> Pace:
    database = bed.folder / "collector.db"
    for file in bed.folder.glob("collector.db*"):
        file.unlink()
    helper = bed.helper("pace")
    with bed.collector() as address, bed.agent("--collector", address) as pid:
        agent = psutil.Process(pid)
        used, began, made = sum(agent.cpu_times()[:2]), time.perf_counter(), 0
        for _ in range(SECONDS):
            command = [PROBE, "run", "--explain", "never", "--", helper, str(rate), "1"]
            environment = bed.environment(agent=True)
            made += int(subprocess.check_output(command, env=environment))
        elapsed = time.perf_counter() - began
        share = (sum(agent.cpu_times()[:2]) - used) / elapsed
        resident = agent.memory_info().rss / MB
        _drained(bed)
    return Pace(made, _accounted(str(database)), made / elapsed, share, resident)


def _drained(bed: Testbed) -> None:
    client = local.connect(str(bed.socket))
    assert client is not None
    deadline = time.monotonic() + 60
    while client.ask({"do": "status"})["stream"]["waiting"] and time.monotonic() < deadline:
        time.sleep(0.05)
    client.close()


def _accounted(database: str) -> int:
    """Of the helper's own; its parent's fork and end are not counted in `made`."""
    with contextlib.closing(sqlite3.connect(database)) as connection:
        told = "SELECT sum(count) FROM events WHERE comm = 'pace' AND kind = ?"
        kinds = [connection.execute(told, (kind,)).fetchone()[0] or 0 for kind in ("connect",)]
        failed = "SELECT sum(count) FROM events WHERE kind = 'exec' AND detail LIKE '%/no/such/%'"
        kinds.append(connection.execute(failed).fetchone()[0] or 0)
        exits = "SELECT count(*) FROM events WHERE kind = 'exit' AND comm = 'pace'"
        kinds.append(connection.execute(exits).fetchone()[0] - SECONDS)
        lost = "SELECT coalesce(sum(value), 0) FROM spans, json_each(spans.lost)"
        return int(sum(kinds) + connection.execute(lost).fetchone()[0])
