"""What lies in a database, and whether anybody writes it, for people and for programs."""

from __future__ import annotations

import dataclasses
import time

from collector.store import Status
from probe.events import JsonObject, time_text
from probe.terminal import Terminal

SCHEMA_ID = "collector.status/1"
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))
_SIZES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def as_json(status: Status, runs: list[str]) -> JsonObject:
    """Sizes in bytes, durations in seconds, times in UTC."""
    values = dataclasses.asdict(status)
    offset = values.pop("clock_offset_ns") / 1e9
    for name in ("first_heard", "last_heard"):
        moment = values.pop(f"{name}_ns")
        values[f"{name}_at"] = None if moment is None else time_text(moment)
    return {"schema": SCHEMA_ID, **_renamed(values), "clock_offset_s": offset, "latest_runs": runs}


def _renamed(values: JsonObject) -> JsonObject:
    """`schema` is the document's own everywhere else."""
    return {"database_schema" if name == "schema" else name: one for name, one in values.items()}


def render(status: Status, runs: list[str], terminal: Terminal) -> None:
    """A few lines."""
    last = status.last_heard_ns
    heard = "never one" if last is None else f"the last {_ago(last)}"
    told = {
        "database": f"{status.database}, schema {status.schema}, {_size(status.size)}",
        "sandboxes": f"{status.sandboxes}, {status.live} heard in the last minute, {heard}",
        "clocks": f"off by up to {status.clock_offset_ns / 1e9:.3f} s among those",
        "runs": f"{status.runs}" + (f", the latest {', '.join(runs)}" if runs else ""),
        "spans": f"{status.spans}",
        "outcomes": f"{status.outcomes}",
    }
    for name, words in told.items():
        terminal.line(terminal.style(f"{name:<10}", "bold"), terminal.style(words))


def _ago(moment_ns: int) -> str:
    seconds = max(0.0, (time.time_ns() - moment_ns) / 1e9)
    for unit, name in _UNITS:
        if seconds >= unit:
            return f"{seconds / unit:.1f} {name} ago"
    return f"{seconds:.1f} s ago"


def _size(size: int) -> str:
    for unit, name in _SIZES:
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} bytes"
