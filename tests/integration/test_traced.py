"""The tracing engine: what it sees of a command without BPF, and that the command minds little."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import BIN, probe_run, wait_for
from test_blind import NOBODY, folder
from test_cgroups import FORKS, HOG, MIB, nested
from test_portable import silent_port
from test_senses import ADDRESSES, SERVED

from probe.engine.traced import ptrace
from probe.engine.traced.sockets import Peer, parse_address

__all__ = ["folder", "silent_port"]

PYTHON = "/usr/bin/python3"
PTRACE = ("--engine", "ptrace")


def watched(tmp_path: Path, *command: str | Path, **popen: Any) -> dict[str, Any]:
    _, report = probe_run(*command, options=PTRACE, folder=tmp_path, **popen)
    assert report["coverage"]["engine"] == "ptrace"
    return report


def of_kind(report: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [event for event in report["events"] if event["kind"] == kind]


def closed_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


CAUSES: dict[str, tuple[str, str, str]] = {
    "a program that is not there": ("frobnicate; exit 2", "exec.not_found", "frobnicate"),
    "a file that is not there": ("cat /no/such/file", "fs.missing", "/no/such/file"),
    "its own fault": ("exit 3", "workload.failed", "exit status 3"),
    "a crash": ("kill -SEGV $$", "workload.crashed", "SIGSEGV"),
    "no execute bit": ("touch j; ./j", "exec.permission", "mode 06"),
}


@pytest.mark.parametrize("name", CAUSES)
def test_causes(name: str, tmp_path: Path) -> None:
    script, cause, named = CAUSES[name]
    verdict = watched(tmp_path, "sh", "-c", script, cwd=tmp_path)["verdict"]
    assert verdict["cause"].startswith(cause) and named in verdict["summary"]


@pytest.mark.parametrize("patience", ["", ", 2"])
def test_a_refused_connection(patience: str, tmp_path: Path) -> None:
    """By a call that waits, and by one that asks later how it went."""
    port = closed_port()
    script = f"import socket; socket.create_connection(('127.0.0.1', {port}){patience})"
    report = watched(tmp_path, PYTHON, "-c", script)
    (event,) = of_kind(report, "connect")
    assert (event["address"], event["port"], event["errno"]) == ("127.0.0.1", port, "ECONNREFUSED")
    assert report["verdict"]["cause"] == "net.refused"


@pytest.mark.parametrize("family", ADDRESSES)
def test_who_serves_a_connection(family: str, tmp_path: Path) -> None:
    told = tmp_path / "server"
    work = (PYTHON, "-c", SERVED, family, "blocking", ADDRESSES[family], told)
    made = of_kind(watched(tmp_path, *work, cwd=tmp_path), "connect")[-1]
    assert made["server"] == int(told.read_text())


def test_a_connection_that_nobody_answers(silent_port: int, tmp_path: Path) -> None:
    script = f"import socket; socket.create_connection(('127.0.0.1', {silent_port}), 0.5)"
    report = watched(tmp_path, PYTHON, "-c", script)
    (event,) = of_kind(report, "connect")
    assert event["abandoned"] and event["port"] == silent_port
    assert report["verdict"]["cause"] == "net.timeout"


def test_a_name_that_is_not_there(tmp_path: Path) -> None:
    """Of a resolver of our own, which answers NXDOMAIN."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        script = (
            "import socket, struct\n"
            "query = b'\\0\\7\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\6nobody\\7invalid\\0\\0\\1\\0\\1'\n"
            "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
            "s.connect(('127.0.0.1', 53)); s.send(query)\n"
            "raise SystemExit(1)\n"
        )
        report = watched(tmp_path, PYTHON, "-c", script)
    (event,) = of_kind(report, "dns")
    assert (event["name"], event["resolver"]) == ("nobody.invalid", "127.0.0.1")
    assert "rcode" not in event


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make cgroups")
def test_limits_of_cgroups(tmp_path: Path) -> None:
    with nested("pids", 40, 4) as join:
        report = watched(tmp_path, *join, PYTHON, "-c", FORKS)
    assert of_kind(report, "fork")[0]["pids_max"] == 4
    assert report["verdict"]["cause"] == "fork.pids_limit"
    with nested("memory", 90 * MIB, 48 * MIB) as join:
        report = watched(tmp_path, *join, PYTHON, "-c", HOG)
    assert of_kind(report, "oom")[0]["limit"] == 48 * MIB
    assert report["verdict"]["cause"] == "memory.cgroup_oom"


