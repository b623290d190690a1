"""How often is the verdict right? `python -m bench.accuracy`, as root.

Every scenario of the galleries has a known cause. Each is run under `probe run`, with
an agent, and once more unwatched for the baseline (bench.baseline), which gets the
command's real output and exit status. The floor says "the work failed" of everything.
What all three answer is then counted alike. The galleries are those that the rules were
written against, and the baseline's patterns were written with them in sight as well:
the numbers are an upper bound for both, and the difference is what counts.

Riddles (tests/scenarios/riddles.toml) are told apart: pairs of works that fail for different
causes though the probe hears the same of both, so that it can be right about one at most.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import gc
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from bench import baseline, calibration
from bench.known import Known, case_from
from bench.longspans import MADE_UP, took_ms
from bench.measure import Goal, Table
from bench.testbed import Testbed
from collector.sandbox import Sandbox
from probe.causes import CAUSES
from probe.diagnose import Case, explain
from probe.engine.choice import ENGINES
from probe.terminal import Terminal
from tests.scenarios import gallery

JOBS = 2
PATIENCE_S = 60
NONE, UNKNOWN, BROKEN = "none", "unknown", "could not be run"
BINS = (0.0, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0)
SURE = 0.9  # of the verdicts that are as sure as this, nine in ten must be right
MANY_EVENTS = 10_000
MANY_MAX_MS = 50.0


@dataclass(frozen=True)
class Attempt:
    """One scenario run once: what was wanted, and what each of the three answers, best first."""

    name: str
    wanted: str
    accept: tuple[str, ...]  # what is right as well
    probe: list[str]
    baseline: list[str]
    floor: list[str]
    status: int
    output: str
    report: dict[str, Any]

    @property
    def confidence(self) -> float | None:
        verdict = self.report.get("verdict")
        return verdict["confidence"] if verdict else None

    @property
    def right(self) -> bool:
        return self.holds(self.probe[0])

    def holds(self, cause: str) -> bool:
        return cause == self.wanted or cause in self.accept


WAYS = ("probe", "baseline", "floor")


# --- running -----------------------------------------------------------------


def scenarios(only: str = "") -> list[gallery.Scenario]:
    """Those of both galleries whose name holds `only`."""
    every = [one for path in gallery.GALLERIES for one in gallery.load(path)]
    return [one for one in every if only in one.name]


def run_all(
    bed: Testbed, chosen: Sequence[gallery.Scenario], runs: int, engine: str | None = None
) -> list[Attempt]:
    """Each scenario `runs` times, a few at once: beside one agent, or each by an engine of its own.

    `engine` is what `probe run --engine` takes.
    """
    bed.folder.chmod(0o711)  # scenarios of other users pass through
    folders = (bed.folder / f"scenario-{number}" for number in range(len(chosen) * runs))
    socket = bed.environment(agent=engine is None)["PROBE_SOCKET"]
    with (
        bed.agent() if engine is None else contextlib.nullcontext(),
        mock.patch.dict(os.environ, {"PROBE_SOCKET": socket}),
        ThreadPoolExecutor(JOBS) as pool,
    ):
        return list(pool.map(partial(attempt, bed, engine), list(chosen) * runs, folders))


def attempt(bed: Testbed, engine: str | None, scenario: gallery.Scenario, folder: Path) -> Attempt:
    """The scenario watched, then unwatched; each in an empty directory of its own."""
    folder.mkdir()
    try:
        report = gallery.watch(
            scenario, folder / "watched", *(("--engine", engine) if engine else ())
        )
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        report = {"problem": str(error)}
    status, output = unwatched(bed, scenario, folder / "unwatched")
    return Attempt(
        name=scenario.name,
        wanted=scenario.cause,
        accept=scenario.accept,
        probe=ranked(report),
        baseline=baseline.explain(output, status),
        floor=["workload.failed" if status else NONE],
        status=status,
        output=output,
        report=report,
    )


def ranked(report: dict[str, Any]) -> list[str]:
    """The causes that a report names: the verdict, then the alternatives."""
    if "problem" in report:
        return [BROKEN]
    return [gallery.cause(report), *(one["cause"] for one in report["alternatives"])]


def unwatched(bed: Testbed, scenario: gallery.Scenario, folder: Path) -> tuple[int, str]:
    """The exit status as a shell counts, and the end of stderr, or of stdout where that is empty.

    Into files: what a scenario leaves running would hold pipes open.
    """
    folder.mkdir()
    values = {"port": gallery.closed_port(), "dir": folder}
    gallery.prepare(scenario, values)
    argv = gallery.argv_of(scenario, values)
    profile = gallery.profile_of(scenario, values)
    streams = [folder.with_name(name) for name in ("stderr", "stdout")]
    with Sandbox(profile, f"unwatched-{os.getpid()}-{folder.parent.name}") as sandbox:
        command = sandbox.command(argv)
        surroundings = {**bed.environment(agent=False), "PATH": gallery.PATH}
        status = _run(command, surroundings, folder, *streams)
    said = (stream.read_text(errors="replace")[-baseline.TAIL :] for stream in streams)
    return status, next((text for text in said if text.strip()), "")


def _run(
    command: list[str], environment: dict[str, str], folder: Path, stderr: Path, stdout: Path
) -> int:
    """Runs it in a session of its own, which ends with it; 128+N after signal N."""
    with stderr.open("wb") as errors, stdout.open("wb") as output:
        process = subprocess.Popen(
            command,
            env=environment,
            cwd=folder,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
    try:
        status = process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        status = process.wait()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    return 128 - status if status < 0 else status


def riddles(only: str = "") -> list[gallery.Scenario]:
    return [
        half
        for riddle in gallery.load_riddles()
        for half in riddle.both
        if only in half.name and not half.missing()
    ]


# --- counting ----------------------------------------------------------------


def summary(attempts: Sequence[Attempt]) -> Table:
    """The three side by side, over all runs; passing scenarios ("none") count as well."""
    figures = {way: figures_of(attempts, way) for way in WAYS}
    names = list(figures[WAYS[0]])
    failing = sum(one.wanted != NONE for one in attempts)
    return Table(
        title=f"Accuracy over {len(attempts)} runs, {failing} of them of scenarios that fail",
        headers=["", *WAYS],
        rows=[[name, *(figures[way][name] for way in WAYS)] for name in names],
        goals=[],
        samples={"figures": figures},
        notes=[
            "top-3 and MRR read the verdict first, then the alternatives in their order. "
            "False blame: a sandbox cause for what passed or was the work's own fault. "
            "Layer: sandbox, work or passed. Mean recall counts each cause alike."
        ],
    )


def figures_of(attempts: Sequence[Attempt], way: str) -> dict[str, str]:
    """What is said of one way to answer."""
    answers = [(one.wanted, _answers(one, way)) for one in attempts]
    failing = [(wanted, found) for wanted, found in answers if wanted != NONE]
    causes = sorted({wanted for wanted, _ in answers})
    recalls = [recall(attempts, way, cause) or 0.0 for cause in causes]
    return {
        "top-1": _share(answers, lambda wanted, found: found[0] == wanted),
        "top-1, failing ones": _share(failing, lambda wanted, found: found[0] == wanted),
        "top-3": _share(answers, lambda wanted, found: wanted in found[:3]),
        "MRR": f"{statistics.fmean(reciprocal(*answer) for answer in answers):.3f}",
        "right layer": _share(answers, lambda wanted, found: layer(found[0]) == layer(wanted)),
        "mean recall by cause": f"{100 * statistics.fmean(recalls):.1f}%",
        "false blame": str(sum(false_blame(wanted, found[0]) for wanted, found in answers)),
        "abstained (unknown)": str(sum(found[0] == UNKNOWN for _, found in answers)),
    }


def _answers(one: Attempt, way: str) -> list[str]:
    """What is right as well counts as what was wanted."""
    answers: list[str] = getattr(one, way)
    return [one.wanted if one.holds(cause) else cause for cause in answers]


def _share(
    answers: Sequence[tuple[str, list[str]]], holds: Callable[[str, list[str]], bool]
) -> str:
    if not answers:
        return "-"
    return f"{100 * sum(holds(*answer) for answer in answers) / len(answers):.1f}%"


def reciprocal(wanted: str, found: Sequence[str]) -> float:
    """1 over the rank of what was wanted, 0 where it is not among the answers."""
    return 1 / (1 + found.index(wanted)) if wanted in found else 0.0


def layer(cause: str) -> str:
    return CAUSES[cause].layer if cause in CAUSES else cause


def false_blame(wanted: str, found: str) -> bool:
    """The sandbox was blamed for what it did not do."""
    return layer(wanted) in (NONE, "workload") and layer(found) in ("sandbox", "interface")


def recall(attempts: Sequence[Attempt], way: str, cause: str) -> float | None:
    """Of the runs with this cause, the share that was found."""
    found = [_answers(one, way)[0] == cause for one in attempts if one.wanted == cause]
    return statistics.fmean(found) if found else None


def precision(attempts: Sequence[Attempt], way: str, cause: str) -> float | None:
    """Of the runs that were given this cause, the share that had it."""
    right = [one.wanted == cause for one in attempts if _answers(one, way)[0] == cause]
    return statistics.fmean(right) if right else None


def by_cause(attempts: Sequence[Attempt]) -> Table:
    """Precision and recall of each cause that was wanted, or answered by the probe."""
    causes = sorted({one.wanted for one in attempts} | {one.probe[0] for one in attempts})
    columns = [(measured, way) for way in WAYS[:2] for measured in (precision, recall)]
    rows = []
    for cause in causes:
        count = sum(one.wanted == cause for one in attempts)
        cells = [_percent(measured(attempts, way, cause)) for measured, way in columns]
        rows.append([cause, str(count), *cells])
    return Table(
        title="By cause",
        headers=["", "runs", *(f"{way} {measured.__name__}" for measured, way in columns)],
        rows=rows,
        goals=[],
        samples={row[0]: row[1:] for row in rows},
    )


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f}%"


def reliability(attempts: Sequence[Attempt]) -> Table:
    """What the probe's confidence is worth: its mean in each bin, beside the share right."""
    verdicts = [(one.confidence, one.right) for one in attempts if one.confidence is not None]
    rows = []
    for low, high in itertools.pairwise(BINS):
        inside = [(sure, right) for sure, right in verdicts if low <= sure < high]
        if inside:
            mean, share = (statistics.fmean(values) for values in zip(*inside, strict=True))
            rows.append([f"{low:.2f}-{high:.2f}", str(len(inside)), f"{mean:.2f}", f"{share:.2f}"])
    sure = [not right for confidence, right in verdicts if confidence >= SURE]
    brier = statistics.fmean([(sure - right) ** 2 for sure, right in verdicts] or [0.0])
    return Table(
        title="Calibration: confidence against the share that was right",
        headers=["confidence", "verdicts", "mean", "share right"],
        rows=rows,
        goals=[Goal(f"share wrong of those {SURE} sure", statistics.fmean(sure or [0]), 1 - SURE)],
        samples={"verdicts": verdicts, "brier": brier},
        notes=[f"Brier score {brier:.3f} (0 is perfect, 0.25 a coin)."],
    )


