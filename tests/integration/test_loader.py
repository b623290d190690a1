"""Each hook takes the first program that the kernel accepts; what it refuses is said."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from probe.engine.errors import EngineError
from probe.engine.libbpf import BpfError, Libbpf, Object
from probe.engine.loader import Hook, Refusal, _refusal, first_accepted

pytestmark = pytest.mark.bpf
ROOT = Path(__file__).parent.parent.parent
SOURCE = Path(__file__).parent / "programs" / "refused.bpf.c"
ALL = {"refused", "accepted"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    target = tmp_path / "refused.o"
    flags = ["-g", "-O2", "-target", "bpf", "-D__TARGET_ARCH_x86", "-I", ROOT / "bpf"]
    subprocess.run(["clang", *flags, "-c", SOURCE, "-o", target], check=True)
    return target


def attempt(path: Path, chosen: set[str]) -> Object:
    bpf = Object(Libbpf(), str(path))
    for program in ALL - chosen:
        bpf.leave_out(program)
    try:
        bpf.load()
    except BpfError as error:
        bpf.close()
        raise _refusal(error) from error
    return bpf


def test_the_next_alternate_is_taken(path: Path) -> None:
    tried: list[set[str]] = []

    def trial(chosen: set[str]) -> Object:
        tried.append(chosen)
        return attempt(path, chosen)

    bpf, refused = first_accepted((Hook(("refused", "accepted"), ("exec",)),), trial)
    bpf.close()
    assert tried == [{"refused"}, {"accepted"}] and not refused


def test_a_hook_without_an_accepted_program_is_reported(path: Path) -> None:
    hook = Hook(("refused",), ("oom",), without="none")
    bpf, refused = first_accepted((hook,), lambda chosen: attempt(path, chosen))
    bpf.close()
    assert "the kernel refused refused" in refused[hook]


def test_a_hook_that_is_needed_fails_the_engine(path: Path) -> None:
    with pytest.raises(EngineError, match="the kernel refused refused"):
        first_accepted((Hook(("refused",), ("exec",)),), lambda chosen: attempt(path, chosen))


def test_a_refusal_names_its_program(path: Path) -> None:
    with pytest.raises(Refusal) as caught:
        attempt(path, ALL)
    assert caught.value.program == "refused"
