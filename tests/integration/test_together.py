"""Many runs at once on one machine: each gets its own cause, and its own events only."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from conftest import BIN, Agent, validated

pytestmark = pytest.mark.bpf


def faults(number: int) -> tuple[str, str, str]:
    """A script, its cause, and a word that only this run's events hold."""
    mark = f"mark{number}"
    kinds = [
        (f"exec /nowhere/{mark}", "exec.not_found"),
        (f"touch $DIR/{mark}; exec $DIR/{mark}", "exec.permission"),
        (
            f"printf '#!/nowhere/{mark}\\n' > $DIR/x; chmod +x $DIR/x; exec $DIR/x",
            "exec.interpreter_missing",
        ),
        (f"/usr/bin/python3 -c 'import os; os.abort()' {mark}", "workload.crashed"),
        (f"/usr/bin/python3 -c 'raise SystemExit(7)' {mark}", "workload.failed"),
        (
            "/usr/bin/python3 -c 'import socket; "
            f'socket.create_connection(("127.0.0.{number + 2}", 1))\' {mark}',
            "net.refused",
        ),
    ]
    script, cause = kinds[number % len(kinds)]
    return script, cause, mark


@pytest.mark.parametrize("watcher", ["agent", "self"])
def test_twenty_at_once(watcher: str, agent: Agent, tmp_path: Path) -> None:
    socket = agent.socket if watcher == "agent" else "/nonexistent"
    runs = []
    for number in range(20):
        folder = tmp_path / str(number)
        folder.mkdir()
        script, cause, mark = faults(number)
        options = ["--json", folder / "report", "--explain", "never"]
        process = subprocess.Popen(
            [BIN / "probe", "run", *options, "--", "bash", "-c", script],
            env={**os.environ, "PROBE_SOCKET": socket, "DIR": str(folder)},
            stderr=subprocess.DEVNULL,
        )
        runs.append((process, folder / "report", cause, mark))
    marks = [mark for *_, mark in runs]
    for process, path, cause, mark in runs:
        process.wait(60)
        text = path.read_text()
        report = validated(json.loads(text))
        assert report["verdict"]["cause"] == cause, (mark, report["verdict"])
        assert report["coverage"]["attribution"] == "exact"
        told = json.dumps(report["events"])
        foreign = [other for other in marks if other != mark and f"{other}\\" in told]
        assert not foreign
        pids = {event["pid"] for event in report["events"]}
        roots = [other for other, *_ in runs if other is not process]
        assert not pids & {root.pid for root in roots}
