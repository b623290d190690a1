"""`probe why` and `probe watch`, as somebody uses them who is in a sandbox over SSH."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import (
    BIN,
    STARTED,
    Agent,
    probe_run,
    public_folder,
    shared_agent,
    validated,
    wait_for,
)
from sshd import ROOT, Sshd, quoted, user

from collector.sandbox import Profile, Sandbox

pytestmark = pytest.mark.bpf

PROBE = str(BIN / "probe")
PYTHON = "/usr/bin/python3"


@pytest.fixture(scope="module")
def agent_of_all() -> Iterator[Agent]:
    with shared_agent() as started:
        yield started


@pytest.fixture(scope="module")
def sshd() -> Iterator[Sshd]:
    with public_folder() as folder, user(ROOT, root=True):
        server = Sshd(folder / "d")
        yield server
        server.stop()


def asked(agent: Agent, *lines: str) -> list[str]:
    """The lines, after the one that says where the agent is."""
    return [f"export PROBE_SOCKET={agent.socket} NO_COLOR=1", *lines]


FAILURES = {
    "a missing tool": ("frobnicate --now", "exec.not_found"),
    "a missing file": ("cat /no/such/data.csv", "fs.missing"),
    "a module that is not installed": (f"{PYTHON} -c 'import nosuchmodule'", "fs.missing"),
    "nobody listens": (
        f"{PYTHON} -c 'import socket; socket.create_connection((\"127.0.0.1\", 9))'",
        "net.refused",
    ),
    "a time limit": ("timeout 0.3 sleep 60", "limit.killed"),
    "no execute bit": ("echo 'echo hi' > job.sh; ./job.sh", "exec.permission"),
    "an interpreter that is not there": (
        "printf '#!/opt/perl5/bin/perl\\n' > old.pl; chmod +x old.pl; ./old.pl",
        "exec.interpreter_missing",
    ),
    "another's file": (
        "touch key; chmod 600 key; setpriv --reuid 4321 --clear-groups cat $PWD/key",
        "fs.permission",
    ),
    "an assertion of its own": (f"{PYTHON} -c 'assert 1 == 2, \"no\"'", "workload.failed"),
    "a crash of its own": (
        f"{PYTHON} -c 'import ctypes; ctypes.string_at(8)'",
        "workload.crashed",
    ),
    "a fault in a script's depths": (
        "bash -c 'sh -c \"exec /opt/missing/tool\" || exit 3'",
        "exec.not_found",
    ),
}
SANDBOXES = {
    "a filter": (Profile(seccomp={"mkdir": "EPERM"}), "mkdir {dir}/x", "seccomp.denied"),
    "memory, in a pipeline": (
        Profile(memory=64 << 20),
        f"{PYTHON} -c 'x = bytearray(300 << 20)'",
        "memory.cgroup_oom",
    ),
    "a read-only folder": (Profile(read_only=["{dir}"]), "touch {dir}/x", "fs.read_only"),
}


def slug(name: str) -> str:
    return "".join(letter for letter in name if letter.isalpha()) + ".json"


def test_a_terminal_over_ssh(agent_of_all: Agent, sshd: Sshd, tmp_path: Path) -> None:
    """Fourteen failures in one session, each asked about once it has happened."""
    lines, wanted = [f"cd {tmp_path}"], {}
    with contextlib.ExitStack() as stack:
        for name, (line, cause) in FAILURES.items():
            lines.append(line)
            wanted[name] = cause
            lines.append(f"{PROBE} why --json > {slug(name)}")
        for number, (name, (profile, line, cause)) in enumerate(SANDBOXES.items()):
            profile = Profile(
                **{**vars(profile), "read_only": [str(tmp_path)] if profile.read_only else []}
            )
            box = stack.enter_context(Sandbox(profile, f"why-{os.getpid()}-{number}"))
            command = box.command(["bash", "-c", line.format(dir=tmp_path)])
            lines.append(f"{quoted(*command)} | cat" if "pipeline" in name else quoted(*command))
            wanted[name] = cause
            lines.append(f"{PROBE} why --json > {slug(name)}")
        sshd.session(*asked(agent_of_all, *lines))
    found = {}
    for name in wanted:
        report = validated(json.loads((tmp_path / slug(name)).read_text()))
        found[name] = report["verdict"]["cause"]
        assert report["coverage"]["engine"] == "core"
    assert found == wanted


def test_what_people_read(agent_of_all: Agent, sshd: Sshd, tmp_path: Path) -> None:
    """The verdict first, the line as it was typed, and no escape code of a workload's."""
    evil = "$'/tmp/evil\\e[31m\\e]0;title\\anew\\nline'"
    shown = sshd.session(
        *asked(
            agent_of_all,
            f"source <({PROBE} hook bash); PATH={BIN}:$PATH; set -o history",
            "frobnicate --typed   # like this",
            "probe why",
            f"{PYTHON} -c 'import sys; open(sys.argv[1])' {evil} 2>/dev/null",
            "probe why",
        )
    )
    lines = shown.splitlines()
    header = next(at for at, line in enumerate(lines) if line.startswith("$ frobnicate --typed"))
    assert lines[header + 1].startswith("exec.not_found")
    assert any(line.strip().startswith("→ install frobnicate") for line in lines)
    assert "\x1b[31m" not in shown and "\x1b]0;" not in shown
    assert "\\x1b[31m" in shown
    assert max(map(len, lines)) <= 100


