"""Each scenario of the gallery gets its cause."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Agent, validated
from gallery import GALLERIES, Scenario, cause, load, watch

SLOW = GALLERIES[1:]
SCENARIOS = [
    pytest.param(scenario, id=scenario.name, marks=[pytest.mark.gallery] if path in SLOW else [])
    for path in GALLERIES
    for scenario in load(path)
]

pytestmark = pytest.mark.bpf


def test_names_are_unique() -> None:
    assert len({parameter.id for parameter in SCENARIOS}) == len(SCENARIOS)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_cause(
    scenario: Scenario, agent: Agent, public: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = scenario.missing()
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed (make gallery installs it)")
    monkeypatch.setenv("PROBE_SOCKET", agent.socket)
    report = validated(watch(scenario, public / "work"))
    told = {name: report[name] for name in ("verdict", "alternatives", "lost", "coverage")}
    right = (scenario.cause, *scenario.accept)
    if scenario.hard and cause(report) not in right:
        pytest.xfail(f"{cause(report)} instead of {scenario.cause}")
    assert cause(report) in right, json.dumps(told, indent=1)
    assert report["lost"]["total"] == 0
