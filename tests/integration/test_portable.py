"""The portable engine on the real kernel: told by the process connector, and by looking alone."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import BIN, Agent, probe_run
from test_blind import NOBODY, SCRIPT, folder
from test_cgroups import FORKS, HOG, MIB, nested

__all__ = ["folder"]

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can take rights away")

PYTHON = "/usr/bin/python3"
PORTABLE = ("--engine", "portable")
ALONE = ["unshare", "--pid", "--fork", "--mount-proc"]  # where the connector is silent
UNLOGGED = ["unshare", "--mount", "sh", "-c", 'mount --bind /dev/null /dev/kmsg && exec "$@"', "sh"]

Done = tuple[subprocess.CompletedProcess[str], dict[str, Any]]


def watched(tmp_path: Path, *command: str, before: list[str] | None = None, **popen: Any) -> Done:
    done, report = probe_run(
        *command, options=PORTABLE, folder=tmp_path, before=before or [], **popen
    )
    assert report["coverage"]["engine"] == "portable"
    return done, report


def of_kind(report: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [event for event in report["events"] if event["kind"] == kind]


def programs(report: dict[str, Any]) -> list[str]:
    return [Path(event["path"]).name for event in of_kind(report, "exec")]


def exits(report: dict[str, Any]) -> list[tuple[str, int | str]]:
    return [
        (event["comm"], event.get("signal") or event["code"]) for event in of_kind(report, "exit")
    ]


TREE = f"sleep 0.3; {PYTHON} -c 'import sys, time; time.sleep(0.3); sys.exit(7)'; sleep 0.3; exit 3"


@pytest.mark.parametrize(("before", "attribution"), [([], "exact"), (ALONE, "time")])
def test_the_tree_and_its_statuses(before: list[str], attribution: str, tmp_path: Path) -> None:
    done, report = watched(tmp_path, "sh", "-c", TREE, before=before)
    assert done.returncode == 3
    assert report["coverage"]["attribution"] == attribution
    assert exits(report) == [("sleep", 0), ("python3", 7), ("sleep", 0), ("sh", 3)]
    started = [name for name in programs(report) if name]
    assert started == ["dash", "sleep", os.path.basename(os.path.realpath(PYTHON)), "sleep"]
    assert report["verdict"]["cause"] == "unknown"


def test_every_short_process_is_told_of_by_the_connector(tmp_path: Path) -> None:
    done, report = watched(tmp_path, "sh", "-c", "for i in $(seq 200); do /bin/true; done; exit 1")
    assert done.returncode == 1
    assert len(of_kind(report, "exit")) == 200 + 2  # sh and seq
    assert report["lost"]["total"] == 0


def test_a_plain_failure_is_nobodys_fault(tmp_path: Path) -> None:
    for before in ([], ALONE):
        _, report = watched(tmp_path, "sh", "-c", "exit 1", before=before)
        verdict = report["verdict"]
        assert verdict["cause"] == "unknown" and report["alternatives"] == []
        for sense in ("seccomp", "exec", "fork", "connect", "dns", "files"):
            assert sense in verdict["summary"]


def test_the_threads_of_a_process_do_not_end_it(tmp_path: Path) -> None:
    script = (
        "import os, threading, time, ctypes\n"
        "def late():\n time.sleep(0.2)\n os._exit(5)\n"
        "threading.Thread(target=late).start()\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    done, report = watched(tmp_path, PYTHON, "-c", script)
    assert done.returncode == 5
    assert [status for _, status in exits(report)] == [5]
    ended = of_kind(report, "exit")[0]
    assert ended["duration_s"] > 0.2


@pytest.mark.parametrize(("before", "known"), [([], True), (UNLOGGED, False)])
def test_the_oom_killer(before: list[str], known: bool, tmp_path: Path) -> None:
    with nested("memory", 90 * MIB, 48 * MIB) as join:
        script = f'{PYTHON} -c "{HOG}"; exit 1'
        _, report = watched(tmp_path, *join, "sh", "-c", script, before=before)
    (event,) = of_kind(report, "oom")
    assert event["limit"] == 48 * MIB and event["cgroup"].endswith("/probe-inner")
    assert ("virtual" in event) == known
    assert report["coverage"]["senses"]["oom"].startswith("full" if known else "partial: by the")
    assert report["verdict"]["cause"] == "memory.cgroup_oom"
    assert report["verdict"]["confidence"] > 0.8


def test_a_full_pids_cgroup(tmp_path: Path) -> None:
    with nested("pids", 40, 4) as join:
        _, report = watched(tmp_path, *join, PYTHON, "-c", FORKS)
    (event,) = of_kind(report, "fork")
    assert event["pids_max"] == 4 and event["cgroup"].endswith("/probe-inner")
    assert event["errno"] == "EAGAIN"
    assert report["verdict"]["cause"] == "fork.pids_limit"


KILLED = "import os; os.mkdir('/nonexistent/x')"


@pytest.mark.parametrize("action", ["kill_process", "kill_thread"])
@pytest.mark.parametrize(("before", "known"), [([], True), (UNLOGGED, False)])
def test_a_filter_that_kills(action: str, before: list[str], known: bool, tmp_path: Path) -> None:
    limited = [BIN / "python", "-c", _FILTERED, action]
    _, report = watched(tmp_path, *map(str, limited), before=before)
    assert report["verdict"]["cause"] == "seccomp.denied"
    events = of_kind(report, "seccomp")
    if known:
        assert [(event["syscall"], event["action"]) for event in events] == [("mkdir", action)]
        assert "mkdir" in report["verdict"]["summary"]
    else:
        assert events == []
        assert "SIGSYS" in report["verdict"]["summary"]
        assert report["verdict"]["confidence"] <= 0.85


_FILTERED = """
import ctypes, os, sys
seccomp = ctypes.CDLL("libseccomp.so.2")
seccomp.seccomp_init.restype = ctypes.c_void_p
context = ctypes.c_void_p(seccomp.seccomp_init(0x7FFF0000))
action = {"kill_process": 0x80000000, "kill_thread": 0}[sys.argv[1]]
mkdir = seccomp.seccomp_syscall_resolve_name(b"mkdir")
assert seccomp.seccomp_rule_add(context, ctypes.c_uint32(action), mkdir, 0) == 0
assert seccomp.seccomp_load(context) == 0
os.mkdir("/nonexistent/x")
"""


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port of which nobody ever answers: its queue of connections is full."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port: int = listener.getsockname()[1]
        waiting = [socket.socket() for _ in range(2)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        yield port
        for one in waiting:
            one.close()


@pytest.mark.parametrize("before", [[], ALONE])
def test_a_connection_that_nobody_answers(
    silent_port: int, before: list[str], tmp_path: Path
) -> None:
    script = f"import socket; socket.create_connection(('127.0.0.1', {silent_port}), 1.5)"
    done, report = watched(tmp_path, PYTHON, "-c", script, before=before)
    assert done.returncode == 1
    (event,) = of_kind(report, "connect")
    assert (event["address"], event["port"]) == ("127.0.0.1", silent_port)
    assert event["abandoned"] and 0.5 <= event["duration_s"] < 2
    assert report["verdict"]["cause"] == "net.timeout"


LINKED = """
ip link set lo up
ip link add v0 type veth peer name v1
ip address add 10.9.9.1/24 dev v0
ip link set v0 up && ip link set v1 up
exec "$@"
"""
SILENT = """
import socket
listener = socket.create_server(("127.0.0.1", 0), backlog=0)
full = [socket.socket() for _ in range(3)]
for one in full[:2]:
    one.setblocking(False)
    one.connect_ex(listener.getsockname())
