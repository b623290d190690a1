"""That the rules know nothing of the scenarios that they are measured on."""

from __future__ import annotations

import re
import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent
sys.path.insert(0, str(TESTS / "scenarios"))

from gallery import GALLERIES, Scenario, load, load_riddles  # noqa: E402

RULES = "\n".join(path.read_text() for path in (TESTS.parent / "probe/diagnose").glob("*.py"))
HOST = re.compile(r"[\w-]+\.(?:example|corp|internal|invalid|test)(?:\.\w+)?\b")
PATH = re.compile(r"(?<![\w.$}])/(?:srv|opt|data|media|mnt|etc|var|home|usr/share)/[\w./-]+\w")
# What sources and well-known files of systems are called by.
KNOWN = re.compile(
    r"/etc/(passwd|hostname|hosts|resolv\.conf|ld\.so|ssl|fonts|os-release)|/usr/share$"
)


def scenarios() -> list[Scenario]:
    halves = [half for riddle in load_riddles() for half in riddle.both]
    return [one for path in GALLERIES for one in load(path)] + halves


def test_no_name_of_a_scenario_stands_in_the_rules() -> None:
    names = [one.name for one in scenarios() if len(one.name.split()) > 2]
    assert [name for name in names if name.lower() in RULES.lower()] == []


def test_no_path_and_no_host_of_a_scenario_does() -> None:
    found = set()
    for one in scenarios():
        text = f"{one.setup or ''}\n{one.run}\n{one.text or ''}"
        found |= {*HOST.findall(text), *PATH.findall(text)}
    assert len(found) > 100
    assert sorted(name for name in found if name in RULES and not KNOWN.match(name)) == []
