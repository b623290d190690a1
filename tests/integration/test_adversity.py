"""Whatever is missing, closed, full or hostile: the command runs, and its status is its own."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import BIN, Agent, probe_run, wait_for

from probe import local

pytestmark = pytest.mark.bpf
PROBE = str(BIN / "probe")
NOBODY = "setpriv --reuid=65534 --regid=65534 --clear-groups"


def shell(
    script: str, folder: Path, socket: str = "/nonexistent"
) -> subprocess.CompletedProcess[str]:
    """A bash script with $PROBE, in a place of its own."""
    return subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=60,
        env={**os.environ, "PROBE": PROBE, "PROBE_SOCKET": socket},
        check=False,
    )


@pytest.mark.parametrize("watcher", ["agent", "self"])
@pytest.mark.parametrize(
    "script",
    [
        "$PROBE run -- sh -c 'exit 3' >&-",
        "$PROBE run -- sh -c 'exit 3' 2>&-",
        "$PROBE run -- sh -c 'exit 3' <&-",
        "$PROBE run -- sh -c 'exit 3' 2>/dev/full",
        "$PROBE run --json - -- sh -c 'exit 3' >/dev/full",
        "$PROBE run --json /dev/full -- sh -c 'exit 3'",
        "set -o pipefail; $PROBE run --json - -- sh -c 'exit 3' | true",
        "unshare -m sh -c 'umount -l /proc; exec $PROBE run -- sh -c \"exit 3\"'",
        "ulimit -n 30; $PROBE run -- sh -c 'exit 3'",
        "ulimit -v 60000; $PROBE run -- sh -c 'exit 3'",
        "LC_ALL=C PYTHONIOENCODING=latin-1 $PROBE run -- sh -c 'exit 3'",
        "env -i $PROBE run -- /bin/sh -c 'exit 3'",
        "PYTHONINSPECT=1 $PROBE run -- sh -c 'exit 3'",
        "$PROBE run --test $'a\\xffb' -- sh -c 'exit 3' $'\\xff'",
        "$PROBE run -- sh -c 'exit 3' $(head -c 100000 /dev/zero | tr '\\0' x)",
    ],
)
def test_the_status_is_the_commands(
    script: str, watcher: str, agent: Agent, tmp_path: Path
) -> None:
    done = shell(script, tmp_path, agent.socket if watcher == "agent" else "/nonexistent")
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr


def test_a_projects_own_modules_do_not_stand_in_for_ours(agent: Agent, tmp_path: Path) -> None:
    for name in ("textwrap.py", "json.py", "probe/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("raise SystemExit(99)\n")
    done = shell("PYTHONPATH=. $PROBE run -- sh -c 'exit 3'", tmp_path, agent.socket)
    assert done.returncode == 3
    (tmp_path / "probe" / "__init__.py").write_text("")
    (tmp_path / "json.py").unlink()
    (tmp_path / "textwrap.py").unlink()
    (tmp_path / "test_it.py").write_text(
        "import probe\ndef test_a(): assert not vars(probe).get('x')\n"
    )
    done = shell(f"{sys.executable} -m pytest -q test_it.py", tmp_path, agent.socket)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_a_full_pids_cgroup_leaves_the_command_alone(tmp_path: Path) -> None:
    from collector.sandbox import Profile, Sandbox

    with Sandbox(Profile(pids=1), f"probe-test-one-{os.getpid()}") as sandbox:
        done = subprocess.run(
            sandbox.command([PROBE, "run", "--", "/bin/echo", "ran"]),
            capture_output=True,
            text=True,
            env={**os.environ, "PROBE_SOCKET": "/nonexistent"},
            check=False,
        )
    assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr
    assert "blind" in done.stderr and "Traceback" not in done.stderr


def test_killed_before_the_start_nothing_is_started(tmp_path: Path) -> None:
    own = Agent(tmp_path)
    own.process.send_signal(signal.SIGSTOP)
    ran = tmp_path / "ran"
    watched = subprocess.Popen(
        [PROBE, "run", "--", "touch", str(ran)], env={**os.environ, "PROBE_SOCKET": own.socket}
    )
    children = Path(f"/proc/{watched.pid}/task/{watched.pid}/children")
    child = wait_for(lambda: children.read_text().split())[0]
    watched.kill()
    watched.wait()
    wait_for(lambda: not Path(f"/proc/{child}/exe").exists())
    own.process.send_signal(signal.SIGCONT)
    own.stop()
    assert not ran.exists()


@pytest.mark.parametrize(
    "field",
    [
        {"run": 5},
        {"test": "\ud800"},
        {"test": {}},
        {"command": [1, 2]},
        {"command": "x"},
        {"started_ns": "x"},
        {"started_ns": 1 << 70},
        {"started_ns": -1},
        {"whole_process": "x"},
    ],
    ids=str,
)
def test_hostile_spans_hurt_nobody(field: dict[str, object], tmp_path: Path) -> None:
    """With a collector, where whatever is kept must also fit into a message."""
    address = f"unix:{tmp_path}/nobody.sock"
    own = Agent(tmp_path, "--collector", address)
    client = local.connect(own.socket)
    assert client is not None
    request = {"do": "begin", "run": "", "test": "", "command": [], "started_ns": 1, **field}
    pidfd = os.pidfd_open(os.getpid())
    with contextlib.suppress(local.AgentError):
        client.ask(request, pidfd)
    client.close()
    os.close(pidfd)
    other = local.connect(own.socket)
    assert other is not None
    wait_for(lambda: other.ask({"do": "status"})["open_spans"] == 0)
    own.process.kill()
    own.process.wait()


def test_a_crowd_of_idle_clients_and_one_that_does_not_read(tmp_path: Path) -> None:
    own = Agent(tmp_path)
    crowd = []
    for _ in range(600):
        one = socket.socket(socket.AF_UNIX)
        one.settimeout(1)
        try:
            one.connect(own.socket)
        except OSError:
            break
        crowd.append(one)
    for one in crowd:
        one.close()
    deaf = socket.socket(socket.AF_UNIX)
    deaf.connect(own.socket)
    deaf.setblocking(False)
    try:
        for _ in range(20_000):
            deaf.send(b'{"do": "status"}\n')
    except OSError:
        pass
    began = time.monotonic()
    done, report = probe_run("sh", "-c", "exit 9", socket=own.socket, folder=tmp_path)
    assert done.returncode == 9 and report["coverage"]["engine"] == "core"
    assert time.monotonic() - began < 10
    own.stop()


def test_a_log_that_nobody_takes_ends_no_agent(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"
    own = subprocess.Popen(
        f"exec {PROBE} agent --socket {path} 2>/dev/full", shell=True, stdin=subprocess.DEVNULL
    )
    wait_for(path.exists)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        client.sendall(b"{bad\n")
        assert b"error" in client.recv(999)
    assert own.poll() is None
    own.terminate()
    assert own.wait(10) == 0


def test_a_span_within_a_span_is_part_of_both(agent: Agent, tmp_path: Path) -> None:
    inner = f"{PROBE} run --explain never -- nosuchthing"
    _, report = probe_run("sh", "-c", inner, socket=agent.socket, folder=tmp_path)
    assert report["verdict"]["cause"] == "exec.not_found"


def test_losses_of_others_are_no_losses_of_mine(agent: Agent, tmp_path: Path) -> None:
    flood = (
        "import os\nfor i in range(20000):\n"
        " try: os.execv(f'/no/{i}', ['x'])\n except OSError: pass\n"
    )
    subprocess.run([sys.executable, "-c", flood], check=True)
    _, report = probe_run("false", socket=agent.socket, folder=tmp_path)
    assert report["lost"]["total"] == 0
    assert report["verdict"]["cause"] == "workload.failed"
