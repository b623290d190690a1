"""Reports whose cause is known, and the cases that they were made of."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from probe.causes import CAUSES
from probe.coverage import Coverage, Losses
from probe.diagnose import Case
from probe.events import from_json, time_from_text
from probe.span import Span


@dataclass(frozen=True)
class Known:
    """`wanted` are the causes that are right for it; the first is the one that was meant."""

    name: str
    wanted: tuple[str, ...]
    case: Case

    @property
    def family(self) -> str:
        """Those of one cause are held out together; what is no fault of a sandbox, by tenths."""
        cause = self.wanted[0]
        if cause in CAUSES and CAUSES[cause].layer == "sandbox":
            return cause
        return f"{cause}, tenth {zlib.crc32(self.name.encode()) % 10}"


def load(path: Path) -> list[Known]:
    """What `python -m bench.accuracy --json FILE` wrote."""
    return [
        Known(one["name"], (one["wanted"], *one["accept"]), case_from(one["report"]))
        for one in json.loads(path.read_text())["attempts"]
        if "events" in one["report"]
    ]


def case_from(report: dict[str, Any]) -> Case:
    """The case that a report was made of."""
    told = report["span"]
    started_ns = time_from_text(told["started_at"])
    span = Span(
        key=1,
        run=told["run"],
        test=told["test"],
        command=tuple(told["command"]),
        sandbox=told["sandbox"],
        boot=told["boot"],
        pid=_root_of(report),
        started_ns=started_ns,
        ended_ns=started_ns + int((told["duration_s"] or 0) * 1e9),
        exit_code=told["exit_code"],
        signal=told["signal"],
        outcome=report["outcome"],
    )
    coverage = Coverage(**report["coverage"])
    events = tuple(from_json(event) for event in report["events"])
    return Case(span, events, coverage, Losses(report["lost"]["by_sense"]))


def _root_of(report: dict[str, Any]) -> int:
    """The process that the span began with: of those whose parent is not heard of, the last to
    end as the span did."""
    events = report["events"]
    pids = {event["pid"] for event in events}
    status = report["span"]["exit_code"], report["span"]["signal"]
    ends = [event for event in events if event["kind"] == "exit" and event["ppid"] not in pids]
    alike = [event for event in ends if (event.get("code"), event.get("signal")) == status]
    return int((alike or ends or [{"pid": 0}])[-1]["pid"])
