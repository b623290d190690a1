"""The senses and the gallery on other kernels than this machine's, each in a machine of its own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest
from debian import KERNELS, Kernel
from guest import SOURCE, VENV, boot, root_image
from machine import Machine
from table import PAGE, Measured, page

pytestmark = [pytest.mark.kernels, pytest.mark.timeout(1800)]
SENSES = "tests/integration/test_senses.py tests/integration/test_cgroups.py"
# It forks by the thousand, which takes a minute in emulation and says nothing of the kernel.
SENSES += " --deselect tests/integration/test_senses.py::test_spawns_by_the_thousand"
# A slice of the gallery: the rules are the same everywhere, only what they are told may differ.
GALLERY_EVERY = 4
GALLERY = 'tests/scenarios/test_scenarios.py -m "not gallery"'
LIMIT_S = 1500.0


# What makes an engine the best that can be had.
WITHOUT = {"core": "true", "bcc": "mount -t tmpfs none /sys/kernel/btf"}


def job(engines: tuple[str, ...], every: int) -> str:
    """The guest's work."""
    parts = [_job(engine, every) for engine in engines]
    return "\n".join(
        [
            f"cd {SOURCE}",
            f"export CI=true PROBE_TEST_PROGRAMS={SOURCE}/programs",
            *parts,
            "uname -r > /tmp/out/release",
        ]
    )


def _job(engine: str, every: int) -> str:
    """Every so-manieth test of the senses, a slice of the gallery, a report for the coverage."""
    python = f"{VENV}/bin/python -m pytest -q -p no:cacheprovider -o junit_family=xunit1"
    python += f" --engine {engine}"
    out = f"/tmp/out/{engine}"
    return f"""
mkdir {out}
{WITHOUT[engine]}
{python} --every {every} --junitxml {out}/senses.xml {SENSES}
{python} --every {every * GALLERY_EVERY} --junitxml {out}/gallery.xml {GALLERY}
PROBE_SOCKET=/nonexistent {VENV}/bin/probe run --json {out}/coverage.json -- true
"""


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Machine], Path]:
    """The disk of a machine's kernels."""

    @functools.cache
    def image(machine: Machine) -> Path:
        return root_image(machine, tmp_path_factory.mktemp("root"))

    return image


@pytest.fixture(scope="session")
def results() -> list[Measured]:
    return []


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_everything_passes(
    kernel: Kernel,
    root: Callable[[Machine], Path],
    tmp_path: Path,
    results: list[Measured],
    pytestconfig: pytest.Config,
) -> None:
    wanted = pytestconfig.getoption("--kernels")
    if wanted and kernel.name not in wanted.split(","):
        pytest.skip("not asked for")
    engines = kernel.machine.engines
    work = job(engines, pytestconfig.getoption("--guest-every"))
    files = boot(kernel, root(kernel.machine), work, tmp_path, LIMIT_S)
    for engine in engines:
        assert f"{engine}/coverage.json" in files, files["log"].decode()
        measured = Measured.read(kernel.name, engine, files)
        results.append(measured)
        assert not measured.failures, "\n\n".join([engine, *measured.failures])
        assert sum(measured.run.values()) > 0


def test_the_page_tells_it(results: list[Measured], pytestconfig: pytest.Config) -> None:
    """How well each sense sees must be what it was; how many tests there are may change."""
    told = PAGE.read_text() if PAGE.exists() else ""
    if {measured.kernel for measured in results} == {kernel.name for kernel in KERNELS}:
        PAGE.write_text(page(results, pytestconfig.getoption("--guest-every")))
    for measured in results:
        for reason in measured.reasons():
            assert reason in told, "docs/kernels.md did not know it"
