"""The systemd units, read by systemd itself."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

UNITS = Path(__file__).parent.parent.parent / "packaging" / "systemd"


@pytest.fixture
def installed(tmp_path: Path) -> list[Path]:
    """As on a machine where the package lies in the environment that runs this test."""
    for unit in UNITS.iterdir():
        text = unit.read_text().replace("/opt/sandbox-probe/bin", str(Path(sys.executable).parent))
        (tmp_path / unit.name).write_text(text)
    return sorted(tmp_path.iterdir())


def test_systemd_understands_the_units(installed: list[Path]) -> None:
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *installed], capture_output=True, text=True
    )
    said = [line for line in done.stderr.splitlines() if "sandbox-" in line]
    assert (done.returncode, said) == (0, [])


def test_each_unit_runs_a_command_that_there_is(installed: list[Path]) -> None:
    commands = {
        tuple(re.sub(r"\$.*", "", line.removeprefix("ExecStart=")).split())
        for unit in installed
        for line in unit.read_text().splitlines()
        if line.startswith("ExecStart=")
    }
    assert len(commands) == 3
    for program, command, *options in commands:
        help_ = subprocess.run([program, command, "--help"], capture_output=True, text=True)
        assert help_.returncode == 0
        assert all(option in help_.stdout for option in options)
