"""A campaign in small: real sandboxes, a real agent and collector, each failure explained."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path

import pytest
from conftest import BIN

from collector import explanation, fuzz
from collector.campaign.workflow import corpus
from collector.store import open_store

pytestmark = [pytest.mark.bpf, pytest.mark.timeout(300)]


def collector(*arguments: str | Path, status: int = 0) -> str:
    done = subprocess.run(
        [BIN / "collector", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout if status == 0 else done.stderr


def test_a_campaign_and_its_report(tmp_path: Path) -> None:
    database = tmp_path / "fuzz.db"
    options = ("--db", database, "--domain", "web", "--domain", "files", "--limit", "12")
    told = collector("fuzz", *options, "--profile", "offline", "--jobs", "2")
    assert told.startswith("offline: ") and ", 0 sandboxes blamed wrongly" in told
    again = collector("fuzz", *options, "--profile", "offline")  # nothing is left to do
    assert again == told
    page = tmp_path / "page.html"
    collector("report", "--run", "fuzz-offline", "--db", database, "-o", page)
    assert "of 12 failed" in page.read_text()
    with contextlib.closing(open_store(str(database), create=False)) as store:
        labels = [one.span.labels for one in store.observations("fuzz-offline")]
    assert len(labels) == 12
    assert {one["profile"] for one in labels} == {"offline"}
    assert {one["domain"] for one in labels} == {"web", "files"}


def test_too_many_tabs(tmp_path: Path) -> None:
    """Chromium goes on without the page that was killed; what drove it does not."""
    [workflow] = [one for one in corpus() if one.id == "tabs/many-tabs-001"]
    database = str(tmp_path / "fuzz.db")
    with contextlib.closing(open_store(database)) as store:
        campaign = fuzz.Campaign("r", "tight-memory", [workflow], 1)
        fuzz.fuzz(store, database, campaign, lambda done, total, failed: None)
        verdict = explanation.of_test(store, "r", workflow.id)["verdict"]
        found = fuzz.accuracy(store, campaign)
    assert verdict["cause"] == "memory.cgroup_oom"
    assert "chromium" in verdict["summary"] and "320 MiB" in verdict["summary"]
    assert "raise the memory limit" in verdict["advice"]
    assert (found.failed, found.right, found.wrong, found.false_blame) == (1, 1, [], [])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--profile", "nonsense"), "no profile 'nonsense': there are generous, "),
        (("--domain", "nonsense"), "no domain 'nonsense': there are lifecycle, "),
        (("--limit", "0"), "'0': no number above 0"),
        (("--run", " "), "--run: the name is empty"),
    ],
)
def test_bad_input(tmp_path: Path, options: tuple[str, ...], words: str) -> None:
    told = collector("fuzz", *options, "--db", tmp_path / "c.db", status=2)
    assert told.count("\n") == 1 and words in told
