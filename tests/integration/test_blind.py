"""Where BPF is not to be had the portable engine watches; where nothing is, the command runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import validated

import probe

NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
NO_CAPABILITIES = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
NO_BTF = "mount -t tmpfs none /sys/kernel/btf"
BCC = "/usr/lib/python3/dist-packages/bcc"
NO_BCC = f"if [ -d {BCC} ]; then mount -t tmpfs none {BCC}; fi"
SCRIPT = "from probe.cli import main; main()"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can take rights away")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A place that everybody can use, with a copy of the probe in it."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        shutil.copytree(Path(probe.__file__).parent, Path(name) / "probe")
        yield Path(name)


def run(
    prefix: list[str], folder: Path, script: str
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    report = folder / "report"
    python = os.path.realpath(sys.executable)
    command = [python, "-c", SCRIPT, "run", "--json", report, "--", "sh", "-c", script]
    done = subprocess.run(
        [*prefix, *command],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PROBE_SOCKET": "/nonexistent"},
        check=False,
    )
    return done, validated(json.loads(report.read_text()))


def without(step: str) -> list[str]:
    """A mount namespace of its own, in which a step hides something."""
    return ["unshare", "--mount", "sh", "-c", f'{step} && exec "$@"', "sh"]


def no_libbpf() -> list[str]:
    places = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64")
    found = [place for place in places if os.path.exists(f"{place}/libbpf.so.1")]
    return without(f"mount --bind /dev/null $(realpath {found[0]}/libbpf.so.1)")


@pytest.mark.parametrize(
    ("prefix", "named"),
    [
        (NOBODY, "BPF is not permitted"),
        (NO_CAPABILITIES, "BPF is not permitted"),
        (no_libbpf(), "libbpf"),
        (without(f"{NO_BTF}; {NO_BCC}"), "BTF"),
    ],
    ids=["nobody", "no capabilities", "no libbpf", "no BTF"],
)
def test_the_command_runs_and_the_report_says_what_is_blind(
    prefix: list[str], named: str, folder: Path
) -> None:
    done, report = run(prefix, folder, "exit 3")
    assert done.returncode == 3
    first = done.stderr.splitlines()[0]
    assert named in first and "to mend it" in first
    assert "half blind" in first and "so the portable engine watches" in first
    assert report["coverage"]["engine"] == "portable"
    assert report["verdict"]["cause"] == "unknown"


def test_where_not_even_proc_is_to_be_had_nobody_watches(folder: Path) -> None:
    done, report = run(without("mount -t tmpfs none /proc"), folder, "exit 3")
    assert done.returncode == 3
    first = done.stderr.splitlines()[0]
    assert "probe: blind: " in first
    assert report["coverage"]["engine"] == "none"
    assert report["verdict"]["cause"] == "unknown"


def test_a_passing_command_passes_blind_too(folder: Path) -> None:
    done, report = run(NOBODY, folder, "exit 0")
    assert done.returncode == 0 and report["verdict"] is None
    assert len(done.stderr.splitlines()) == 1
