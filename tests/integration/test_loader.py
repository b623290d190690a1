"""Each hook takes the first program that the kernel accepts; what it refuses is said."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from probe.engine import loader
from probe.engine.core import CoreEngine
from probe.engine.errors import EngineError
from probe.engine.libbpf import BpfError, Libbpf, Object
from probe.engine.loader import Hook, Refusal, _refusal, first_accepted
from probe.events import Exec, Exit

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

    hook = Hook(("refused", "accepted"), ("exec",), lesser={"accepted": ("exec", "less is told")})
    bpf, chosen, refused = first_accepted((hook,), trial)
    bpf.close()
    assert tried == [{"refused"}, {"accepted"}] and not refused
    assert loader._lacking(chosen, refused) == {"exec": "partial: less is told"}


def test_a_hook_without_an_accepted_program_is_reported(path: Path) -> None:
    hook = Hook(("refused",), ("oom",), without="none")
    bpf, chosen, refused = first_accepted((hook,), lambda chosen: attempt(path, chosen))
    bpf.close()
    assert not chosen and "the kernel refused refused" in refused[hook]
    assert loader._lacking(chosen, refused)["oom"].startswith("none: the kernel refused refused")


def test_a_hook_that_is_needed_fails_the_engine(path: Path) -> None:
    with pytest.raises(EngineError, match="the kernel refused refused"):
        first_accepted((Hook(("refused",), ("exec",)),), lambda chosen: attempt(path, chosen))


def test_a_refusal_names_its_program(path: Path) -> None:
    with pytest.raises(Refusal) as caught:
        attempt(path, ALL)
    assert caught.value.program == "refused"


@pytest.mark.parametrize("variant", loader._VARIANTS, ids=["current", "legacy"])
def test_the_objects_hear_the_same(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one for older kernels is accepted here as well (tests/kernels has those)."""
    monkeypatch.setattr(loader, "_VARIANTS", (variant,))
    engine = CoreEngine()
    script = "read _; /no/such/program; (exit 5) & wait $!; exit 6"
    with subprocess.Popen(["bash", "-c", script], stdin=subprocess.PIPE) as child:
        pidfd = os.pidfd_open(child.pid)
        assert engine.span_of(pidfd) == 0
        engine.mark(pidfd, 7)
        assert engine.span_of(pidfd) == 7
        child.communicate(b"\n")
    os.close(pidfd)
    events = engine.flush(7)
    engine.close()
    execs = [(event.path, event.errno) for event in events if isinstance(event, Exec)]
    assert ("/no/such/program", "ENOENT") in execs
    exits = [(event.code, event.ppid) for event in events if isinstance(event, Exit)]
    assert (5, child.pid) in exits and exits[-1] == (6, os.getpid())
