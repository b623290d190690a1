"""Known producers, collectors and a store, and what befalls them."""

from __future__ import annotations

import contextlib
import os
import random
import shlex
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import producer
import pytest
from postgres import Server

from collector.store import open_store
from probe.events import Loss
from probe.span import Span

HERE = Path(__file__).parent
LIMIT_S = 90.0
FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"


def until(condition: Callable[[], Any], limit_s: float = LIMIT_S) -> Any:
    limit = time.monotonic() + limit_s
    while not (found := condition()):
        assert time.monotonic() < limit, "it did not happen in time"
        time.sleep(0.01)
    return found


class Process:
    """One that is killed and started again. Its words are kept in a file."""

    def __init__(self, command: Sequence[str | Path], log: Path, env: dict[str, str]) -> None:
        self._command, self._log, self._env = [str(word) for word in command], log, env
        self.running: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self.running = subprocess.Popen(self._command, stderr=log, env=self._env)

    def kill(self) -> None:
        assert self.running is not None
        self.running.kill()
        self.running.wait()

    def end(self, number: int = signal.SIGTERM) -> int:
        assert self.running is not None
        self.running.send_signal(number)
        return self.running.wait(LIMIT_S)

    @property
    def said(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]


class Store:
    """Where the collectors store: a SQLite file of the round's own, or a database on a server."""

    def __init__(self, url: str, server: Server | None = None) -> None:
        self.url, self._server = url, server
        self.can_be_killed = server is not None

    def kill(self) -> None:
        """The server, and starts it again."""
        assert self._server is not None
        self._server.stop(signal.SIGKILL)
        self._server.start()


@pytest.fixture(scope="session")
def mortal() -> Iterator[Server]:
    """A PostgreSQL server for those who kill it."""
    server = Server(durable=True)
    yield server
    server.remove()


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """As --store says: a file of the test's own, or a database on a server that may be killed."""
    if request.config.getoption("--store") == "sqlite":
        return Store(str(tmp_path / "c.db"))
    server: Server = request.getfixturevalue("mortal")
    return Store(server.database(), server)


class World:
    """Two collectors of one store, and producers that know both. Ends with all of them."""

    def __init__(
        self, folder: Path, store: Store, *, producers: int = 2, prefix: Sequence[str] = ()
    ) -> None:
        self.folder, self.store, self._prefix = folder, store, tuple(prefix)
        self.name = uuid.uuid4().hex[:8]
        self.addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
        self.sandboxes = [f"{self.name}-{number}" for number in range(producers)]
        self.collectors: list[Process] = []
        self.producers: list[Process] = []
        self._clock = folder / "clock"
        self._clock.write_text("+0s")

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_: object) -> None:
        for process in (*self.collectors, *self.producers):
            if process.running is not None and process.running.poll() is None:
                process.kill()

    def start_collectors(self, *options: str) -> None:
        for number, address in enumerate(self.addresses):
            serve = (sys.executable, "-m", "collector.cli", "serve", "--listen", address)
            command = [*self._prefix, *serve, "--db", self.store.url, *options]
            log = self.folder / f"collector{number}.log"
            self.collectors.append(Process(command, log, dict(os.environ)))

    def start_producers(self, *options: str, clock: bool = False) -> None:
        for sandbox in self.sandboxes:
            folder = self.folder / sandbox
            folder.mkdir(exist_ok=True)
            start = (sys.executable, HERE / "producer.py", ",".join(self.addresses), sandbox)
            log = self.folder / f"{sandbox}.log"
            env = self._under_clock() if clock else dict(os.environ)
            self.producers.append(Process([*self._prefix, *start, folder, *options], log, env))

    def _under_clock(self) -> dict[str, str]:
        return {
            **os.environ,
            "LD_PRELOAD": FAKETIME,
            "FAKETIME_TIMESTAMP_FILE": str(self._clock),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def set_clock(self, seconds: float) -> None:
        """How far the producers' clock is from ours."""
        fresh = self._clock.with_suffix(".new")
        fresh.write_text(f"{seconds:+.3f}s")
        fresh.replace(self._clock)

    def put(self, sandbox: str) -> int:
        """How many events are known to have been put in."""
        return producer.ledger(self.folder / sandbox)

    def await_events(self, count: int) -> None:
        """So many more are put in, by any of those that run."""
        if all(one.running is None or one.running.poll() is not None for one in self.producers):
            return
        enough = sum(map(self.put, self.sandboxes)) + count
        until(lambda: sum(map(self.put, self.sandboxes)) >= enough)

    def finish(self) -> None:
        """Producers stop and drain; then all is still."""
        for sandbox in self.sandboxes:
            (self.folder / sandbox / "stop").touch()
        for process in self.producers:
            assert process.running is not None
            assert process.running.wait(LIMIT_S) == 0, process.said
        for process in self.collectors:  # the signal may come before it has quite begun
            assert process.end() in (0, -signal.SIGTERM), process.said

    def check(self) -> Counter[str]:
        """Each event is there once, as it was put in, or told as lost; what was told."""
        told: Counter[str] = Counter()
        with contextlib.closing(open_store(self.store.url, create=False)) as store:
            spans = Counter(
                (one.span.sandbox, one.span.key) for one in store.observations(producer.RUN)
            )
            for sandbox in self.sandboxes:
                last = self.put(sandbox)
                whole = Span(producer.KEY, "", "", (), sandbox, producer.BOOT, 1, 0)
                stored = list(store.events(whole))
                lost = sum(one.count for one in stored if isinstance(one, Loss))
                kept = [one for one in stored if not isinstance(one, Loss)]
                numbers = Counter(one.sequence for one in kept)
                assert max(numbers.values(), default=1) == 1
                missing = set(range(1, last + 1)) - numbers.keys()
                assert len(missing) <= lost, f"{sandbox}: {sorted(missing)[:20]} vanished"
                # The last may have been put in, and its producer killed before it wrote so.
                assert not numbers.keys() - set(range(1, last + 2)), "more than was put in"
                for one in kept:
                    assert one == producer.event(one.sequence)
                for number in range(producer.SPAN_EVERY, last + 1, producer.SPAN_EVERY):
                    known = spans[sandbox, producer.KEY + number]
                    assert known == 1 or (lost and known == 0), f"{sandbox}: span {number}: {known}"
                told["events"] += len(kept)
                told["missing"] += len(missing)
                told["lost"] += lost
        return told


def free_ports(count: int) -> list[int]:
    """In the round's own range, so that a collector finds its port again after a kill."""
    return random.Random(os.urandom(8)).sample(range(20_000, 30_000), count)


@contextlib.contextmanager
def network() -> Iterator[tuple[list[str], Callable[[str], None]]]:
    """A network namespace with loopback: the prefix of commands in it, and a way to change it."""
    holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
    prefix = ["nsenter", f"--net=/proc/{holder.pid}/ns/net"]
    own = os.readlink("/proc/self/ns/net")
    until(lambda: os.readlink(f"/proc/{holder.pid}/ns/net") != own)

    def change(command: str) -> None:
        subprocess.run([*prefix, *shlex.split(command)], check=True, timeout=LIMIT_S)

    try:
        change("ip link set lo up")
        yield prefix, change
    finally:
        holder.kill()
        holder.wait()


@contextlib.contextmanager
def tmpfs(folder: Path, size: str) -> Iterator[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)