def test_after_a_while_and_after_success(agent_of_all: Agent, sshd: Sshd, tmp_path: Path) -> None:
    sshd.session(
        *asked(
            agent_of_all,
            f"cd {tmp_path}",
            "cat /no/such/one",
            "cat /no/such/two & wait; echo $! > pid",
            "true; ls / > /dev/null; seq 3 | tail -1",
            f"{PROBE} why --json > last.json",
            f"{PROBE} why --last 2 --json > both.json",
            f"{PROBE} why $(cat pid) --brief > one",
            f"{PROBE} why 4000000 > none 2> reason; echo $? > status",
        )
    )
    assert "/no/such/two" in read(tmp_path / "last.json")["verdict"]["summary"]
    both = [json.loads(line) for line in (tmp_path / "both.json").read_text().splitlines()]
    told = [report["verdict"]["summary"] for report in both]
    assert "/no/such/two" in told[0] and "/no/such/one" in told[1]
    assert "/no/such/two" in (tmp_path / "one").read_text()
    assert (tmp_path / "status").read_text().strip() == "1"
    assert "process 4000000" in (tmp_path / "reason").read_text()


def read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def test_without_a_terminal(agent_of_all: Agent, sshd: Sshd) -> None:
    """An agent's commands are sessions of their own: it is asked of the user's last failure."""
    with user(f"probe-one-{os.getpid()}") as one:
        sshd.session("exec cat /no/such/three", user=one, tty=False)
        where = f"export PROBE_SOCKET={agent_of_all.socket}"
        shown = sshd.session(where, f"{PROBE} why --brief", user=one, tty=False)
    assert shown.startswith("fs.missing") and "/no/such/three" in shown


def test_two_users_see_their_own(agent_of_all: Agent, sshd: Sshd) -> None:
    failing = "cat /no/such/secret-of-$USER & wait; echo PID=$!."
    with user(f"probe-one-{os.getpid()}") as one, user(f"probe-two-{os.getpid()}") as two:
        pids = {}
        for name in (one, two):
            shown = sshd.session(failing, user=name)
            pids[name] = re.findall(r"PID=(\d+)\.", shown)[0]
        for name, other in ((one, two), (two, one)):
            lines = asked(
                agent_of_all, f"{PROBE} why --last 20 --json", f"{PROBE} why {pids[other]}"
            )
            shown = sshd.session(*lines, user=name)
            assert f"secret-of-{name}" in shown
            assert f"secret-of-{other}" not in shown
        environment = {**os.environ, "PROBE_SOCKET": agent_of_all.socket}
        for name, pid in pids.items():
            command = [PROBE, "why", pid, "--brief"]
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            assert f"secret-of-{name}" in done.stdout  # root sees all


