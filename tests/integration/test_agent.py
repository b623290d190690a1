"""The agent: what its clients may do, and what it says of them to the collector."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sqlite3
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import BIN, Agent, Collector, probe_run, validated, wait_for

from probe import local
from probe.agent import DETACHED_PER_USER
from probe.watch import NESTED_MAX

pytestmark = pytest.mark.bpf


@pytest.fixture
def client(agent: Agent) -> local.Client:
    connected = local.connect(agent.socket)
    assert connected is not None
    return connected


def begin(test: str = "t") -> dict[str, Any]:
    return {
        "do": "begin",
        "run": "r",
        "test": test,
        "command": ["x"],
        "started_ns": time.time_ns(),
        "whole_process": False,
    }


def test_a_stretch_of_a_process_is_a_span(client: local.Client) -> None:
    pidfd = os.pidfd_open(os.getpid())
    subprocess.run(["/bin/false"], check=False)  # before the span
    key = client.ask(begin(), pidfd)["key"]
    subprocess.run(["bash", "-c", "exit 9"], check=False)
    answer = client.ask(
        {"do": "end", "key": key, "ended_ns": time.time_ns(), "outcome": "failed", "report": True}
    )
    subprocess.run(["/bin/false"], check=False)  # after it
    exits = [event for event in answer["report"]["events"] if event["kind"] == "exit"]
    assert [event["code"] for event in exits] == [9]
    os.close(pidfd)


@pytest.mark.parametrize(
    "line",
    [
        b"nonsense\n",
        b"[]\n",
        b"{}\n",
        b'{"do": "frobnicate"}\n',
        b'{"do": "begin"}\n',
        b'{"do": "end"}\n',
        b'{"do": "end", "key": 1}\n',
        b'{"do": "end", "key": [1]}\n',
        b"\xff\xfe\n",
        b"[" * 10000 + b"\n",
    ],
)
def test_a_bad_request_is_refused_and_the_agent_lives(line: bytes, agent: Agent) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(agent.socket)
        connection.sendall(line)
        answer = connection.makefile("rb").readline()
    assert b"error" in answer
    assert local.connect(agent.socket).ask({"do": "status"})["coverage"]["engine"] == "core"  # type: ignore[union-attr]


def test_endless_lines_and_descriptors_are_cut_off(agent: Agent) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(agent.socket)
        with pytest.raises(OSError):
            for _ in range(100):
                connection.sendall(b"x" * 65536)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(agent.socket)
        with pytest.raises(OSError):
            for _ in range(100):
                socket.send_fds(connection, [b"x"], [0, 0, 0, 0])
                time.sleep(0.001)
    assert local.connect(agent.socket) is not None


def test_a_descriptor_that_is_no_pidfd_is_refused(client: local.Client) -> None:
    with pytest.raises(local.AgentError, match="no pidfd"):
        client.ask(begin(), 0)


def test_another_users_process_cannot_be_marked(agent: Agent) -> None:
    code = (
        "import os, sys; from probe import local\n"
        f"c = local.connect({agent.socket!r})\n"
        "r = {'do': 'begin', 'run': '', 'test': 't', 'command': [], 'started_ns': 1}\n"
        "try: c.ask(r, os.pidfd_open(1)); print('marked')\n"
        "except local.AgentError as error: print(error)\n"
    )
    root = Path(local.__file__).parent.parent
    python = os.path.realpath(BIN / "python")
    done = subprocess.run(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", python, "-c", code],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(root)},
        check=False,
    )
    if "No module named" in done.stderr:
        pytest.skip("the checkout is not readable for other users")
    assert "another user" in done.stdout, done.stderr


def test_a_span_belongs_to_its_connection(agent: Agent, client: local.Client) -> None:
    pidfd = os.pidfd_open(os.getpid())
    key = client.ask(begin(), pidfd)["key"]
    other = local.connect(agent.socket)
    assert other is not None
    with pytest.raises(local.AgentError, match="no such span"):
        other.ask({"do": "end", "key": key, "ended_ns": 1})
    client.close()
    wait_for(lambda: other.ask({"do": "status"})["open_spans"] == 0)
    os.close(pidfd)


def test_a_second_agent_on_the_same_socket_is_refused(agent: Agent) -> None:
    done = subprocess.run(
        [BIN / "probe", "agent", "--socket", agent.socket],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "already" in done.stderr and "Traceback" not in done.stderr


def test_the_socket_of_a_killed_agent_is_taken_over(tmp_path: Path) -> None:
    first = Agent(tmp_path)
    first.process.send_signal(signal.SIGKILL)
    first.process.wait()
    assert Path(first.socket).exists()
    second = Agent(tmp_path)
    done, report = probe_run("sh", "-c", "exit 3", socket=second.socket, folder=tmp_path)
    assert done.returncode == 3 and report["coverage"]["engine"] == "core"
    second.stop()
    assert not Path(second.socket).exists()


def test_an_agent_that_dies_does_not_hurt_the_command(tmp_path: Path) -> None:
    agent = Agent(tmp_path)
    ready = tmp_path / "ready"
    watched = subprocess.Popen(
        [BIN / "probe", "run", "--", "bash", "-c", f"touch {ready}; read x; exit 6"],
        env={**os.environ, "PROBE_SOCKET": agent.socket},
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(ready.exists)
    agent.process.send_signal(signal.SIGKILL)
    agent.process.wait()
    _, said = watched.communicate("go\n", timeout=20)
    assert watched.returncode == 6
    assert "the agent went away" in said and "Traceback" not in said


def test_what_a_killed_agent_had_not_delivered_comes_from_its_successor(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/c.sock"
    agent = Agent(tmp_path, "--collector", address)
    options = ("--run", "r", "--test", "t1")
    probe_run("/no/such/thing", socket=agent.socket, options=options, folder=tmp_path)
    agent.process.send_signal(signal.SIGKILL)
    agent.process.wait()
    collector = Collector(tmp_path)
    Agent(tmp_path, "--collector", address).stop()  # drains
    collector.stop()
    report = collector.explain("r", "t1")
    assert report["verdict"]["cause"] == "exec.not_found"
    assert report["lost"]["total"] == 0
    assert "delivery" not in report["coverage"]["senses"]


def test_a_spool_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    collector = Collector(tmp_path)
    agent = Agent(tmp_path, "--collector", collector.address, "--spool", "/proc/nowhere")
    options = ("--run", "r", "--test", "t1")
    probe_run("/no/such/thing", socket=agent.socket, options=options, folder=tmp_path)
    assert b"in memory alone" in agent.log.read_bytes()
    agent.stop()
    collector.stop()
    delivery = collector.explain("r", "t1")["coverage"]["senses"]["delivery"]
    assert delivery.startswith("partial: in memory alone, /proc/nowhere: ")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--collector", "h:1", "--cert", "/c"), "--cert and --key belong together"),
        (("--collector", "h:1", "--insecure", "--ca", "/c"), "--insecure is for plain text"),
        (("--collector", "h:1", "--ca", "/nowhere"), "--ca /nowhere: No such file"),
        (("--collector", "h:1", "--ca", "/dev/null"), "--ca /dev/null: no certificates"),
        (("--collector", "h:1", "--token-file", "/nowhere"), "--token-file /nowhere: No such"),
        (("--collector", "h:1,h"), "'h' is no address"),
        (("--collector", "h:1", "--spool-size", "0"), "'0': no number above 0"),
    ],
)
def test_what_could_never_reach_a_collector(options: tuple[str, ...], words: str) -> None:
    command = [BIN / "probe", "agent", "--socket", "/nowhere", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert words in done.stderr


def test_events_and_spans_reach_the_collector_once(tmp_path: Path) -> None:
    collector = Collector(tmp_path)
    agent = Agent(tmp_path, "--collector", collector.address)
    options = ("--run", "r", "--test", "t1")
    probe_run("/no/such/thing", socket=agent.socket, options=options, folder=tmp_path)
    agent.stop()  # drains
    collector.stop()
    report = collector.explain("r", "t1")
    assert report["verdict"]["cause"] == "exec.not_found"
    exits = [event for event in report["events"] if event["kind"] == "exit"]
    assert len(exits) == 1


def test_a_span_is_known_from_its_begin(tmp_path: Path) -> None:
    """Of a sandbox that dies with its probe, the collector knows what ran, and what it did."""
    collector = Collector(tmp_path)
    agent = Agent(tmp_path, "--collector", collector.address, PROBE_SANDBOX="doomed")
    script = "curl-that-is-not-there; sleep 100"
    environment = {**os.environ, "PROBE_SOCKET": agent.socket}
    command = [BIN / "probe", "run", "--run", "r", "--test", "t1", "--", "bash", "-c", script]
    with subprocess.Popen(command, env=environment, start_new_session=True) as run:
        database = sqlite3.connect(collector.database)
        wait_for(lambda: database.execute("SELECT 1 FROM events WHERE kind = 'exec'").fetchall())
        agent.process.kill()
        os.killpg(run.pid, signal.SIGKILL)
    # Two minutes go by.
    database.execute("UPDATE sandboxes SET last_heard_ns = last_heard_ns - 120000000000")
    database.commit()
    report = validated(collector.explain("r", "t1"))
    assert report["verdict"]["cause"] == "sandbox.lost"
    assert "doomed" in report["verdict"]["summary"]
    assert "bash" in report["span"]["command"]
    assert report["verdict"]["evidence"] == [report["events"][-1]["id"]]


def test_spans_lie_in_one_another_only_so_deep(client: local.Client) -> None:
    pidfd, keys = os.pidfd_open(os.getpid()), []
    for _ in range(NESTED_MAX):
        keys.append(client.ask(begin(), pidfd)["key"])
    with pytest.raises(local.AgentError, match="within 8 spans"):
        client.ask(begin(), pidfd)
    for key in reversed(keys):
        client.ask({"do": "end", "key": key, "ended_ns": time.time_ns()})
    client.ask(begin(), pidfd)
    os.close(pidfd)


def test_detached_spans_make_room_when_their_process_has_gone(agent: Agent) -> None:
    def detach(pidfd: int) -> int:
        client = local.connect(agent.socket)
        assert client is not None
        key: int = client.ask({**begin(), "detached": True}, pidfd)["key"]
        client.close()
        return key

    sleepers = [subprocess.Popen(["sleep", "100"]) for _ in range(DETACHED_PER_USER)]
    for sleeper in sleepers:
        detach(os.pidfd_open(sleeper.pid))
    own = os.pidfd_open(os.getpid())
    with pytest.raises(local.AgentError, match="too many open spans"):
        detach(own)
    for sleeper in sleepers:
        sleeper.kill()
        sleeper.wait()
    client = local.connect(agent.socket)
    assert client is not None
    client.ask({"do": "end", "key": detach(own), "ended_ns": time.time_ns()})
    assert client.ask({"do": "status"})["open_spans"] == 0
    os.close(own)


@pytest.mark.parametrize(
    "told",
    [
        {"ended_ns": -1},
        {"ended_ns": 1 << 63},
        {"ended_ns": "now"},
        {"ended_ns": 1, "status": -1},
        {"ended_ns": 1, "status": 1 << 40},
        {"ended_ns": 1, "transfers": [{"name": "x" * 10_000, "at": "client"}]},
        {
            "ended_ns": 1,
            "transfers": [
                {"name": "x", "at": "client", "digest": {"length": 1, "hash": "x" * 10_000}}
            ],
        },
    ],
)
def test_a_span_lives_on_when_its_end_is_refused(
    told: dict[str, Any], client: local.Client
) -> None:
    pidfd = os.pidfd_open(os.getpid())
    key = client.ask(begin(), pidfd)["key"]
    with pytest.raises(local.AgentError):
        client.ask({"do": "end", "key": key, **told})
    client.ask({"do": "end", "key": key, "ended_ns": time.time_ns()})
    os.close(pidfd)


def test_a_flood_of_requests_lets_the_others_have_their_turn(agent: Agent) -> None:
    """Thousands of questions at once; what happens meanwhile is seen all the same."""
    with socket.socket(socket.AF_UNIX) as flood:
        flood.connect(agent.socket)
        flood.sendall(b'{"do": "recent"}\n' * 2000)
        other = local.connect(agent.socket)
        assert other is not None
        for _ in range(20):
            other.ask({"do": "status"})
        flood.settimeout(0)
        received = b""
        with contextlib.suppress(BlockingIOError):
            while data := flood.recv(1 << 20):  # who does not read its answers is cut off
                received += data
        assert received.count(b"\n") < 2000


def test_a_key_that_cannot_be_printed_is_no_span(agent: Agent) -> None:
    environment = {**os.environ, "PROBE_SOCKET": agent.socket}
    command = [str(BIN / "probe"), "span", "begin", "--test", "t"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command, env=environment, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    client = local.connect(agent.socket)
    assert client is not None and client.ask({"do": "status"})["open_spans"] == 0
