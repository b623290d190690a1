"""Whether the end of an output tells of the work's own fault, on what real programs printed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from probe.diagnose import faults, words

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

OUTPUTS = tomllib.loads(Path(__file__).with_name("outputs.toml").read_text())


def texts(of: str) -> list[object]:
    return [
        pytest.param(output["text"], id=f"{output['tool']}: {output['how']}")
        for output in OUTPUTS[of]
    ]


@pytest.mark.parametrize("text", texts("own"))
def test_of_the_work(text: str) -> None:
    assert faults.of_work(words.told(text))


@pytest.mark.parametrize("text", texts("surroundings"))
def test_of_its_surroundings(text: str) -> None:
    assert not faults.of_work(words.told(text))
