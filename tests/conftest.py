"""What all tests share: the agent, the schema, and what to do where BPF is not to be had."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hypothesis
import jsonschema
import pytest
from postgres import Server

import probe

# How long an example takes says more of the machine than of the code.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")

# What gRPC does in a child of fork(2) may kill it, and ours never speak gRPC. It reads this when
# it is imported.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

BIN = Path(sys.executable).parent
FAULTS_BASE = "FAULTS_BASE"
ENGINE = "ENGINE"
SCHEMA = Path(probe.__file__).parent / "report.schema.json"


def wait_for(condition: Callable[[], Any], limit_s: float = 10.0) -> Any:
    """The first true value of `condition`; fails the test when the limit has passed."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    pytest.fail(f"nothing came of {condition} within {limit_s} s")


def bpf_obstacle() -> str | None:
    from probe.engine.choice import open_engine
    from probe.engine.errors import EngineError

    try:
        open_engine(engine()).engine.close()
    except EngineError as error:
        return str(error)
    return None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slice", type=int, default=1, help="of the gallery, every so-manieth only")
    parser.addoption("--every", type=int, default=1, help="of all tests, every so-manieth only")
    parser.addoption("--engine", default="core", help="what the agent and probe run listen with")
    parser.addoption("--kernels", help="of tests/kernels only these, with commas between")
    parser.addoption("--guest-every", type=int, default=1, help="what --every is in their guests")
    parser.addoption("--fuzz", type=int, default=2000, help="how many damaged files to try")
    parser.addoption("--fuzz-only", type=int, help="the number of a single one of them")
    faults = parser.getgroup("faults")
    faults.addoption(
        "--store", choices=("sqlite", "postgresql"), default="sqlite", help="what collectors use"
    )
    faults.addoption("--seed", type=int, help="replays the round of this seed alone")
    faults.addoption("--rounds", type=int, default=16, help="of random kills")


