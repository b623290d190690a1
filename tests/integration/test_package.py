"""The wheel: what is in it, that it is reproducible, and that it works where it is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent

pytestmark = pytest.mark.bpf


def build(folder: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps"]
    subprocess.run([*pip, ROOT, "-w", folder], check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("wheel"))


def test_the_objects_of_every_machine_are_inside(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        for name in ("x86_64", "x86_64-legacy", "aarch64", "aarch64-legacy"):
            assert archive.read(f"probe/engine/objects/{name}.o")[:4] == b"\x7fELF"
    assert {f"collector/report/page.{kind}" for kind in ("html", "css", "js")} <= names
    assert {"probe/report.schema.json", "probe/abi/x86_64.tbl", "sandbox_probe_pytest.py"} <= names
    assert not [name for name in names if name.startswith(("tests/", "bench/", "proto/"))]


def test_the_same_source_makes_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    assert build(tmp_path).read_bytes() == wheel.read_bytes()


def test_the_installed_probe_works_without_its_heavier_needs(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    bin_folder = tmp_path / "venv" / "bin"
    install = [bin_folder / "pip", "install", "-q", "--no-deps", wheel]
    subprocess.run(install, check=True, capture_output=True)
    report = tmp_path / "report"
    done = subprocess.run(
        [bin_folder / "probe", "run", "--json", report, "--", "/no/such/program"],
        capture_output=True,
        text=True,
        env={**os.environ, "PROBE_SOCKET": "/nonexistent"},
        check=False,
    )
    assert done.returncode == 127, done.stderr
    assert json.loads(report.read_text())["verdict"]["cause"] == "exec.not_found"
    done = subprocess.run(
        [bin_folder / "collector", "serve"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "sandbox-probe[collector]" in done.stderr and "Traceback" not in done.stderr
