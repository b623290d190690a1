"""How often is the verdict right? `python -m bench.accuracy`, as root.

Every scenario of the galleries has a known cause. Each is run under `probe run`, with
an agent, and once more unwatched for the baseline (bench.baseline), which gets the
command's real output and exit status. The floor says "the work failed" of everything.
What all three answer is then counted alike. The galleries are those that the rules were
written against, and the baseline's patterns were written with them in sight as well:
the numbers are an upper bound for both, and the difference is what counts.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from bench import baseline
from bench.measure import Goal, Table
from bench.testbed import Testbed
from collector.sandbox import Profile, Sandbox
from probe.causes import CAUSES
from probe.coverage import Coverage, Losses
from probe.diagnose import Case, explain, fallbacks, seccomp
from probe.events import Connect, Event, Exec, Exit, File, Seccomp, from_json, time_from_text
from probe.span import Span
from probe.terminal import Terminal
from tests.scenarios import gallery

FOLDER = Path(gallery.__file__).parent
GALLERIES = ("gallery.toml", "adversarial.toml", "workflows.toml")
JOBS = 2
PATIENCE_S = 60
NONE, UNKNOWN, BROKEN = "none", "unknown", "could not be run"
BINS = (0.0, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0)
SURE = 0.9  # of the verdicts that are as sure as this, nine in ten must be right
MANY_EVENTS = 10_000
MANY_MAX_MS = 50.0
MS = 1e3


@dataclass(frozen=True)
class Attempt:
    """One scenario run once: what was wanted, and what each of the three answers, best first."""

    name: str
    wanted: str
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
        return self.probe[0] == self.wanted


WAYS = ("probe", "baseline", "floor")


# --- running -----------------------------------------------------------------


def scenarios(only: str = "") -> list[gallery.Scenario]:
    """Those of both galleries whose name holds `only`."""
    every = [one for name in GALLERIES for one in gallery.load(FOLDER / name)]
    return [one for one in every if only in one.name]


def run_all(bed: Testbed, chosen: Sequence[gallery.Scenario], runs: int) -> list[Attempt]:
    """Each scenario `runs` times, a few at once, all beside one agent."""
    folders = (bed.folder / f"scenario-{number}" for number in range(len(chosen) * runs))
    socket = bed.environment(agent=True)["PROBE_SOCKET"]
    with (
        bed.agent(),
        mock.patch.dict(os.environ, {"PROBE_SOCKET": socket}),
        ThreadPoolExecutor(JOBS) as pool,
    ):
        return list(pool.map(partial(attempt, bed), list(chosen) * runs, folders))


def attempt(bed: Testbed, scenario: gallery.Scenario, folder: Path) -> Attempt:
    """The scenario watched, then unwatched; each in an empty directory of its own."""
    folder.mkdir()
    try:
        report = gallery.watch(scenario, folder / "watched")
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        report = {"problem": str(error)}
    status, output = unwatched(bed, scenario, folder / "unwatched")
    return Attempt(
        name=scenario.name,
        wanted=scenario.cause,
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
    argv = [*gallery.INTERPRETERS[scenario.lang], gallery.filled(scenario.run, values)]
    profile = scenario.sandbox or Profile()
    if profile.firewall is not None:
        rules = gallery.filled(profile.firewall, values)
        profile = dataclasses.replace(profile, firewall=rules)
    streams = [folder.with_name(name) for name in ("stderr", "stdout")]
    with Sandbox(profile, f"unwatched-{os.getpid()}-{folder.parent.name}") as sandbox:
        status = _run(sandbox.command(argv), bed.environment(agent=False), *streams)
    said = (stream.read_text(errors="replace")[-baseline.TAIL :] for stream in streams)
    return status, next((text for text in said if text.strip()), "")


def _run(command: list[str], environment: dict[str, str], stderr: Path, stdout: Path) -> int:
    """Runs it in a session of its own, which ends with it; 128+N after signal N."""
    with stderr.open("wb") as errors, stdout.open("wb") as output:
        process = subprocess.Popen(
            command, env=environment, stdout=output, stderr=errors, start_new_session=True
        )
    try:
        status = process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        status = process.wait()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    return 128 - status if status < 0 else status


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
    answers: list[str] = getattr(one, way)
    return answers


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


def calibration(attempts: Sequence[Attempt]) -> Table:
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


# --- explaining again --------------------------------------------------------


def case_of(report: dict[str, Any]) -> Case:
    """The case behind a report. Its first program is the span's own process."""
    events = tuple(map(from_json, report["events"]))
    begun = next((event for event in events if isinstance(event, Exec)), None)
    shown, coverage = report["span"], report["coverage"]
    started_ns = time_from_text(shown["started_at"])
    span = Span(
        key=0,
        run=shown["run"],
        test=shown["test"],
        command=tuple(shown["command"]),
        sandbox=shown["sandbox"],
        boot=shown["boot"],
        pid=begun.pid if begun else events[0].pid if events else 0,
        started_ns=started_ns,
        ended_ns=started_ns + int((shown["duration_s"] or 0) * 1e9),
        exit_code=shown["exit_code"],
        signal=shown["signal"],
        outcome=report["outcome"],
    )
    seen = Coverage(coverage["engine"], coverage["senses"], coverage["attribution"])
    return Case(span, events, seen, Losses(report["lost"]["by_sense"]))


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
    cases = [case_of(one.report) for one in attempts if "events" in one.report]
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
    names = [one.name for one in again if verdict(case_of(one.report)) != one.probe[0]]
    return [f"Explained otherwise from the report: {', '.join(names)}."] if names else []


