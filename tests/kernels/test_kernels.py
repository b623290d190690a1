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


def job(every: int) -> str:
    """The guest's work: every so-manieth test of the senses, a slice, a report for coverage."""
    python = f"{VENV}/bin/python -m pytest -q -p no:cacheprovider -o junit_family=xunit1"
    return f"""
cd {SOURCE}
export CI=true PROBE_TEST_PROGRAMS={SOURCE}/programs
{python} --every {every} --junitxml /tmp/out/senses.xml {SENSES}
{python} --every {every * GALLERY_EVERY} --junitxml /tmp/out/gallery.xml {GALLERY}
PROBE_SOCKET=/nonexistent {VENV}/bin/probe run --json /tmp/out/coverage.json -- true
uname -r > /tmp/out/release
"""


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Machine], Path]:
    """The disk of a machine's kernels."""

    @functools.cache
    def image(machine: Machine) -> Path:
        return root_image(machine, tmp_path_factory.mktemp("root"))

    return image


@pytest.fixture(scope="session")
def results() -> dict[str, Measured]:
    return {}


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_everything_passes(
    kernel: Kernel,
    root: Callable[[Machine], Path],
    tmp_path: Path,
    results: dict[str, Measured],
    pytestconfig: pytest.Config,
) -> None:
    wanted = pytestconfig.getoption("--kernels")
    if wanted and kernel.name not in wanted.split(","):
        pytest.skip("not asked for")
    work = job(pytestconfig.getoption("--guest-every"))
    files = boot(kernel, root(kernel.machine), work, tmp_path, LIMIT_S)
    assert "coverage.json" in files, files["log"].decode()
    results[kernel.name] = measured = Measured.read(kernel.name, files)
    assert not measured.failures, "\n\n".join(measured.failures)
    assert sum(measured.run.values()) > 0


def test_the_page_tells_it(results: dict[str, Measured], pytestconfig: pytest.Config) -> None:
    """How well each sense sees must be what it was; how many tests there are may change."""
    told = PAGE.read_text() if PAGE.exists() else ""
    if len(results) == len(KERNELS):
        PAGE.write_text(page(list(results.values()), pytestconfig.getoption("--guest-every")))
    for measured in results.values():
        for reason in measured.reasons():
            assert reason in told, "docs/kernels.md did not know it"
