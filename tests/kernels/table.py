"""What each kernel let each sense see, as the page docs/kernels.md tells it."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from probe.coverage import SENSES

PAGE = Path(__file__).parent.parent.parent / "docs" / "kernels.md"
# The sense that an event's kind belongs to, where it has another name.
_SENSE = {"exit": "exec", "signal": "exec", "file": "files", "syscall": "files"}
_HEAD = """# Kernels

What the probe sees on Debian's cloud kernels for x86-64 (amd64) and arm64, under cgroup v2.
`make test-kernels` boots each of them, installs the wheel, runs the tests of the senses and the
gallery there, and writes this page.
A cell says how well a sense sees, and how many of its tests passed.
"""


@dataclass
class Measured:
    """What one kernel came to with one engine."""

    kernel: str  # the line of releases
    release: str
    engine: str
    senses: dict[str, str]
    passed: Counter[str] = field(default_factory=Counter)  # by sense, or "gallery"
    run: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, kernel: str, engine: str, files: dict[str, bytes]) -> Measured:
        """From what the guest left: a report of anything, and JUnit XML of both suites."""
        coverage = json.loads(files[f"{engine}/coverage.json"])["coverage"]
        release = files["release"].decode().strip()
        measured = cls(kernel, release, coverage["engine"], coverage["senses"])
        if measured.engine != engine:
            measured.failures.append(f"the engine that can run is {measured.engine}")
        for name in ("senses", "gallery"):
            for case in ElementTree.fromstring(files[f"{engine}/{name}.xml"]).iter("testcase"):
                measured._count(case, {"gallery"} if name == "gallery" else _senses(case))
        return measured

    def _count(self, case: ElementTree.Element, senses: set[str]) -> None:
        if case.find("skipped") is not None:
            return
        wrong = [*case.findall("failure"), *case.findall("error")]
        self.run.update(senses)
        if wrong:
            self.failures.append(f"{case.get('name')}: {wrong[0].text}")
        else:
            self.passed.update(senses)

    def reasons(self) -> list[str]:
        """A line for each sense that is not full."""
        shut = {sense: state for sense, state in self.senses.items() if state != "full"}
        where = f"{self.kernel}, {self.engine}"
        return [f"- {sense}, {where}: {state}" for sense, state in shut.items()]

    def cell(self, row: str) -> str:
        state = self.senses.get(row, "").partition(":")[0]
        return f"{state} {self.passed[row]}/{self.run[row]}".strip()


def _senses(case: ElementTree.Element) -> set[str]:
    kinds = {element.get("value", "") for element in case.iter("property")}
    return {_SENSE.get(kind, kind) for kind in kinds}


def page(results: list[Measured], every: int) -> str:
    """The page of all kernels, of which `every` so-manieth test was run."""
    part = [f"Here one test of {every} was run.\n"] if every > 1 else []
    releases = {result.kernel: result.release for result in results}
    lines = [_HEAD, *part, f"| engine | sense | {' | '.join(releases.values())} |"]
    lines.append("|---|---|" + "---|" * len(releases))
    for engine in dict.fromkeys(result.engine for result in results):
        by_kernel = {result.kernel: result for result in results if result.engine == engine}
        for row in (*SENSES, "gallery"):
            cells = [by_kernel[name].cell(row) if name in by_kernel else "" for name in releases]
            lines.append(f"| {engine} | {row} | {' | '.join(cells)} |")
    reasons = [reason for result in results for reason in result.reasons()]
    return "\n".join([*lines, "", *reasons]) + "\n"
