"""That a riddle is one: of both works the probe hears the same, and says the same."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import Agent, validated
from gallery import Riddle, load_riddles, watch

pytestmark = [pytest.mark.bpf, pytest.mark.gallery]

# What a program does is in these; the rest differs between two runs of one program.
TELLING = ("kind", "syscall", "action", "errno", "path", "address", "argv", "searched")
TELLING += ("code", "signal", "sender", "silenced", "last_words", "last_output", "missing")
CHANCE = re.compile(r"\d+|(sandbox-|public-|/sem\.)[\w-]+(/[ab]\d)?")  # ports, processes, folders
ATTEMPTS = 5  # threads and timers make some difference of their own


@pytest.mark.parametrize("riddle", load_riddles(), ids=lambda riddle: riddle.name)
def test_both_look_the_same(
    riddle: Riddle, agent: Agent, public: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = riddle.followed.missing()
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed (make gallery installs it)")
    monkeypatch.setenv("PROBE_SOCKET", agent.socket)
    seen: list[list[Any]] = [[], []]
    for number in range(ATTEMPTS):
        for of_one, scenario, half in zip(seen, riddle.both, "ab", strict=True):
            report = validated(watch(scenario, public / f"{half}{number}"))
            of_one.append((said(report), heard(report)))
        if any(one in seen[1] for one in seen[0]):
            return
    assert seen[0][-1] == seen[1][-1]


def heard(report: dict[str, Any]) -> set[str]:
    """In no order, and once: what happens side by side has none, and who waits tries again."""
    return {
        CHANCE.sub("N", json.dumps({name: event.get(name) for name in TELLING}))
        for event in report["events"]
        if event["kind"] != "exec" or event.get("errno") is None  # tried beside by a search
    }


def said(report: dict[str, Any]) -> tuple[str, float]:
    verdict = report["verdict"]
    return verdict["cause"], round(verdict["confidence"], 1)
