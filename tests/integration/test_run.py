"""`probe run` is as transparent as time(1): nothing that the command does looks different."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from conftest import BIN, Agent, probe_run, wait_for

pytestmark = pytest.mark.bpf
PROBE = str(BIN / "probe")


@pytest.fixture(params=["agent", "self"])
def socket(request: pytest.FixtureRequest, agent: Agent) -> str:
    """With an agent, and with an engine of its own."""
    return agent.socket if request.param == "agent" else "/nonexistent"


@pytest.mark.parametrize(
    ("script", "status"),
    [("exit 0", 0), ("exit 3", 3), ("kill -TERM $$", 143), ("kill -KILL $$", 137)],
)
def test_exit_status(script: str, status: int, socket: str, tmp_path: Path) -> None:
    done, report = probe_run("bash", "-c", script, socket=socket, folder=tmp_path)
    assert done.returncode == status
    assert report["span"]["exit_code"] == (status if status < 128 else None)
    assert (report["verdict"] is None) == (status == 0)


@pytest.mark.parametrize(
    ("command", "status"), [("/no/such/program", 127), ("no-such-program", 127), ("/etc", 126)]
)
def test_a_command_that_cannot_be_started(
    command: str, status: int, socket: str, tmp_path: Path
) -> None:
    done, report = probe_run(command, socket=socket, folder=tmp_path)
    assert done.returncode == status
    assert command in done.stderr.splitlines()[0]
    expected = "exec.not_found" if status == 127 else "exec.permission"
    assert report["verdict"]["cause"] == expected


def test_streams_are_the_commands_own(socket: str) -> None:
    script = "import sys; d = sys.stdin.read(); sys.stdout.write(d); sys.stderr.write(d[::-1])"
    done = subprocess.run(
        [PROBE, "run", "--", sys.executable, "-c", script],
        input="some text\n",
        capture_output=True,
        text=True,
        env={**os.environ, "PROBE_SOCKET": socket},
        check=True,
    )
    assert (done.stdout, done.stderr) == ("some text\n", "\ntxet emos")


def test_descriptors_environment_and_signal_state_are_inherited(socket: str) -> None:
    read, write = os.pipe()
    script = f"grep -E '^Sig(Blk|Ign)' /proc/self/status; echo $COLOUR >&{write}"
    environment = {**os.environ, "PROBE_SOCKET": socket, "COLOUR": "blue"}
    command = ["bash", "-c", script]
    plain = subprocess.run(
        command, capture_output=True, pass_fds=[write], env=environment, check=True
    )
    watched = subprocess.run(
        [PROBE, "run", "--", *command],
        capture_output=True,
        pass_fds=[write],
        env=environment,
        check=True,
    )
    os.close(write)
    assert watched.stdout == plain.stdout
    with os.fdopen(read) as told:
        assert told.read() == "blue\nblue\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGINT])
def test_signals_are_handed_on(number: signal.Signals, socket: str, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    script = f"trap 'exit 42' {number.value}; touch {ready}; while :; do sleep 0.05; done"
    watched = subprocess.Popen(
        [PROBE, "run", "--explain", "never", "--", "bash", "-c", script],
        env={**os.environ, "PROBE_SOCKET": socket},
    )
    wait_for(ready.exists)
    watched.send_signal(number)
    assert watched.wait(10) == 42


ORPHAN = """
import os, sys, time
reading, writing = os.pipe()
if os.fork() == 0:
    orphan = os.fork()
    if orphan:
        os.write(writing, str(orphan).encode())
    os._exit(0)
os.wait()
orphan = int(os.read(reading, 20))
end = time.monotonic() + 10
while os.path.exists(f"/proc/{orphan}"):
    if time.monotonic() > end:
        sys.exit("nobody waited for the orphan")
    time.sleep(0.01)
sys.exit(5)
"""


def test_the_first_process_of_a_container_buries_orphans(socket: str) -> None:
    done = subprocess.run(
        [
            *("unshare", "--pid", "--fork", "--mount-proc"),
            *(PROBE, "run", "--explain", "never", "--", sys.executable, "-c", ORPHAN),
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "PROBE_SOCKET": socket},
        check=False,
    )
    assert (done.returncode, done.stderr) == (5, "")


def test_the_terminal_is_the_commands(socket: str) -> None:
    """^C reaches the command once, and job control stays with the shell."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["PROBE_SOCKET"] = socket
        script = (
            "trap 'echo caught; exit 5' INT; test -t 0 && echo tty; while :; do sleep 0.05; done"
        )
        os.execv(PROBE, [PROBE, "run", "--explain", "never", "--", "bash", "-c", script])
    output = b""

    def read_until(text: bytes) -> bool:
        nonlocal output
        output += os.read(terminal, 4096)
        return text in output

    wait_for(lambda: read_until(b"tty"))
    os.write(terminal, termios.tcgetattr(terminal)[6][termios.VINTR])
    wait_for(lambda: read_until(b"caught"))
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 5
    assert output.count(b"caught") == 1


def test_a_stopped_job_looks_stopped_and_goes_on(socket: str, tmp_path: Path) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["PROBE_SOCKET"] = socket
        shell = (
            f"set -m; {PROBE} run -- sh -c 'echo up; sleep 0.2; echo more; read x' ; echo st=$?; fg"
        )
        os.execvp("bash", ["bash", "--norc", "-c", shell])
    output = b""

    def read_until(text: bytes) -> bool:
        nonlocal output
        try:
            output += os.read(terminal, 4096)
        except OSError:
            pytest.fail(f"the terminal closed: {output!r}")
        return text in output

    wait_for(lambda: read_until(b"up"))
    os.write(terminal, termios.tcgetattr(terminal)[6][termios.VSUSP])
    wait_for(lambda: read_until(b"st=148"))
    wait_for(lambda: read_until(b"more"))
    os.write(terminal, b"\n")
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_the_report_on_standard_output_follows_the_commands_own(socket: str) -> None:
    done = subprocess.run(
        [PROBE, "run", "--json", "-", "--", "echo", "hello"],
        capture_output=True,
        text=True,
        env={**os.environ, "PROBE_SOCKET": socket},
        check=True,
    )
    hello, report = done.stdout.splitlines()
    assert hello == "hello" and json.loads(report)["outcome"] == "passed"
    assert done.stderr == ""


@pytest.mark.parametrize(
    "arguments",
    [[], ["run"], ["run", "--"], ["run", "--explain", "loudly", "--", "true"], ["frobnicate"]],
)
def test_bad_usage_is_status_2(arguments: list[str]) -> None:
    done = subprocess.run([PROBE, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr and done.stderr


def test_a_report_that_cannot_be_written_does_not_change_the_status(socket: str) -> None:
    done = subprocess.run(
        [PROBE, "run", "--json", "/no/such/dir/r.json", "--", "sh", "-c", "exit 4"],
        capture_output=True,
        text=True,
        env={**os.environ, "PROBE_SOCKET": socket},
        check=False,
    )
    assert done.returncode == 4
    assert "/no/such/dir/r.json" in done.stderr and "Traceback" not in done.stderr


def test_escapes_from_the_workload_never_reach_the_terminal_raw(
    socket: str, tmp_path: Path
) -> None:
    name = "\x1b]0;owned\x07\x1b[31m"
    done, report = probe_run(f"/nowhere/{name}", socket=socket, folder=tmp_path)
    assert done.returncode == 127
    assert "\x1b" not in done.stderr and "\x07" not in done.stderr
    assert report["verdict"]["cause"] == "exec.not_found"
