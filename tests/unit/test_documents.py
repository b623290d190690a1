"""What is generated from the definitions is up to date, and nothing is undocumented."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from probe.causes import CAUSES
from probe.diagnose import filesystem, network, process
from probe.doctor.schema import doctor_schema
from probe.schema import report_schema

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import document  # noqa: E402


def test_the_schema_is_the_derived_one() -> None:
    stored = json.loads((ROOT / "probe" / "report.schema.json").read_text())
    assert stored == report_schema(), "run `make schema`"


def test_the_schema_of_the_doctor_is_the_derived_one() -> None:
    stored = json.loads((ROOT / "probe" / "doctor.schema.json").read_text())
    assert stored == doctor_schema(), "run `make schema`"


@pytest.mark.parametrize("page", document.PAGES)
def test_the_tables_are_the_generated_ones(page: str) -> None:
    written = (ROOT / "docs" / page).read_text()
    assert written == document.PAGES[page](), "run `make docs`"


def test_the_wire_code_is_the_generated_one(tmp_path: Path) -> None:
    subprocess.run(
        [
            *(sys.executable, "-m", "grpc_tools.protoc", "-Iprobe/wire=proto/probe/v1"),
            *(f"--python_out={tmp_path}", "probe/wire/stream.proto"),
        ],
        cwd=ROOT,
        check=True,
    )
    fresh = (tmp_path / "probe" / "wire" / "stream_pb2.py").read_text()
    assert fresh == (ROOT / "probe" / "wire" / "stream_pb2.py").read_text(), "run `make proto`"


def test_every_cause_that_a_rule_can_name_is_in_the_vocabulary() -> None:
    source = "".join(path.read_text() for path in (ROOT / "probe" / "diagnose").glob("*.py"))
    named = set(re.findall(r'"((?:seccomp|exec|fork|memory|net|fs|limit|workload)\.\w+)"', source))
    tables = {*network._CAUSES.values(), *filesystem._CAUSES.values(), *process._BY_ERRNO.values()}
    assert named | tables <= CAUSES.keys()


def test_every_exec_cause_has_words() -> None:
    assert {cause for cause in CAUSES if cause.startswith("exec.")} <= process._EXEC_WORDS.keys()


def test_the_rules_know_no_scenario() -> None:
    """Names and texts of the galleries must not occur in the rules."""
    rules = "".join(path.read_text() for path in (ROOT / "probe" / "diagnose").glob("*.py"))
    galleries = [path.read_text() for path in (ROOT / "tests" / "scenarios").glob("*.toml")]
    made_up = r"frobnicate|python9|192\.0\.2\.\d+|[\w-]+[-_](?:absent|nowhere)\b|\w+\.example\b"
    words = {word for text in galleries for word in re.findall(made_up, text)}
    names = {name for text in galleries for name in re.findall(r'(?m)^name = "(.*)"$', text)}
    words |= {name for name in names if name.count(" ") > 1}
    assert len(words) > 1000
    assert not [word for word in words if re.search(rf"(?<!\w){re.escape(word)}(?!\w)", rules)]
