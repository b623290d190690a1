"""Each scenario of the gallery gets its cause."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Agent, validated
from gallery import Scenario, cause, load, watch

SCENARIOS = load(Path(__file__).parent / "gallery.toml")

pytestmark = pytest.mark.bpf


def test_names_are_unique() -> None:
    assert len({scenario.name for scenario in SCENARIOS}) == len(SCENARIOS)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_cause(
    scenario: Scenario, agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not scenario.missing(), "make setup installs what the gallery needs"
    monkeypatch.setenv("PROBE_SOCKET", agent.socket)
    report = validated(watch(scenario, tmp_path / "work"))
    assert cause(report) == scenario.cause, report["verdict"]
    assert report["lost"]["total"] == 0