def test_a_test_that_ran_under_watch(agent_of_all: Agent, tmp_path: Path) -> None:
    _, report = probe_run(
        "cat",
        "/no/such/four",
        socket=agent_of_all.socket,
        options=("--test", "t4"),
        folder=tmp_path,
    )
    environment = {**os.environ, "PROBE_SOCKET": agent_of_all.socket}
    command = [PROBE, "why", "--test", "t4", "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["verdict"] == report["verdict"]


def test_watching(agent_of_all: Agent, tmp_path: Path) -> None:
    environment = {**os.environ, "PROBE_SOCKET": agent_of_all.socket}
    out = tmp_path / "events"
    with out.open("wb") as file:
        command = [PROBE, "watch", "--kind", "exit", "--kind", "exec", "--failed", "--json"]
        watching = subprocess.Popen(command, env=environment, stdout=file)
    STARTED.append(watching)

    def lines() -> list[dict[str, Any]]:
        return [json.loads(line) for line in out.read_text().splitlines()]

    def seen() -> bool:
        subprocess.run(["bash", "-c", "nosuchprogram; exit 7"], stderr=subprocess.DEVNULL)
        return any(one["kind"] == "exit" and one.get("code") == 7 for one in lines())

    wait_for(seen)
    assert {one["kind"] for one in lines()} <= {"exit", "exec"}
    assert not any(one["kind"] == "exit" and one.get("code") == 0 for one in lines())
    watching.terminate()
    watching.wait()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("why",), "no agent answers at /nonexistent"),
        (("watch",), "no agent answers at /nonexistent"),
        (("why", "0"), "'0': no number above 0"),
        (("why", "nonsense"), "'nonsense': no number above 0"),
    ],
)
def test_bad_input(arguments: tuple[str, ...], words: str) -> None:
    environment = {**os.environ, "PROBE_SOCKET": "/nonexistent"}
    command = [PROBE, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert words in done.stderr


def test_a_kind_that_is_none(agent_of_all: Agent) -> None:
    environment = {**os.environ, "PROBE_SOCKET": agent_of_all.socket}
    command = [PROBE, "watch", "--kind", "nonsense"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "kinds are seccomp, " in done.stderr


@pytest.mark.parametrize("arguments", [("why", "--json"), ("why",)])
def test_an_output_that_is_full(agent_of_all: Agent, arguments: tuple[str, ...]) -> None:
    environment = {**os.environ, "PROBE_SOCKET": agent_of_all.socket}
    subprocess.run(["cat", "/no/such/output"], stderr=subprocess.DEVNULL, check=False)
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [PROBE, *arguments], env=environment, stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
    assert b"cannot write" in done.stderr


def test_watching_ends_with_its_reader(agent_of_all: Agent) -> None:
    environment = {**os.environ, "PROBE_SOCKET": agent_of_all.socket}
    watching = subprocess.Popen([PROBE, "watch"], env=environment, stdout=subprocess.PIPE)
    assert watching.stdout is not None
    watching.stdout.close()

    def ended() -> bool:
        subprocess.run(["true"], check=True)
        return watching.poll() is not None

    wait_for(ended)
    assert watching.returncode == 141


def test_any_number_that_a_process_may_have(agent_of_all: Agent) -> None:
    environment = {**os.environ, "PROBE_SOCKET": agent_of_all.socket}
    command = [PROBE, "why", str((1 << 22) - 1)]  # proc_sys_kernel(5), pid_max
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "nothing is remembered" in done.stderr
