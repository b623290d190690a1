"""A few workflows of the corpus, really run: do they pass and fail where they should?"""

from __future__ import annotations

import dataclasses
import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.campaign import Workflow, corpus, expected, profile
from collector.campaign.origin import Origin
from collector.sandbox import Sandbox

SEED = 4
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PROGRAMS = {
    "python": "python3",
    "c": "gcc",
    "java": "javac",
    "bash": "bash",
    "node": "node",
    "perl": "perl",
    "ruby": "ruby",
}

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="sandboxes are made by root")


def sample(application: str, count: int, tight: str) -> list[Workflow]:
    """Half of them such as fail in the tight profile."""
    rng = random.Random(SEED)
    among = [workflow for workflow in corpus(SEED) if workflow.application == application]
    bitten = [w for w in among if not w.bug and expected(w, tight) != {"none"}]
    others = [w for w in among if w not in bitten]
    half = min(count // 2, len(bitten))
    return [*rng.sample(bitten, half), *rng.sample(others, count - half)]


CASES = [
    (workflow, name)
    for tight in ("read-only", "tight-memory")
    for workflow in (*sample("code", 6, tight), *sample("browser", 1, tight))
    for name in ("generous", tight)
]


@pytest.fixture(scope="module")
def origin() -> Iterator[Origin]:
    with Origin() as started:
        yield started


@pytest.mark.parametrize(
    ("workflow", "name"), CASES, ids=[f"{workflow.id}-{name}" for workflow, name in CASES]
)
def test_ends_as_expected(workflow: Workflow, name: str, origin: Origin, tmp_path: Path) -> None:
    needed = "chromium" if "chromium" in workflow.needs else PROGRAMS[workflow.language]
    if shutil.which(needed, path=PATH) is None:
        pytest.skip(f"{needed} is not installed")
    workflow.lay(tmp_path)
    allowed = dataclasses.replace(profile(name, workflow.application), shared=[str(tmp_path)])
    with Sandbox(allowed, f"campaign-{os.getpid()}") as sandbox:
        done = subprocess.run(
            [*origin.prefix, *sandbox.command(workflow.command)],
            cwd=tmp_path,
            env={**os.environ, "PATH": PATH},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=60,
            check=False,
        )
    passes = expected(workflow, name) == {"none"}
    assert (done.returncode == 0) == passes, done.stdout
