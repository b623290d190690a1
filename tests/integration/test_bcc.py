"""The bcc engine where it is for: a kernel that shows no BTF, which a mount hides here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import BIN, validated

from probe import abi

NO_BTF = "mount -t tmpfs none /sys/kernel/btf"
NO_BCC = "mount -t tmpfs none /usr/lib/python3/dist-packages/bcc"

pytestmark = pytest.mark.bpf

CALL = str(abi.syscall_numbers(abi.machine())["getpriority"])


def built(name: str, folder: Path) -> Path:
    source = Path(__file__).parent / "programs" / f"{name}.c"
    subprocess.run(["gcc", "-O1", "-pthread", "-o", folder / name, source], check=True)
    return folder / name


Run = Callable[..., tuple[subprocess.CompletedProcess[str], dict[str, Any]]]


@pytest.fixture
def hidden(tmp_path: Path) -> Run:
    """`probe run` in a mount namespace in which something is hidden; with the report."""

    def run(*command: str | Path, steps: str = NO_BTF, options: tuple[str, ...] = ()) -> Any:
        report = tmp_path / "report"
        probe = [BIN / "probe", "run", "--json", report, *options, "--", *command]
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", f'{steps} && exec "$@"', "sh", *probe],
            env={**os.environ, "PROBE_SOCKET": "/nonexistent"},
            capture_output=True,
            text=True,
            check=False,
        )
        return done, validated(json.loads(report.read_text()))

    return run


def test_it_watches_where_there_is_no_btf(hidden: Run) -> None:
    done, report = hidden("sh", "-c", "no-such-program")
    assert done.returncode == 127
    assert report["coverage"]["engine"] == "bcc"
    assert report["verdict"]["cause"] == "exec.not_found"
    (warning,) = [line for line in done.stderr.splitlines() if "half blind" in line]
    assert "BTF" in warning and "the bcc engine watches" in warning and "to mend it" in warning


@pytest.mark.parametrize(
    ("action", "told", "errno"),
    [(0x50001, "errno", "EPERM"), (0x30000, "kill_process", None), (1 << 31, "kill_process", None)],
    ids=["errno", "trap", "kill"],
)
def test_a_refused_call(
    action: int, told: str, errno: str | None, hidden: Run, tmp_path: Path
) -> None:
    _, report = hidden(built("denied", tmp_path), hex(action), CALL, "11")
    events = [event for event in report["events"] if event["kind"] == "seccomp"]
    assert [(e["syscall"], e["action"], e.get("errno")) for e in events] == [
        ("getpriority", told, errno)
    ]
    assert "filter" not in events[0]


def test_a_thread_killed_among_others(hidden: Run, tmp_path: Path) -> None:
    """That a filter ended it is seen; the call is in registers that cannot be had."""
    _, report = hidden(built("denied", tmp_path), "0", CALL, "11", "thread")
    events = [event for event in report["events"] if event["kind"] == "seccomp"]
    assert [(event["syscall"], event["action"]) for event in events] == [("unknown", "kill_thread")]


def test_how_a_connection_went_that_was_not_waited_for(hidden: Run) -> None:
    code = (
        "import asyncio\n"
        "try: asyncio.run(asyncio.open_connection('127.0.0.1', 1))\n"
        "except OSError as error: raise SystemExit(f'no feed: {error}')"
    )
    done, report = hidden(sys.executable, "-c", code)
    assert done.returncode == 1
    assert report["verdict"]["cause"] == "net.refused"


@pytest.mark.skipif(abi.machine() != "x86_64", reason="32-bit programs of x86")
def test_a_32_bit_program(hidden: Run, tmp_path: Path) -> None:
    """Number 5 is open(2) there, and fstat(2) in the 64-bit table."""
    source = tmp_path / "narrow.s"
    source.write_text(
        ".globl _start\n_start: movl $5, %eax; movl $path, %ebx; movl $0x41, %ecx\n"
        "movl $0600, %edx; int $0x80\nmovl $1, %eax; movl $3, %ebx; int $0x80\n"
        'path: .asciz "/proc/version/x"\n'
    )
    program = tmp_path / "narrow"
    subprocess.run(["gcc", "-m32", "-nostdlib", "-static", "-o", program, source], check=True)
    done, report = hidden(program)
    assert done.returncode == 3
    (end,) = [event for event in report["events"] if event["kind"] == "exit"]
    assert (end["code"], end["missing"]) == (3, ["/proc/version/x"])


def test_without_bcc_it_says_so(hidden: Run) -> None:
    done, report = hidden("false", steps=f"{NO_BTF} && {NO_BCC}", options=("--engine", "bcc"))
    assert done.returncode == 1 and report["verdict"]["cause"] == "unknown"
    assert "bcc is not installed" in done.stderr and "python3-bpfcc" in done.stderr


def test_in_a_pid_namespace_it_says_so(hidden: Run) -> None:
    inner = ["unshare", "--pid", "--fork", "--mount-proc", BIN / "probe", "run", "--engine", "bcc"]
    done, _ = hidden(*inner, "--", "false")
    assert "initial pid namespace" in done.stderr


def test_the_compiler_does_not_stay_in_memory() -> None:
    code = (
        "from probe.engine.choice import open_engine\n"
        "engine = open_engine('bcc').engine\n"
        "print('LLVM' in open('/proc/self/maps').read(), engine.coverage.engine)\n"
        "engine.close()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "bcc"]
