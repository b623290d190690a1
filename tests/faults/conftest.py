"""Options of the fault suite: the store, and the seed of a round that failed."""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path

import pytest
from world import Store

_BASE = "FAULTS_BASE"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("faults")
    group.addoption("--store", metavar="URL", help="a database of collectors (default: SQLite)")
    group.addoption(
        "--store-kill", metavar="COMMAND", help="kills that database and starts it again"
    )
    group.addoption("--seed", type=int, help="replays the round of this seed alone")
    group.addoption("--rounds", type=int, default=16, help="of random kills")


def pytest_configure(config: pytest.Config) -> None:
    """All workers of pytest-xdist agree on the seeds."""
    os.environ.setdefault(_BASE, str(random.randrange(1_000_000)))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        given = metafunc.config.getoption("--seed")
        rounds = metafunc.config.getoption("--rounds")
        chance = random.Random(os.environ[_BASE])
        seeds = [given] if given is not None else chance.sample(range(1_000_000), rounds)
        metafunc.parametrize("seed", seeds)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    sums: Counter[str] = Counter()
    for report in terminalreporter.getreports("passed"):
        sums.update(dict(report.user_properties))
    if sums:
        terminalreporter.line(f"{sums['kills']} kills: {sums['events']:,} events, each stored once")


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    url = request.config.getoption("--store")
    return Store(url or str(tmp_path / "c.db"), request.config.getoption("--store-kill"))
