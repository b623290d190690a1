"""Which cgroup of a nested few stands at its limit, under v1 and under v2."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import Agent, Watch, probe_run

from collector.sandbox import Profile, Sandbox

pytestmark = pytest.mark.bpf
PYTHON = "/usr/bin/python3"
CGROUPS = Path("/sys/fs/cgroup")
UNIFIED = (CGROUPS / "cgroup.controllers").exists()
MIB = 1 << 20
FORKS = (
    "import signal, subprocess as s\n"
    "children = []\n"
    "try:\n for _ in range(9): children.append(s.Popen(['sleep', '5']))\n"
    "finally:\n for child in children: child.kill()\n"
)
HOG = "data = [bytearray(1 << 20) for _ in range(100)]"


@contextmanager
def nested(controller: str, outer: int, inner: int) -> Iterator[list[str]]:
    """Two cgroups with a limit each, one in the other; the prefix that joins the inner one."""
    above = (CGROUPS if UNIFIED else CGROUPS / controller) / "probe-outer"
    below = above / "probe-inner"
    file = f"{controller}.max" if UNIFIED or controller == "pids" else "memory.limit_in_bytes"
    above.mkdir()
    try:
        (above / file).write_text(str(outer))
        if UNIFIED:
            (above / "cgroup.subtree_control").write_text(f"+{controller}")
        below.mkdir()
        (below / file).write_text(str(inner))
        yield ["sh", "-c", f'echo $$ > {below}/cgroup.procs; exec "$@"', "sandbox"]
    finally:
        if below.exists():
            below.rmdir()
        above.rmdir()


@pytest.mark.parametrize(("outer", "inner", "full"), [(4, 40, "outer"), (40, 4, "inner")])
def test_the_level_whose_pids_are_used_up(
    outer: int, inner: int, full: str, watched: Watch
) -> None:
    with nested("pids", outer, inner) as join:
        event = watched("fork", *join, PYTHON, "-c", FORKS)[0]
    assert (event["pids_max"], event["pids_current"]) == (4, 4)
    assert event["cgroup"].endswith(f"/probe-{full}")


@pytest.mark.parametrize(("outer", "inner", "full"), [(48, 90, "outer"), (90, 48, "inner")])
def test_the_level_whose_memory_is_used_up(
    outer: int, inner: int, full: str, watched: Watch
) -> None:
    with nested("memory", outer * MIB, inner * MIB) as join:
        event = watched("oom", *join, PYTHON, "-c", HOG)[-1]
    assert (event["scope"], event["limit"]) == ("cgroup", 48 * MIB)
    assert event["cgroup"].endswith(f"/probe-{full}")


@pytest.mark.skipif(not UNIFIED, reason="memory.oom.group is of cgroup v2")
def test_a_group_that_is_killed_as_one(agent: Agent, tmp_path: Path) -> None:
    with Sandbox(Profile(memory=48 * MIB), "probe-test-group") as sandbox:
        (CGROUPS / "probe-test-group" / "memory.oom.group").write_text("1")
        script = f"sleep 60 & {PYTHON} -c '{HOG}'; exit 3"
        command = sandbox.command(["bash", "-c", script])
        _, report = probe_run(*command, socket=agent.socket, folder=tmp_path)
    victims = {event["comm"] for event in report["events"] if event["kind"] == "oom"}
    assert victims == {"bash", "sleep", "python3"}
    # The span ends with bash; who has more memory to give back may end after it.
    killed = [e for e in report["events"] if e["kind"] == "exit" and e.get("signal") == "SIGKILL"]
    assert {"bash"} <= {event["comm"] for event in killed} <= victims
    assert report["verdict"]["cause"] == "memory.cgroup_oom"


def test_both_limits_at_once(watched: Watch) -> None:
    with Sandbox(Profile(pids=4, memory=200 * MIB), "probe-test-both") as sandbox:
        event = watched("fork", *sandbox.command([PYTHON, "-c", FORKS]))[0]
    assert event["cgroup"].endswith("/probe-test-both")


def test_the_container_is_known_by_its_cgroup(tmp_path: Path) -> None:
    """As Docker's systemd driver names it under v2; under v1 one of the controllers will do."""
    name = f"docker-{'0123456789abcdef' * 4}.scope"
    with Sandbox(Profile(pids=100), name) as sandbox:
        report: dict[str, Any] = {}
        _, report = probe_run("false", folder=tmp_path, before=sandbox.command([]))
    assert report["span"]["sandbox"] == "0123456789ab"
