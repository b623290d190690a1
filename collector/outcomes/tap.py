"""TAP, the Test Anything Protocol, versions 12 to 14 (https://testanything.org).

A subtest's points come before the point that sums it up, indented by four; they are named
after it: `parent > child`.
"""

from __future__ import annotations

import dataclasses
import re

from collector.outcomes import fields
from collector.outcomes import outcome as kinds
from collector.outcomes.outcome import Outcome
from probe.problem import Problem

DEPTH = 32  # of subtests
_INDENT = 4
_HEAD = 65_536  # bytes in which a first sign must stand
_SIGN = re.compile(rb"^(TAP version 1[234]\b|1\.\.\d+|(not )?ok\b)", re.MULTILINE)
_POINT = re.compile(r"(not )?ok\b(?: +(\d+))?(?: +- +| +|$)(.*)")
_PLAN = re.compile(r"1\.\.(\d{1,9})\b")
_DIRECTIVE = re.compile(r"(?<!\\)#\s*(SKIP|TODO)\S*\s*(.*)", re.IGNORECASE)
_DURATION = re.compile(r"^\s*duration_ms: *'?(\d{1,15}(?:\.\d{1,9})?)", re.MULTILINE)


def recognises(content: bytes) -> bool:
    """Test programs may print other things before it."""
    return bool(_SIGN.search(content[:_HEAD]))


def parse(content: bytes) -> list[Outcome]:
    """Problem where subtests are nested beyond DEPTH."""
    return _Reader().read(content.decode("utf-8", "replace"))


class _Reader:
    def __init__(self) -> None:
        # Of each depth the points that wait for the one that sums them up.
        self._points: list[list[Outcome]] = [[]]
        self._count = 0  # of points at the top, and how many there are to be
        self._planned: int | None = None
        self._diagnosis: list[str] | None = None
        self._bail_out: str | None = None

    def read(self, text: str) -> list[Outcome]:
        for line in text.splitlines():
            self._line(line)
        found = [point for points in self._points for point in points]
        count, planned = self._count, self._planned
        if self._bail_out is not None or (planned is not None and count < planned):
            reason = self._bail_out or f"{count} of {planned} planned tests were reported"
            found.append(Outcome("plan", "plan", kinds.ERROR, reason))
        return found

    def _line(self, line: str) -> None:
        bare = line.lstrip(" ")
        depth = (len(line) - len(bare)) // _INDENT
        if self._diagnosis is not None:
            self._diagnose(bare)
        elif bare == "---":
            self._diagnosis = []
        elif found := _POINT.fullmatch(bare.rstrip()):
            self._point(depth, found)
        elif bare.startswith("Bail out!"):
            self._bail_out = bare
        elif depth == 0 and (plan := _PLAN.match(bare)):
            self._planned = int(plan[1])

    def _point(self, depth: int, found: re.Match[str]) -> None:
        if depth > DEPTH:
            raise Problem("TAP with subtests that are nested too deeply", f"{DEPTH} are taken")
        self._count += depth == 0
        while len(self._points) <= depth:
            self._points.append([])
        failed, number, rest = found.groups()
        directive = _DIRECTIVE.search(rest)
        name = (rest[: directive.start()] if directive else rest).strip()
        name = re.sub(r"\\([#\\])", r"\1", name) or f"test {number or len(self._points[depth]) + 1}"
        outcome, message = kinds.FAILED if failed else kinds.PASSED, None
        if directive:
            message = directive[2].strip() or None
            if directive[1].upper() == "SKIP" or failed:  # a failure to be expected
                outcome = kinds.SKIPPED
        for deeper in self._points[depth + 1 :]:
            self._points[depth] += [_below(name, point) for point in deeper]
        del self._points[depth + 1 :]
        self._points[depth].append(Outcome(name, name, outcome, message))

    def _diagnose(self, bare: str) -> None:
        """The YAML block after a point. `...` ends it."""
        assert self._diagnosis is not None
        if bare.rstrip() != "...":
            self._diagnosis.append(bare)
            return
        text, self._diagnosis = "\n".join(self._diagnosis), None
        for points in reversed(self._points):
            if points:
                points[-1] = _diagnosed(points[-1], text)
                return


def _below(parent: str, point: Outcome) -> Outcome:
    return dataclasses.replace(point, test=f"{parent} > {point.test}")


def _diagnosed(point: Outcome, text: str) -> Outcome:
    duration = _DURATION.search(text)
    duration_s = fields.duration_s(float(duration[1]), 1e-3) if duration else None
    timeout = re.search(r"failureType: *'?testTimeout", text)  # Node's
    failed = point.outcome == kinds.FAILED
    return dataclasses.replace(
        point,
        outcome=kinds.TIMEOUT if timeout and failed else point.outcome,
        message=(text or None) if failed else point.message,
        duration_s=duration_s,
    )
