"""What is secret in a command does not get out of the sandbox: no report, spool or database."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from conftest import BIN, Agent, Collector, probe_run

pytestmark = pytest.mark.bpf

SECRET = "hunter2hunter2"
SCRIPT = (
    f"echo 'login failed: password={SECRET}' >&2; "
    f"cat 'postgresql://me:{SECRET}@db/x' /nowhere/token={SECRET}; exit 3"
)
COMMAND = ("env", f"API_TOKEN={SECRET}", "sh", "-c", SCRIPT, "--password", SECRET)


@pytest.mark.parametrize("collector", [(), ("--collector", "unix:/nowhere")])
def test_a_command_does_not_find_our_token(
    tmp_path: Path, agent: Agent, collector: tuple[str, ...]
) -> None:
    environment = {**os.environ, "PROBE_TOKEN": SECRET}
    done, _ = probe_run(
        "env", socket=agent.socket, options=collector, folder=tmp_path, env=environment
    )
    assert done.returncode == 0 and "PROBE_SOCKET" in done.stdout
    assert SECRET not in done.stdout


def test_an_agent_with_all_that_security_takes(tmp_path: Path) -> None:
    """From the commands that make a token to the span in the store, over TLS."""
    subject = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost")
    files = ("-keyout", "key.pem", "-out", "cert.pem")
    request = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2")
    subprocess.run([*request, *subject, *files], cwd=tmp_path, check=True, capture_output=True)
    make = [BIN / "collector", "token", "box", "--tokens", tmp_path / "tokens"]
    token = subprocess.run(make, check=True, capture_output=True, text=True).stdout.strip()
    pair = ("--tls-cert", tmp_path / "cert.pem", "--tls-key", tmp_path / "key.pem")
    collector = Collector(tmp_path, "localhost:0", *pair, "--tokens", tmp_path / "tokens")
    environment = {
        "PROBE_SANDBOX": "box",
        "PROBE_TOKEN": token,
        "PROBE_CA": str(tmp_path / "cert.pem"),
        "PROBE_COLLECTOR": collector.address,
    }
    agent = Agent(tmp_path, **environment)
    options = ("--run", "r", "--test", "t1")
    probe_run("sh", "-c", "exit 3", socket=agent.socket, options=options, folder=tmp_path)
    agent.stop()
    collector.stop()
    assert collector.explain("r", "t1")["span"]["sandbox"] == "box"
    assert token not in agent.log.read_text()


def holds(path: Path) -> bool:
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return any(SECRET.encode() in file.read_bytes() for file in files)


@pytest.mark.parametrize("served", [True, False])
def test_no_secret_leaves_the_sandbox(tmp_path: Path, served: bool) -> None:
    """Without a test's id, the command stands for it."""
    (tmp_path / "c").mkdir()
    (tmp_path / "a").mkdir()
    collector = Collector(tmp_path / "c")
    if served:
        agent = Agent(tmp_path / "a", "--collector", "unix:/nowhere," + collector.address)
        done, report = probe_run(*COMMAND, socket=agent.socket, folder=tmp_path)
        agent.stop()
        assert not holds(tmp_path / "a")
    else:
        options = ("--collector", collector.address)
        done, report = probe_run(*COMMAND, options=options, folder=tmp_path)
    collector.stop()
    assert done.returncode == 3
    assert SECRET in done.stderr.splitlines()[0]  # the command's own words are its own
    ours = [line for line in done.stderr.splitlines() if line.startswith(("probe:", "  "))]
    assert ours and SECRET not in "\n".join(ours)
    assert SECRET not in str(report) and "[redacted]" in str(report)
    assert [event["code"] for event in report["events"] if event["kind"] == "exit"][-1] == 3
    assert not holds(tmp_path / "c")
    explain = [BIN / "collector", "explain", "--db", collector.database]
    said = subprocess.run(explain, capture_output=True, text=True, check=True).stdout
    assert "env API_TOKEN=[redacted]" in said