full[2].setblocking(False)
full[2].connect_ex(("10.9.9.2", 80))
socket.create_connection(listener.getsockname(), 1.5)
"""


def test_a_neighbour_that_is_not_there_explains_no_other_wait(tmp_path: Path) -> None:
    """Its address is looked for in vain, which is as good as a refusal (EHOSTUNREACH)."""
    before = ["unshare", "--net", "sh", "-c", LINKED, "sh"]
    _, report = watched(tmp_path, PYTHON, "-c", SILENT, before=before)
    assert {event["address"] for event in of_kind(report, "connect")} == {"127.0.0.1"}
    assert report["verdict"]["cause"] == "net.timeout"


def test_a_file_system_that_becomes_full(tmp_path: Path) -> None:
    mounted = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        'mount -t tmpfs -o size=64k t /mnt && exec "$@"',
        "sh",
    ]
    script = "head -c 100000 /dev/zero > /mnt/big || exit 1"
    _, report = watched(tmp_path, "sh", "-c", script, before=mounted)
    limits = of_kind(report, "limit")
    assert {(event["limit"], event["value"]) for event in limits} == {("space of /mnt", 65536)}
    assert report["verdict"]["cause"] == "fs.no_space"
    assert report["verdict"]["confidence"] <= 0.7


@pytest.mark.parametrize(
    ("script", "cause", "most"),
    [
        ("no-such-program", "unknown", 0.5),
        ("ulimit -f 1; head -c 9999 /dev/zero > {folder}/f", "fs.file_size_limit", 0.9),
        ("timeout 0.1 sleep 9", "limit.killed", 0.8),
        ("kill -SEGV $$", "workload.crashed", 0.6),
        ("kill -KILL $$", "unknown", 0.5),
        ("kill -ABRT $$", "unknown", 0.5),
        ("exit 126", "unknown", 0.5),
    ],
)
def test_what_a_status_says(script: str, cause: str, most: float, tmp_path: Path) -> None:
    _, report = watched(tmp_path, "sh", "-c", script.replace("{folder}", str(tmp_path)))
    assert report["verdict"]["cause"] == cause
    assert report["verdict"]["confidence"] <= most


def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    done, report = watched(tmp_path, "/no/such/program")
    assert done.returncode == 127
    assert report["verdict"]["cause"] == "exec.not_found"
    assert "/no/such/program" in report["verdict"]["summary"]


def test_names_may_be_anything(tmp_path: Path) -> None:
    name = "a) R 1\n\x1b[31m(é"
    program = tmp_path / name
    program.write_text("#!/bin/sh\nsleep 0.3\nexit 9\n")
    program.chmod(0o755)
    for before in ([], ALONE):
        done, report = watched(tmp_path, str(program), "\x1b]0;title\x07", before=before)
        assert done.returncode == 9
        (ended,) = [event for event in of_kind(report, "exit") if event.get("code") == 9]
        assert ended["comm"].startswith("a) R 1\n")
        assert "\x1b" not in done.stderr


def test_a_huge_tree_is_followed_or_counted(tmp_path: Path) -> None:
    script = (
        "import os, time\n"
        "for _ in range(1500):\n"
        "    if not os.fork(): time.sleep(1); os._exit(0)\n"
        "while True:\n"
        "    try: os.wait()\n"
        "    except ChildProcessError: break\n"
        "os._exit(4)\n"
    )
    done, report = watched(tmp_path, PYTHON, "-c", script)
    assert done.returncode == 4
    assert report["verdict"]["cause"] == "unknown"
    assert len(of_kind(report, "exit")) + report["lost"]["total"] >= 1501


def test_a_storm_of_short_processes_is_followed_or_counted(tmp_path: Path) -> None:
    script = (
        "import os\n"
        "for _ in range(20000):\n"
        "    pid = os.fork()\n"
        "    if not pid: os._exit(0)\n"
        "    os.waitpid(pid, 0)\n"
        "os._exit(4)\n"
    )
    done, report = watched(tmp_path, PYTHON, "-c", script)
    assert done.returncode == 4
    assert report["verdict"]["cause"] == "unknown"
    assert len(of_kind(report, "exit")) + report["lost"]["total"] >= 20_000


def test_nobody_is_told_by_the_connector_where_the_kernel_lets_everybody(folder: Path) -> None:
    """Since Linux 6.6; before, processes are looked for."""
    report_path = folder / "report"
    python = os.path.realpath(sys.executable)
    command = [python, "-c", SCRIPT, "run", *PORTABLE, "--json", report_path, "--"]
    subprocess.run(
        [*NOBODY, *map(str, command), "sh", "-c", "sleep 0.3; exit 6"],
        cwd=folder,
        env={**os.environ, "PROBE_SOCKET": "/nonexistent"},
        check=False,
    )
    report = json.loads(report_path.read_text())
    told = tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 6)
    assert report["coverage"]["attribution"] == ("exact" if told else "time")
    assert "Operation not permitted" in report["coverage"]["senses"]["oom"]
    assert exits(report) == [("sleep", 0), ("sh", 6)]


def test_an_agent_remembers_what_everybody_did(tmp_path: Path) -> None:
    agent = Agent(tmp_path, *PORTABLE)
    failed = subprocess.Popen(["sh", "-c", "sleep 0.2; exit 5"])
    failed.wait()
    _, report = probe_run("sh", "-c", "sleep 0.2; exit 8", socket=agent.socket, folder=tmp_path)
    assert report["coverage"]["engine"] == "portable"
    assert exits(report) == [("sleep", 0), ("sh", 8)]
    done = subprocess.run(
        [BIN / "probe", "why", "--json", str(failed.pid)],
        env={**os.environ, "PROBE_SOCKET": agent.socket},
        capture_output=True,
        text=True,
        check=True,
    )
    remembered = json.loads(done.stdout)
    assert exits(remembered) == [("sleep", 0), ("sh", 5)]
    assert remembered["verdict"]["cause"] == "unknown"
    agent.stop()


def test_an_idle_engine_sleeps(tmp_path: Path) -> None:
    """Between looks at a span that only waits it uses next to nothing, by its own account."""
    script = (
        "import os, time\n"
        "from probe.engine.portable.engine import PortableEngine\n"
        "engine = PortableEngine()\n"
        "pid = os.fork()\n"
        "if not pid: time.sleep(20); os._exit(0)\n"
        "engine.mark(os.pidfd_open(pid), 1)\n"
        "time.sleep(1)\n"
        "before = time.process_time(); time.sleep(3)\n"
        "print((time.process_time() - before) / 3)\n"
        "os.kill(pid, 9); engine.close()\n"
    )
    done = subprocess.run(
        [*ALONE, BIN / "python", "-c", script], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) < 0.06