def pytest_configure(config: pytest.Config) -> None:
    """All workers of pytest-xdist agree on the seeds of their rounds, and on the engine."""
    os.environ.setdefault(FAULTS_BASE, str(random.randrange(1_000_000)))
    os.environ.setdefault(ENGINE, config.getoption("--engine"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    sums: Counter[str] = Counter()
    for report in terminalreporter.getreports("passed"):
        told = dict(report.user_properties)
        sums.update({name: told[name] for name in ("kills", "events") if name in told})
    if sums:
        terminalreporter.line(f"{sums['kills']} kills: {sums['events']:,} events, each stored once")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without BPF a developer's run skips; CI fails, so that it cannot go unnoticed."""
    gallery = [item for item in items if item.get_closest_marker("gallery")]
    left_out = set(gallery) - set(gallery[:: config.getoption("--slice")])
    items[:] = [item for item in items if item not in left_out][:: config.getoption("--every")]
    for item in items:
        if item.get_closest_marker("core") and engine() != "core":
            item.add_marker(pytest.mark.skip(reason=f"{engine()} does not see it"))
    if os.environ.get("CI") == "true" or not any(item.get_closest_marker("bpf") for item in items):
        return
    obstacle = bpf_obstacle()
    for item in items:
        if obstacle and item.get_closest_marker("bpf"):
            item.add_marker(pytest.mark.skip(reason=obstacle))


STARTED: list[subprocess.Popen[bytes]] = []


@pytest.fixture(autouse=True)
def no_leftovers() -> Iterator[None]:
    """What a test started and, having failed, did not end."""
    yield
    while STARTED:
        process = STARTED.pop()
        if process.poll() is None:
            process.kill()
            process.wait()


class Collector:
    """A `collector serve` of a test's own."""

    def __init__(self, folder: Path, listen: str | None = None, *options: str | Path) -> None:
        self.database, log = folder / "c.db", folder / "collector.log"
        listen = listen or f"unix:{folder}/c.sock"
        serve = [BIN / "collector", "serve", "--listen", listen, "--db", self.database, *options]
        with log.open("wb") as file:
            self.process = subprocess.Popen(serve, stderr=file)
        STARTED.append(self.process)
        wait_for(lambda: self.process.poll() is not None or b"listening" in log.read_bytes())
        self.address: str = json.loads(log.read_text().splitlines()[0])["address"]

    def stop(self) -> None:
        self.process.terminate()
        assert self.process.wait(15) == 0

    def explain(self, run: str, test: str) -> dict[str, Any]:
        command = [
            BIN / "collector",
            "explain",
            "--db",
            self.database,
            "--run",
            run,
            "--json",
            test,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        report: dict[str, Any] = json.loads(done.stdout)
        return report


def engine() -> str:
    """The name of what the tests listen with."""
    return os.environ.get(ENGINE, "core")


class Agent:
    """A `probe agent` of the tests' own."""

    def __init__(self, folder: Path, *options: str, **environment: str) -> None:
        self.socket = str(folder / "agent.sock")
        self.log = folder / "agent.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [BIN / "probe", "agent", "--engine", engine(), "--socket", self.socket, *options],
                stderr=log,
                env={**os.environ, "PROBE_SPOOL": str(folder / "spool"), **environment},
            )
        STARTED.append(self.process)
        wait_for(
            lambda: self.process.poll() is not None or b"listening" in self.log.read_bytes(), 60
        )
        assert self.process.poll() is None, self.log.read_text()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(15) == 0, self.log.read_text()


@contextmanager
def public_folder() -> Iterator[Path]:
    """One that every user may read and pass through.

    pytest closes its own to others, and does so again whenever another pytest starts.
    """
    with tempfile.TemporaryDirectory(prefix="public-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.fixture
def public() -> Iterator[Path]:
    with public_folder() as folder:
        yield folder


@contextmanager
def shared_agent() -> Iterator[Agent]:
    """One that every user may ask, and that outlives the test that asked for it first."""
    with public_folder() as folder:
        started = Agent(folder)
        STARTED.remove(started.process)
        yield started
        started.stop()


@pytest.fixture(scope="session")
def agent() -> Iterator[Agent]:
    """One agent for all tests that want one; each span is its own anyway."""
    with shared_agent() as started:
        yield started


def validated(report: dict[str, Any]) -> dict[str, Any]:
    """The report, after a check against the schema and of the ids that it refers to."""
    jsonschema.validate(report, json.loads(SCHEMA.read_text()))
    known = {event["id"] for event in report["events"]}
    findings = [*([report["verdict"]] if report["verdict"] else []), *report["alternatives"]]
    for finding in findings:
        assert set(finding["evidence"]) <= known
    assert {dismissal["event"] for dismissal in report["dismissed"]} <= known
    return report


def probe_run(
    *command: str | Path,
    socket: str = "/nonexistent",
    options: tuple[str, ...] = (),
    folder: Path,
    before: Sequence[str] = (),
    **popen: Any,
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """`probe run`, after a prefix if there is one, with a report, which is validated."""
    path = folder / f"report-{time.monotonic_ns()}.json"
    environment = {**popen.pop("env", os.environ), "PROBE_SOCKET": socket}
    if socket == "/nonexistent" and "--engine" not in options:
        options = ("--engine", engine(), *options)
    done = subprocess.run(
        [*before, BIN / "probe", "run", "--json", path, *options, "--", *command],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **popen,
    )
    return done, validated(json.loads(path.read_text()))


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """One server for all tests of a process that want one; each takes a database of its own."""
    server = Server()
    yield server
    server.remove()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of a new database, of either kind."""
    if request.param == "sqlite":
        return str(tmp_path / "c.db")
    server: Server = request.getfixturevalue("postgres")
    return server.database()


Watch = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def watched(agent: Agent, tmp_path: Path, record_property: Callable[[str, object], None]) -> Watch:
    """Runs a command; the events of one kind."""

    def watch(kind: str, *command: str | Path, **options: Any) -> list[dict[str, Any]]:
        record_property("kind", kind)  # for the table of kernels
        _, report = probe_run(*command, socket=agent.socket, folder=tmp_path, **options)
        assert report["lost"]["total"] == 0
        return [event for event in report["events"] if event["kind"] == kind]

    return watch