FILTERED = """
import ctypes, os, sys
seccomp = ctypes.CDLL("libseccomp.so.2")
seccomp.seccomp_init.restype = ctypes.c_void_p
context = ctypes.c_void_p(seccomp.seccomp_init(0x7FFF0000))
mkdir = seccomp.seccomp_syscall_resolve_name(b"mkdir")
assert seccomp.seccomp_rule_add(context, ctypes.c_uint32(int(sys.argv[1], 16)), mkdir, 0) == 0
assert seccomp.seccomp_load(context) == 0
os.mkdir("/tmp/of-test-traced")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="to root a file call hardly answers EPERM by itself")
@pytest.mark.parametrize(
    ("action", "told"),
    [
        ("0x80000000", ("kill_process", None)),
        ("0x00030000", ("trap", None)),
        ("0x00050001", ("errno", "EPERM")),
        ("0x00050026", ("errno", "ENOSYS")),
    ],
)
def test_a_filter(action: str, told: tuple[str, str | None], tmp_path: Path) -> None:
    report = watched(tmp_path, BIN / "python", "-c", FILTERED, action)
    events = [one for one in of_kind(report, "seccomp") if one["syscall"] == "mkdir"]
    assert [(one["action"], one.get("errno")) for one in events] == [told]
    assert report["verdict"]["cause"] == "seccomp.denied"
    assert "mkdir" in report["verdict"]["summary"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can take rights away")
def test_as_nobody(folder: Path) -> None:
    import json

    report = folder / "report"
    command = [os.path.realpath(sys.executable), "-c", "from probe.cli import main; main()", "run"]
    subprocess.run(
        [*NOBODY, *command, *PTRACE, "--json", report, "--", "sh", "-c", "touch /etc/x"],
        cwd=folder,
        env={**os.environ, "PROBE_SOCKET": "/nonexistent"},
        check=False,
    )
    verdict = json.loads(report.read_text())["verdict"]
    assert verdict["cause"] == "fs.permission" and "/etc/x" in verdict["summary"]


def run_under(tmp_path: Path, *command: str) -> subprocess.CompletedProcess[str]:
    done, _ = probe_run(*command, options=PTRACE, folder=tmp_path)
    return done


def test_the_command_is_left_as_it_is(tmp_path: Path) -> None:
    threads = (
        "import threading\n"
        "many = [threading.Thread(target=print, args=('x',)) for _ in range(50)]\n"
        "[one.start() for one in many]; [one.join() for one in many]\n"
    )
    done = run_under(tmp_path, PYTHON, "-c", threads)
    assert (done.returncode, done.stdout.count("x")) == (0, 50)
    done = run_under(tmp_path, "sh", "-c", "trap 'echo got' USR1; kill -USR1 $$; exit 4")
    assert (done.returncode, done.stdout) == (4, "got\n")
    done = run_under(tmp_path, "sh", "-c", "(sleep 0.2; kill -CONT $$) & kill -STOP $$; exit 6")
    assert done.returncode == 6
    done = run_under(tmp_path, "sh", "-c", "kill -TERM $$")
    assert done.returncode == 128 + signal.SIGTERM


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a pid namespace")
def test_the_first_process_of_a_pid_namespace_may_crash(tmp_path: Path) -> None:
    """Traced, the kernel would let it run into the same crash for ever."""
    crash = "import ctypes; ctypes.string_at(0)"
    apart = ["unshare", "--pid", "--fork", "--kill-child", PYTHON, "-c", crash]
    report = watched(tmp_path, *apart)
    assert "SIGSEGV" in [event.get("signal") for event in of_kind(report, "exit")]
    assert report["verdict"]["cause"] == "workload.crashed"


def test_what_outlives_the_command_goes_on_untraced(tmp_path: Path) -> None:
    marker = tmp_path / "done"
    late = f"(sleep 1; grep TracerPid /proc/self/status > {marker}.new; mv {marker}.new {marker})"
    done = run_under(tmp_path, "sh", "-c", f"{late} > /dev/null 2>&1 & exit 0")
    assert done.returncode == 0
    wait_for(marker.exists)
    assert marker.read_text().split() == ["TracerPid:", "0"]


def test_memory_is_read_by_either_way(monkeypatch: pytest.MonkeyPatch) -> None:
    import ctypes

    held = ctypes.create_string_buffer(b"a string\0and more" * 50)
    address = ctypes.addressof(held)
    assert ptrace.read(os.getpid(), address, 8) == b"a string"
    assert ptrace.read_string(os.getpid(), address + 2) == b"string"
    assert ptrace.read(os.getpid(), 8, 8) == b""
    pointers = (ctypes.c_void_p * 3)(address, address + 9, None)
    found = ptrace.read_strings(os.getpid(), ctypes.addressof(pointers))
    assert found == [b"a string", b"and morea string"]


@pytest.mark.parametrize(
    ("raw", "peer"),
    [
        (b"\2\0\x1f\x90\x7f\0\0\1" + b"\0" * 8, Peer("ipv4", "127.0.0.1", 8080)),
        (b"\x0a\0\0\x50" + b"\0" * 4 + b"\0" * 15 + b"\1", Peer("ipv6", "::1", 80)),
        (b"\1\0/run/x\0rest", Peer("unix", "/run/x")),
        (b"\1\0\0name", Peer("unix", "@name")),
        (b"\2\0\x1f", None),
        (b"", None),
    ],
)
def test_addresses(raw: bytes, peer: Peer | None) -> None:
    assert parse_address(raw) == peer


def test_words_written_to_a_copy_of_stderr(tmp_path: Path) -> None:
    code = "import os; os.write(os.dup(2), b'why it failed'); raise SystemExit(3)"
    event = of_kind(watched(tmp_path, PYTHON, "-c", code), "exit")[-1]
    assert (event["code"], event["last_words"]) == (3, "why it failed")
