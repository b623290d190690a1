"""Files of outcomes, damaged at random: outcomes or one clear line come of each, soon, and in
bounded memory. A few by default; `make fuzz-imports` takes many. A failure prints the number that
brings it back: --fuzz-only NUMBER.
"""

from __future__ import annotations

import json
import random
import resource
import time
from pathlib import Path

import pytest
from test_outcomes_formats import CTRF, LINES, SWEBENCH_INSTANCE, SWEBENCH_RUN, TAP, archive
from test_outcomes_junit import GO, PYTEST, SUREFIRE

from collector.outcomes.outcome import MESSAGE_LIMIT, NAME_LIMIT, OUTCOMES
from collector.outcomes.read import parse
from probe.problem import Problem

DATA = Path(__file__).parent.parent / "data" / "outcomes"
LIMIT_S = 10.0  # for one file: none takes a hundredth of it
LIMIT_KB = 300 << 10  # of growth, over all files

SEEDS = (
    *(PYTEST, GO, SUREFIRE, TAP, LINES),
    *(json.dumps(one).encode() for one in (CTRF, SWEBENCH_RUN, SWEBENCH_INSTANCE)),
    *(DATA.joinpath(f"inspect.{form}").read_bytes() for form in ("eval", "json")),
    archive({"header.json": {"eval": {}}, "summaries.json": [{"id": 1, "scores": {"s": {}}}]}),
)
HOSTILE = (
    *(b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"\\ud800", b"\\u0000", b"\x1b[2J", b"&#0;", b"&x;"),
    *(b"<![CDATA[", b"<!DOCTYPE x [", b"]]>", b"<a>" * 3000, b"[" * 3000, b'{"a":' * 3000),
    *(b"1e999", b"-1", b"NaN", b"9" * 400, b"null", b"true", b"[]", b"{}", b'""', b'"'),
    *(b"\n", b"\r", b"    " * 40, b"1..999999999\n", b"not ok ", b"  ---\n", b"Bail out!\n"),
    *(b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06", b"\xff\xff\xff\xff"),
)


def mutated(number: int) -> bytes:
    chance = random.Random(number)
    content = bytearray(chance.choice(SEEDS))
    for _ in range(chance.choice((1, 1, 2, 3, 8))):
        at = chance.randrange(len(content) + 1)
        length = chance.choice((0, 1, 2, 4, 30, 500))
        match chance.randrange(6):
            case 0:
                content[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                del content[at : at + length]
            case 2:
                content[at : at + chance.choice((0, length))] = chance.choice(HOSTILE)
            case 3:
                content[at:at] = content[at : at + length] * chance.choice((1, 2, 50))
            case 4:
                other = chance.choice(SEEDS)
                start = chance.randrange(len(other))
                content[at:at] = other[start : start + length]
            case _:
                del content[at:]
    return bytes(content)


def check(content: bytes) -> None:
    try:
        found = parse(content)
    except Problem as problem:
        assert "\n" not in str(problem)
        assert len(str(problem)) <= 300
        return
    assert len({outcome.test for outcome in found}) == len(found)
    for outcome in found:
        assert outcome.outcome in OUTCOMES
        assert 0 < len(outcome.test.encode()) <= NAME_LIMIT
        assert len(outcome.message or "") <= MESSAGE_LIMIT + 3
        assert outcome.started_ns is None or 0 <= outcome.started_ns < 1 << 63


@pytest.mark.timeout(3600)
def test_damaged_files(pytestconfig: pytest.Config) -> None:
    only = pytestconfig.getoption("--fuzz-only")
    numbers = range(pytestconfig.getoption("--fuzz")) if only is None else [only]
    for content in SEEDS:
        check(content)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in numbers:
        began = time.monotonic()
        try:
            check(mutated(number))
        except Exception as error:
            raise AssertionError(f"--fuzz-only {number}") from error
        assert time.monotonic() - began < LIMIT_S, f"--fuzz-only {number}"
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < LIMIT_KB