def took_ms(case: Case) -> float:
    """The best of three, or the only one where it takes long."""
    best = float("inf")
    for _ in range(3):
        began = time.perf_counter()
        explain(case)
        best = min(best, (time.perf_counter() - began) * MS)
        if best > 1000:
            break
    return best


def made_up(events: Sequence[Event]) -> Case:
    """A failed span of these events, whose root is process 1, seen in full."""
    last = events[-1].time_ns
    ended = dataclasses.replace(_exit(1, 0, last + 1, 1), last_words="Error: build failed")
    span = Span(0, "", "made up", ("make",), "", "", 1, 0, ended_ns=last + 2, exit_code=1)
    span.outcome = "failed"
    return Case(span, (*events, ended), Coverage("bpf", {}), Losses())


def _exit(pid: int, ppid: int, at: int, code: int) -> Exit:
    return Exit(sequence=at, time_ns=at * 1000, pid=pid, ppid=ppid, code=code, duration_s=1e-3)


def many_processes(count: int) -> Case:
    """Processes that start, meet a refusal or a missing file, and end; one in ten fails."""
    events: list[Event] = [Exec(sequence=0, time_ns=1, pid=1, path="/usr/bin/make")]
    for number in range(count // 4):
        pid, at = number + 2, 4 * number + 1
        parent = 1 if number % 8 == 0 else pid - 1
        path = f"/usr/bin/tool{number % 7}"
        events += [
            Exec(sequence=at, time_ns=at * 1000, pid=pid, ppid=parent, path=path),
            _failure(number, pid, parent, at + 1),
            _failure(number + 1, pid, parent, at + 2),
            _exit(pid, parent, at + 3, int(number % 10 == 0)),
        ]
    return made_up(events)


def one_process(count: int) -> Case:
    """One program that fails at everything it tries, each time at another thing."""
    events: list[Event] = [Exec(sequence=0, time_ns=1, pid=1, path="/usr/bin/python3")]
    return made_up([*events, *(_failure(number, 1, 0, number) for number in range(1, count))])


def many_connections(count: int) -> Case:
    """Processes that are refused, each at another port, and fail with their own words for it."""
    events: list[Event] = [Exec(sequence=0, time_ns=1, pid=1, path="/usr/bin/make")]
    for number in range(3, 2 * count, 4):  # the fourth kind of failure
        ended = _exit(number, 1, number + 1, 1)
        said = f"cannot reach 10.0.0.1:{number}: Connection refused"
        events += [_failure(number, number, 1, number), dataclasses.replace(ended, last_words=said)]
    return made_up(events)


MADE_UP: dict[str, Callable[[int], Case]] = {
    "processes": many_processes,
    "one process": one_process,
    "connections": many_connections,
}


def _failure(number: int, pid: int, ppid: int, at: int) -> Event:
    common: dict[str, Any] = {"sequence": at, "time_ns": at * 1000, "pid": pid, "ppid": ppid}
    path = f"/srv/file{number}"
    kinds: tuple[Callable[[], Event], ...] = (
        lambda: Seccomp(**common, syscall="mkdir", path=path, errno="EPERM", next=("write=1",)),
        lambda: Exec(**common, path=f"/usr/bin/tool{number}", errno="ENOENT"),
        lambda: File(**common, syscall="openat", path=path, errno="EROFS", mount="/srv"),
        lambda: Connect(
            **common, family="ipv4", address="10.0.0.1", port=number, errno="ECONNREFUSED"
        ),
    )
    return kinds[number % len(kinds)]()  # many_connections counts on the order


# --- leaving out -------------------------------------------------------------


@dataclass(frozen=True)
class Leaving:
    """One entry of the table of fallbacks: the runs that it concerns, right with it and without."""

    entry: str
    concerned: int
    right: int
    right_without: int
    changed: list[str]

    @property
    def share(self) -> float:
        return self.right_without / self.concerned


def leave_out(attempts: Sequence[Attempt]) -> Table:
    """What the rules owe to each entry of the one table that was fitted, probe.diagnose.fallbacks.

    Each family of calls, and each harmless call, is taken out in turn, and the runs in
    which a filter refused one of its calls are explained again.
    """
    cases = [(one, case_of(one.report)) for one in attempts if "events" in one.report]
    found, untried = [], []
    for entry, calls, without in entries():
        concerned = [(one, case) for one, case in cases if calls & _refused(case)]
        if concerned:
            found.append(leaving(entry, concerned, without))
        else:
            untried.append(entry)
    found.sort(key=lambda one: (one.share, one.entry))
    changed = sorted({name for one in found for name in one.changed})
    return Table(
        title="Leave one out: top-1 of the runs concerned, with an entry and without it",
        headers=["entry of the table", "runs", "right with it", "right without"],
        rows=[
            [one.entry, str(one.concerned), str(one.right), str(one.right_without)] for one in found
        ],
        goals=[],
        samples={one.entry: dataclasses.asdict(one) for one in found},
        notes=[
            f"Wrong without an entry: {'; '.join(changed) or 'none'}.",
            f"Entries that no run tries: {'; '.join(untried) or 'none'}.",
        ],
    )


def entries() -> Iterator[tuple[str, frozenset[str], Callable[[], Any]]]:
    """A name for each entry, the calls that it is about, and how to take it out."""
    families = fallbacks._FAMILIES
    every = frozenset().union(*families, fallbacks.HARMLESS)
    yield "the whole table", every, without_any
    for family in families:
        rest = tuple(other for other in families if other is not family)
        without = partial(mock.patch.object, fallbacks, "_FAMILIES", rest)
        yield " ".join(sorted(family)[:3]), family, without
    for call in sorted(fallbacks.HARMLESS):
        fewer = fallbacks.HARMLESS - {call}
        without = partial(mock.patch.object, seccomp, "HARMLESS", fewer)
        yield f"{call} (harmless)", frozenset({call}), without


@contextlib.contextmanager
def without_any() -> Iterator[None]:
    """No family and no harmless call: what the rules know without having been told."""
    with (
        mock.patch.object(fallbacks, "_FAMILIES", ()),
        mock.patch.object(seccomp, "HARMLESS", frozenset()),
    ):
        yield


def _refused(case: Case) -> set[str]:
    return {event.syscall for event in case.events if isinstance(event, Seccomp)}


def leaving(
    entry: str, concerned: Sequence[tuple[Attempt, Case]], without: Callable[[], Any]
) -> Leaving:
    before = [verdict(case) == one.wanted for one, case in concerned]
    with without():
        after = [verdict(case) == one.wanted for one, case in concerned]
    trio = zip(concerned, before, after, strict=True)
    changed = sorted({one.name for (one, _), was, now in trio if was and not now})
    return Leaving(entry, len(concerned), sum(before), sum(after), changed)


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


def tables(attempts: Sequence[Attempt]) -> dict[str, Table]:
    return {
        "summary": summary(attempts),
        "by_cause": by_cause(attempts),
        "calibration": calibration(attempts),
        "times": times(attempts),
        "leave_out": leave_out(attempts),
    }


def show(terminal: Terminal, title: str, lines: Sequence[str]) -> None:
    terminal.line(terminal.style(f"{title}: {len(lines)}", "bold"))
    for line in lines:
        terminal.text(line, "  ")
    terminal.line()


def choose(only: str) -> tuple[list[gallery.Scenario], list[str]]:
    """The scenarios that can run here, and a line for each that cannot."""
    every = scenarios(only)
    able = [one for one in every if not one.missing()]
    return able, [f"{one.name}: {', '.join(one.missing())}" for one in every if one.missing()]


def measure(bed: Testbed, rounds: int | None) -> Table:
    """The summary alone, as one bench among the others."""
    return summary(run_all(bed, choose("")[0], rounds or 1))


def as_json(
    attempts: Iterable[Attempt], shown: dict[str, Table], told: dict[str, list[str]]
) -> dict[str, object]:
    return {
        "tables": {name: table.as_json() for name, table in shown.items()},
        "lists": told,
        "attempts": [dataclasses.asdict(one) for one in attempts],
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.accuracy")
    parser.add_argument("--only", default="", metavar="SUBSTRING", help="of scenarios' names")
    parser.add_argument("--runs", type=int, default=1, metavar="N", help="of each scenario")
    parser.add_argument("--json", type=Path, metavar="FILE", help="everything, with all reports")
    options = parser.parse_args()
    if os.geteuid():
        parser.error("watching the kernel takes root")
    chosen, unable = choose(options.only)
    if not chosen:
        parser.error(f"no scenario that can run here is called {options.only!r}")
    terminal = Terminal(sys.stdout)
    with Testbed() as bed:
        attempts = run_all(bed, chosen, options.runs)
    shown, told = tables(attempts), {**lists(attempts), "Left out, for want of": unable}
    for table in shown.values():
        table.show(terminal)
    for title, lines in told.items():
        show(terminal, title, lines)
    if options.json:
        text = json.dumps(as_json(attempts, shown, told), indent=2)
        options.json.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