def of_riddles(attempts: Sequence[Attempt]) -> Table:
    """What is said where nobody can know: how often, how sure, and how often that was right."""
    layers: dict[str, list[Attempt]] = {}
    for one in attempts:
        layers.setdefault(layer(one.probe[0]), []).append(one)
    rows = []
    for name, answered in sorted(layers.items()):
        right = statistics.fmean(one.right for one in answered)
        sure = statistics.fmean(one.confidence or 0.0 for one in answered)
        rows.append([name, str(len(answered)), f"{sure:.2f}", f"{100 * right:.0f}%"])
    return Table(
        title=f"Riddles: {len(attempts)} runs of works in pairs that look the same from outside",
        headers=["answer", "runs", "confidence", "right"],
        rows=rows,
        goals=[],
        samples={"riddles": [[one.name, one.probe[0], one.confidence] for one in attempts]},
        notes=["Half of them can be right. None is counted in the tables above."],
    )


# --- explaining again --------------------------------------------------------


def verdict(case: Case) -> str:
    found = explain(case).verdict
    return found.cause if found else NONE


def times(attempts: Sequence[Attempt]) -> Table:
    """Milliseconds to explain: each case again, and long spans that were made up.

    "processes" is a build: thousands of them, most of which overcome what they met.
    "one process" fails at one thing after another, which the rules must all weigh.
    "connections" are refused to thousands of processes that say so and fail.
    The last column is the time against that of a quarter of the events: 4 is linear.
    """
    cases = [case_from(one.report) for one in attempts if "events" in one.report]
    gc.collect()
    gc.freeze()  # the reports of thousands of runs are the bench's, not what is measured
    taken = [took_ms(case) for case in cases]
    rows = []
    if taken:
        middle, most = statistics.median(taken), max(taken)
        rows = [["the cases", _longest(cases), f"{middle:.2f}", f"{most:.2f}", ""]]
    goals = []
    for name, make in MADE_UP.items():
        quarter, whole = took_ms(make(MANY_EVENTS // 4)), took_ms(make(MANY_EVENTS))
        rows.append(
            [name, f"{MANY_EVENTS}", f"{whole:.0f}", f"{whole:.0f}", f"{whole / quarter:.1f}"]
        )
        goals.append(Goal(f"{MANY_EVENTS} events of {name}, ms", whole, MANY_MAX_MS))
    return Table(
        title="Time to explain, ms",
        headers=["", "events", "median", "max", "x4 events"],
        rows=rows,
        goals=goals,
        samples={"cases_ms": taken, "rows": rows},
        notes=unlike(attempts),
    )


def _longest(cases: Iterable[Case]) -> str:
    return f"up to {max(len(case.events) for case in cases)}"


def unlike(attempts: Sequence[Attempt]) -> list[str]:
    """Whether what is explained again is what was explained at first: else it says so."""
    again = [one for one in attempts if "events" in one.report]
    names = [one.name for one in again if verdict(case_from(one.report)) != one.probe[0]]
    return [f"Explained otherwise from the report: {', '.join(names)}."] if names else []


# --- telling -----------------------------------------------------------------


def wrong(attempts: Iterable[Attempt]) -> list[str]:
    """A line for each verdict that is not the one wanted."""
    return [
        f"{one.name}: wanted {one.wanted}, got {_with_confidence(one)}"
        + (f", then {', '.join(one.probe[1:])}" if one.probe[1:] else "")
        for one in attempts
        if not one.right
    ]


def _with_confidence(one: Attempt) -> str:
    return one.probe[0] if one.confidence is None else f"{one.probe[0]} ({one.confidence:.2f})"


def unstable(attempts: Iterable[Attempt]) -> list[str]:
    """The scenarios whose verdict was not the same in every run."""
    verdicts: dict[str, list[str]] = {}
    for one in attempts:
        verdicts.setdefault(one.name, []).append(one.probe[0])
    return [
        f"{name}: {', '.join(found)}" for name, found in verdicts.items() if len(set(found)) > 1
    ]


def blamed(attempts: Iterable[Attempt], way: str) -> list[str]:
    """Where the sandbox was blamed for nothing."""
    return [
        f"{one.name}: {_answers(one, way)[0]}"
        for one in attempts
        if false_blame(one.wanted, _answers(one, way)[0])
    ]


def lossy(attempts: Iterable[Attempt]) -> list[str]:
    """Where events were lost, or the scenario could not be run at all."""
    return [
        f"{one.name}: {one.report.get('problem') or one.report['lost']}"
        for one in attempts
        if "problem" in one.report or one.report["lost"]["total"]
    ]


def lists(attempts: Sequence[Attempt]) -> dict[str, list[str]]:
    """What is told by name; a line that several runs gave is told once, with their number."""
    told = {
        "False blame by the probe": blamed(attempts, "probe"),
        "False blame by the baseline": blamed(attempts, "baseline"),
        "Wrong verdicts of the probe": wrong(attempts),
        "Verdicts that differ between runs": unstable(attempts),
        "Events lost, or not run": lossy(attempts),
    }
    return {title: _counted(lines) for title, lines in told.items()}


def _counted(lines: Sequence[str]) -> list[str]:
    return [
        line if count == 1 else f"{line} (in {count} runs)"
        for line, count in Counter(lines).items()
    ]


def held_out(attempts: Sequence[Attempt]) -> Table:
    """Each cause's scenarios judged by weights that were fitted without them."""
    cases = [
        Known(one.name, (one.wanted, *one.accept), case_from(one.report))
        for one in attempts
        if "events" in one.report
    ]
    told = calibration.cross_validated(cases)
    shares: dict[str, list[bool]] = {}
    for one, cause, _ in told:
        shares.setdefault(one.family, []).append(cause in one.wanted)
    right = statistics.fmean(cause in one.wanted for one, cause, _ in told)
    return Table(
        title="Leave one family out: top-1 by weights that never saw the cause",
        headers=["cause", "runs", "right"],
        rows=[[cause, str(len(hits)), str(sum(hits))] for cause, hits in sorted(shares.items())],
        goals=[Goal("share wrong", 1 - right, 0.1)],
        samples={cause: sum(hits) for cause, hits in shares.items()},
        notes=[f"{100 * right:.1f}% in all."],
    )


def tables(attempts: Sequence[Attempt], engine: str | None = None) -> dict[str, Table]:
    """The weights are fitted to what the core engine sees: of others only the answers count."""
    shown = {
        "summary": summary(attempts),
        "by_cause": by_cause(attempts),
        "calibration": reliability(attempts),
    }
    if engine is None:
        shown |= {"times": times(attempts), "held_out": held_out(attempts)}
    return shown


def show(terminal: Terminal, title: str, lines: Sequence[str]) -> None:
    terminal.line(terminal.style(f"{title}: {len(lines)}", "bold"))
    for line in lines:
        terminal.text(line, "  ")
    terminal.line()


def choose(only: str, every_nth: int = 1) -> tuple[list[gallery.Scenario], list[str]]:
    """The scenarios that can run here, and a line for each that cannot."""
    every = scenarios(only)[::every_nth]
    able = [one for one in every if not one.missing()]
    return able, [f"{one.name}: {', '.join(one.missing())}" for one in every if one.missing()]


def measure(bed: Testbed, rounds: int | None) -> Table:
    """The summary alone, as one bench among the others."""
    return summary(run_all(bed, choose("")[0], rounds or 1))


def as_json(
    attempts: Iterable[Attempt], shown: dict[str, Table], told: dict[str, list[str]]
) -> dict[str, object]:
    """`attempts` are all of them: that half of the riddles are one thing and half another is
    something that weights have to learn."""
    return {
        "tables": {name: table.as_json() for name, table in shown.items()},
        "lists": told,
        "attempts": [dataclasses.asdict(one) for one in attempts],
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.accuracy")
    parser.add_argument("--only", default="", metavar="SUBSTRING", help="of scenarios' names")
    parser.add_argument("--slice", type=int, default=1, metavar="N", help="every Nth of them only")
    parser.add_argument("--engine", choices=ENGINES, help="it, for each run alone; no agent")
    parser.add_argument("--runs", type=int, default=1, metavar="N", help="of each scenario")
    parser.add_argument("--json", type=Path, metavar="FILE", help="everything, with all reports")
    options = parser.parse_args()
    if os.geteuid():
        parser.error("watching the kernel takes root")
    chosen, unable = choose(options.only, options.slice)
    pairs = riddles(options.only)
    if not chosen and not pairs:
        parser.error(f"no scenario that can run here is called {options.only!r}")
    terminal = Terminal(sys.stdout)
    with Testbed() as bed:
        every = run_all(bed, [*chosen, *pairs], options.runs, options.engine)
    halves = {half.name for half in pairs}
    attempts = [one for one in every if one.name not in halves]
    unsolvable = [one for one in every if one.name in halves]
    shown = tables(attempts, options.engine) if attempts else {}
    if unsolvable:
        shown["riddles"] = of_riddles(unsolvable)
    told = {**lists(attempts), "Left out, for want of": unable}
    for table in shown.values():
        table.show(terminal)
    for title, lines in told.items():
        show(terminal, title, lines)
    if options.json:
        text = json.dumps(as_json(every, shown, told), indent=2)
        options.json.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
