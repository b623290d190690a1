"""Wheel and sdist: what is in them, that they are reproducible, and that they work installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import conftest
import pytest
from conftest import Agent, Collector, probe_run, wait_for

ROOT = Path(__file__).parent.parent.parent

pytestmark = pytest.mark.bpf


def build(folder: Path, source: Path = ROOT) -> Path:
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps"]
    subprocess.run([*pip, source, "-w", folder], check=True, capture_output=True)
    return next(folder.glob("*.whl"))


def pack(folder: Path) -> Path:
    """The sdist, of the tree as it is."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return next(folder.glob("*.tar.gz"))


def unpack(archive: Path, folder: Path) -> Path:
    shutil.unpack_archive(archive, folder)
    return folder / archive.name.removesuffix(".tar.gz")


def install(environment: Path, *what: str | Path) -> Path:
    """The folder of the commands."""
    if not environment.exists():
        venv.create(environment, with_pip=True)
    command = [environment / "bin" / "pip", "install", "-q", *what]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return environment / "bin"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pack(tmp_path_factory.mktemp("sdist"))


def test_the_objects_of_every_machine_are_inside(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        for name in ("x86_64", "x86_64-legacy", "aarch64", "aarch64-legacy"):
            assert archive.read(f"probe/engine/objects/{name}.o")[:4] == b"\x7fELF"
    assert {"probe/engine/sources/events.h", "probe/engine/sources/bcc/probe.bcc.c"} <= names
    assert {f"collector/report/page.{kind}" for kind in ("html", "css", "js")} <= names
    assert {"probe/report.schema.json", "probe/abi/x86_64.tbl", "sandbox_probe_pytest.py"} <= names
    assert not [name for name in names if name.startswith(("tests/", "bench/", "proto/"))]


def test_the_same_source_makes_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    assert build(tmp_path).read_bytes() == wheel.read_bytes()


def test_the_same_source_makes_the_same_sdist(sdist: Path, tmp_path: Path) -> None:
    assert pack(tmp_path).read_bytes() == sdist.read_bytes()


def test_the_sdist_makes_the_wheel_that_the_tree_makes(
    wheel: Path, sdist: Path, tmp_path: Path
) -> None:
    source = unpack(sdist, tmp_path)
    assert not (source / "probe" / "engine" / "objects").exists()
    assert build(tmp_path / "wheel", source).read_bytes() == wheel.read_bytes()


def test_the_installed_probe_works_without_its_heavier_needs(wheel: Path, tmp_path: Path) -> None:
    bin_folder = install(tmp_path / "venv", "--no-deps", wheel)
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


def test_the_installed_probe_examines_and_explains(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bin_folder = install(tmp_path / "venv", wheel)
    done = subprocess.run(
        [bin_folder / "probe", "doctor", "--json"], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["senses"]["engine"] == "core"
    monkeypatch.setattr(conftest, "BIN", bin_folder)
    done, report = probe_run("/no/such/program", folder=tmp_path)
    assert (done.returncode, report["verdict"]["cause"]) == (127, "exec.not_found")


LATER = "9.9.9"
STORE = ROOT / "tests" / "data" / "stores" / "1.db"


@pytest.fixture(scope="module")
def later(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of a version to come."""
    folder = tmp_path_factory.mktemp("later")
    source = unpack(sdist, folder)
    (source / "PKG-INFO").unlink()  # where it is, hatchling takes the version from there
    version = source / "probe" / "__init__.py"
    version.write_text(version.read_text().replace(conftest.probe.__version__, LATER))
    return build(folder / "wheel", source)


def test_an_upgrade_keeps_spool_and_database(
    wheel: Path, later: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bin_folder = install(tmp_path / "venv", f"{wheel}[collector]")
    monkeypatch.setattr(conftest, "BIN", bin_folder)
    database, options = tmp_path / "c.db", ("--collector", f"unix:{tmp_path}/c.sock")
    shutil.copy(STORE, database)
    agent = Agent(tmp_path, *options)
    named = ("--run", "upgrade", "--test", "t")
    probe_run("/no/such/program", socket=agent.socket, options=named, folder=tmp_path)
    agent.stop()
    assert "undelivered" in agent.log.read_text()
    assert any(file.stat().st_size for file in (tmp_path / "spool").rglob("*") if file.is_file())

    install(tmp_path / "venv", f"{later}[collector]")
    said = subprocess.run([bin_folder / "probe", "--version"], capture_output=True, text=True)
    assert said.stdout == f"probe {LATER}\n"
    collector, agent = Collector(tmp_path), Agent(tmp_path, *options)
    wait_for(lambda: explained(collector, "upgrade"), 30)
    assert explained(collector, "upgrade") == {"t": "exec.not_found"}
    assert explained(collector, "r1").keys() >= {"tests/test_x.py::test_jq"}
    agent.stop()
    collector.stop()


def explained(collector: Collector, run: str) -> dict[str, str]:
    """The causes of what failed, by test; empty where the run is not known."""
    command = ["explain", "--db", collector.database, "--run", run, "--json"]
    done = subprocess.run(
        [conftest.BIN / "collector", *command], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        return {}
    reports = json.loads(done.stdout)["reports"]
    return {one["span"]["test"]: one["verdict"]["cause"] for one in reports}
