"""The sandbox for coding agents: what goes in comes out, and what fails says whose fault it was."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import BIN, Agent, Collector, wait_for
from mcp import ClientSession
from test_mcp import call, converse, refused

from collector.sandbox import Profile
from collector.sandbox_mcp import SandboxServer
from probe import spans
from probe.digest import digest
from probe.exchange import CLIENT, Exchange, Transfer

pytestmark = pytest.mark.bpf

PICTURE = bytes(range(256))


def test_a_coding_agent(agent: Agent, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hunter2-hunter2\n")

    async def talk(client: ClientSession) -> None:
        names = {"run_code", "run_command", "write_file", "read_file", "list_files", "reset"}
        listed = await client.list_tools()
        assert {tool.name for tool in listed.tools} == names
        ran = await call(client, "run_code", language="python", code="print(6 * 7)")
        assert (ran["status"], ran["stdout"], ran["why"]) == (0, "42\n", None)
        failed = await call(client, "run_command", command="pdftotext-ng x.pdf")
        assert (failed["status"], failed["why"]["cause"]) == (127, "exec.not_found")
        own = await call(client, "run_code", language="python", code="assert 1 == 2, 'no'")
        assert own["why"]["cause"] == "workload.failed"
        packed = base64.b64encode(PICTURE).decode()
        await call(client, "write_file", path="a/b.png", content=packed, encoding="base64")
        back = await call(client, "read_file", path="a/b.png", encoding="base64")
        assert base64.b64decode(back["content"]) == PICTURE
        assert "base64" in await refused(client, "read_file", path="a/b.png")
        text = "Zoë\r\nline\ttwo\n"
        await call(client, "write_file", path="t.txt", content=text)
        assert (await call(client, "read_file", path="t.txt"))["content"] == text
        assert "d 4096 a" in (await call(client, "list_files"))["stdout"]
        late = await call(client, "run_command", command="sleep 60", timeout_s=0.3)
        assert late["timed_out"]
        shown = await call(client, "run_command", command="echo key=$API_KEY")
        assert shown["stdout"] == "key=***\n"
        assert "NUL" in await refused(client, "run_command", command="echo a\0b")
        await call(client, "reset")
        gone = await call(client, "read_file", path="t.txt")
        assert (gone["status"], gone["why"]["cause"]) == (1, "fs.not_persisted")

    options = ("--profile", "generous", "--secret", f"API_KEY={secret}")
    converse(talk, "collector", "sandbox-mcp", *options, PROBE_SOCKET=agent.socket)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--profile", "nonsense"), "no profile 'nonsense': there are generous, "),
        (("--secret", "nonsense"), "no NAME=FILE"),
        (("--secret", "A=/no/such"), "--secret /no/such: No such file"),
    ],
)
def test_bad_input(options: tuple[str, ...], words: str) -> None:
    command = [BIN / "collector", "sandbox-mcp", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert words in done.stderr


class Story:
    """A client that calls the sandbox's server through an interface, and tells of it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.collector = Collector(folder)
        self.agent = Agent(folder, "--collector", self.collector.address)
        monkeypatch.setenv("PROBE_SOCKET", self.agent.socket)
        self.server = SandboxServer(Profile(), f"story-{os.getpid()}", "r").__enter__()

    def verdict(self, test: str, exchange: Exchange) -> dict[str, Any]:
        """Of a test that the client says has failed."""
        path = self.folder / "outcomes.jsonl"
        told = {"test": test, "outcome": "failed", "client": exchange.as_json()}
        path.write_text(json.dumps(told))
        self.agent.stop()
        command = [BIN / "collector", "import", path, "--run", "r", "--db", self.collector.database]
        subprocess.run(command, check=True, capture_output=True)
        report = self.collector.explain("r", test)
        self.collector.stop()
        verdict: dict[str, Any] = report["verdict"]
        return verdict


@pytest.fixture
def story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Story]:
    made = Story(tmp_path, monkeypatch)
    yield made
    made.server.__exit__()


def test_the_image_that_comes_back_altered(story: Story) -> None:
    """The interface takes a file for text, which the client finds out by looking at it."""
    packed = base64.b64encode(PICTURE).decode()
    story.server.write_file({"path": "p.png", "content": packed, "encoding": "base64"})
    answer = story.server.read_file({"path": "p.png", "encoding": "base64"})
    through = base64.b64decode(answer["content"]).decode("utf-8", "replace").encode()
    seen = Exchange((Transfer("content", CLIENT, True, digest(through)),))
    verdict = story.verdict("read_file-00002", seen)
    assert verdict["cause"] == "interface.corrupted"
    assert "from the server to the client: UTF-8 replacement" in verdict["summary"]


def test_the_null_byte_that_ends_a_string(story: Story) -> None:
    data = b"before\0after"
    sent = Exchange((Transfer("content", CLIENT, False, digest(data)),))
    through = data.split(b"\0")[0].decode()
    story.server.write_file({"path": "x", "content": through, "encoding": "text"})
    assert story.verdict("write_file-00001", sent)["cause"] == "interface.null_byte"


def test_a_span_of_a_harness(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROBE_SOCKET", agent.socket)
    with spans.span("t1", labels={"domain": "data"}, report=True) as opened:
        if subprocess.run(["cat", "/no/such/input"], stderr=subprocess.DEVNULL).returncode:
            opened.fail("no input")
    assert opened.report is not None
    assert opened.report["verdict"]["cause"] == "fs.missing"
    assert opened.report["span"]["test"] == "t1"


def test_a_span_without_an_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROBE_SOCKET", "/nonexistent")
    with spans.span("t1", report=True) as opened:
        opened.fail("anyway")
    assert opened.report is None


def test_a_span_in_a_shell(tmp_path: Path) -> None:
    collector = Collector(tmp_path)
    agent = Agent(tmp_path, "--collector", collector.address)
    script = (
        f"key=$({BIN}/probe span begin --run r --test t1 --label domain=web); "
        f"nosuchtool --x; {BIN}/probe span end $key --outcome failed --message broken"
    )
    environment = {**os.environ, "PROBE_SOCKET": agent.socket}
    subprocess.run(["bash", "-c", script], env=environment, check=True, capture_output=True)
    agent.stop()
    wait_for(lambda: collector.database.exists())
    report = collector.explain("r", "t1")
    collector.stop()
    verdict = report["verdict"]
    assert (report["outcome"], verdict["cause"]) == ("failed", "exec.not_found"), report["events"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("end", "123"), "no such span"),
        (("end", "x"), "no key of a span"),
        (("begin", "--test", "t", "--pid", "999999"), "process 999999: No such process"),
        (("begin", "--test", "t", "--label", "x"), "'x': no label"),
    ],
)
def test_spans_that_cannot_be(agent: Agent, arguments: tuple[str, ...], words: str) -> None:
    environment = {**os.environ, "PROBE_SOCKET": agent.socket}
    command = [BIN / "probe", "span", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert words in done.stderr
