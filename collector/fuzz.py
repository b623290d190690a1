"""`collector fuzz`: a campaign of workflows in one sandbox profile, watched and explained.

Everything is the real thing: a collector that serves, an agent that streams to it, a sandbox for
each workflow. What has an outcome already is not run again, so a campaign that was broken off
goes on where it was.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

from collector import explanation
from collector.campaign.origin import Origin
from collector.campaign.profiles import profile
from collector.campaign.verdict import OWN_FAULT, expected
from collector.campaign.workflow import Workflow
from collector.outcomes import Outcome
from collector.outcomes.outcome import FAILED, PASSED, TIMEOUT, shortened
from collector.sandbox import Profile, Sandbox
from collector.sandbox.calls import Calls
from collector.store import Store
from probe.causes import CAUSES
from probe.problem import Problem

LIMIT_S = 120.0  # for one workflow
_START_S = 30.0
_END_S = 60.0  # for an agent to deliver the rest
_MESSAGE = 2000  # characters of what a workflow said last

Progress = Callable[[int, int, int], None]  # how many are done, of how many, how many failed


@dataclass(frozen=True, slots=True)
class Campaign:
    """Workflows of one run, in the profile of that name."""

    run: str
    profile: str
    workflows: Sequence[Workflow]
    jobs: int


@dataclass(slots=True)
class Accuracy:
    """How the explanations of a campaign compare with what its profile and its bugs imply."""

    passed: int = 0
    failed: int = 0
    right: int = 0  # of those that failed
    false_blame: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    causes: Counter[str] = field(default_factory=Counter)


def choose(workflows: Sequence[Workflow], limit: int | None) -> list[Workflow]:
    """So many of them, spread over all."""
    count = len(workflows)
    if limit is None or limit >= count:
        return list(workflows)
    return [workflows[at * count // limit] for at in range(limit)]


def fuzz(store: Store, database: str, campaign: Campaign, progress: Progress) -> None:
    """Runs what has no outcome yet. Problem where the agent or a sandbox cannot be had."""
    known = {outcome.test for outcome in store.outcomes(campaign.run)}
    waiting = [one for one in campaign.workflows if one.id not in known]
    done, failed = len(campaign.workflows) - len(waiting), 0
    progress(done, len(campaign.workflows), failed)
    if not waiting:
        return
    with _watched(database), Origin() as origin, ThreadPoolExecutor(campaign.jobs) as pool:
        running = [pool.submit(_run, campaign, one, origin.prefix) for one in waiting]
        try:
            for finished in as_completed(running):
                outcome = finished.result()
                store.add_outcomes(campaign.run, [outcome])
                done, failed = done + 1, failed + (outcome.outcome != PASSED)
                progress(done, len(campaign.workflows), failed)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _run(campaign: Campaign, workflow: Workflow, prefix: Sequence[str]) -> Outcome:
    """One workflow in a sandbox and a directory of its own."""
    labels = {
        "application": workflow.application,
        "domain": workflow.domain,
        "language": workflow.language,
        "profile": campaign.profile,
    }
    with tempfile.TemporaryDirectory(prefix="workflow-") as name:
        folder = Path(name)
        workflow.lay(folder)
        allowed = profile(campaign.profile, workflow.application)
        box = Profile(**{**vars(allowed), "shared": [*allowed.shared, name]})
        unique = f"fuzz-{os.getpid()}-{folder.name}"
        started_ns = time.time_ns()
        with Sandbox(box, unique) as sandbox:
            calls = Calls(sandbox, campaign.run, labels, prefix=prefix)
            result = calls.run(workflow.id, workflow.command, folder=name, limit_s=LIMIT_S)
    kind = TIMEOUT if result.timed_out else FAILED if result.status else PASSED
    said = (result.stderr or result.stdout).decode(errors="replace")[-_MESSAGE:]
    return Outcome(
        workflow.id,
        workflow.id,
        kind,
        shortened(said.replace("\0", "\ufffd")) if kind != PASSED else None,
        result.duration_s,
        None,
        started_ns,
    )


@contextlib.contextmanager
def _watched(database: str) -> Iterator[None]:
    """A collector on the database, and an agent that streams to it, for as long as it takes."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        folder = Path(name)
        address, socket = f"unix:{folder}/collector.sock", str(folder / "agent.sock")
        serve = ["collector.cli", "serve", "--listen", address, "--db", database]
        agent = ["probe.cli", "agent", "--socket", socket, "--collector", address]
        agent += ["--spool", str(folder / "spool"), "--keep-minutes", "0"]
        before = os.environ.get("PROBE_SOCKET")
        with (
            _daemon(serve, folder / "collector.sock", folder / "collector.log"),
            _daemon(agent, Path(socket), folder / "agent.log"),
        ):
            os.environ["PROBE_SOCKET"] = socket
            try:
                yield
            finally:
                os.environ.pop("PROBE_SOCKET")
                if before is not None:
                    os.environ["PROBE_SOCKET"] = before


@contextlib.contextmanager
def _daemon(module: Sequence[str], ready: Path, log: Path) -> Iterator[None]:
    """Problem, with its last words, where it does not come up."""
    with log.open("wb") as file:
        process = subprocess.Popen([sys.executable, "-m", *module], stderr=file, stdout=file)
    try:
        end = time.monotonic() + _START_S
        while not ready.exists():
            if process.poll() is not None or time.monotonic() > end:
                lines = log.read_text(errors="replace").strip().splitlines()
                raise Problem(f"{' '.join(module[:2])} did not start", lines[-1] if lines else "")
            time.sleep(0.02)
        yield
    finally:
        process.terminate()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def accuracy(store: Store, campaign: Campaign) -> Accuracy:
    """Of all that the run has, by the causes that count as right for each workflow."""
    found = Accuracy()
    by_id = {one.id: one for one in campaign.workflows}
    overview = explanation.overview(store, campaign.run)
    verdicts = {one.test: one.verdict["cause"] for group in overview.groups for one in group.tests}
    for outcome in store.outcomes(campaign.run):
        workflow = by_id.get(outcome.test)
        if workflow is None:
            continue
        cause = verdicts.get(outcome.test, "none")
        right = expected(workflow, campaign.profile)
        found.passed += cause == "none"
        if cause != "none":
            found.failed += 1
            found.causes[cause] += 1
            found.right += cause in right
        if cause in right:
            continue
        told = f"{workflow.id}: {cause} instead of {' or '.join(sorted(right))}"
        if right <= OWN_FAULT | {"none"} and cause in CAUSES and CAUSES[cause].layer == "sandbox":
            found.false_blame.append(told)
        else:
            found.wrong.append(told)
    return found
