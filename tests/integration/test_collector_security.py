"""Who may speak to a collector, for whom, and how much: real TLS, real tokens, hostile peers."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest

from probe import stream
from probe.access import Access
from probe.coverage import SENSES, Coverage
from probe.events import Exit
from probe.message import event_message
from probe.stream import Stream
from probe.wire import stream_pb2 as wire

COVERAGE = Coverage("core", dict.fromkeys(SENSES, "full"))
LIMIT_S = 30.0
METHOD = "/probe.v1.Collector/Stream"
CLI = [sys.executable, "-m", "collector.cli"]


def until(condition: Callable[[], Any]) -> Any:
    limit = time.monotonic() + LIMIT_S
    while not (found := condition()):
        assert time.monotonic() < limit, "it did not happen in time"
        threading.Event().wait(0.01)
    return found


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "FIRST_DELAY_S", 0.005)
    monkeypatch.setattr(stream, "MAX_DELAY_S", 0.2)


class Collector:
    """A `collector serve` with options of a test's own."""

    def __init__(self, folder: Path, *options: str | Path, address: str = "127.0.0.1:0") -> None:
        self.db, self.log = folder / "c.db", folder / "log"
        command = [*CLI, "serve", "--listen", address, "--db", self.db, *options]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(list(map(str, command)), stderr=log)
        until(lambda: self.records("listening") or self.process.poll() is not None)
        [record] = self.records("listening")
        self.address: str = record["address"]

    def records(self, event: str) -> list[dict[str, Any]]:
        lines = self.log.read_text().splitlines()
        return [record for line in lines if (record := json.loads(line))["event"] == event]

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with contextlib.closing(sqlite3.connect(self.db)) as connection:
            return connection.execute(sql).fetchall()

    def sequences(self, sandbox: str) -> list[int]:
        return [
            number
            for name, number in self.rows(
                "SELECT sandboxes.sandbox, sequence FROM events "
                "JOIN sandboxes ON sandboxes.id = events.sandbox ORDER BY sequence"
            )
            if name == sandbox
        ]

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(LIMIT_S) == 0


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Collector]]:
    running: list[Collector] = []

    def begin(*options: str | Path, **more: str) -> Collector:
        running.append(Collector(tmp_path, *options, **more))
        return running[-1]

    yield begin
    for one in running:
        if one.process.poll() is None:
            one.end()


def token(folder: Path, sandbox: str, *options: str) -> str:
    command = [*CLI, "token", sandbox, "--tokens", str(folder / "tokens"), *options]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@contextlib.contextmanager
def probe_of(sandbox: str, access: Access, **options: Any) -> Iterator[Stream]:
    given: dict[str, Any] = {"sandbox": sandbox, "boot": "b1", "coverage": COVERAGE}
    with contextlib.closing(Stream(access, **given, linger_s=0.005, **options)) as client:
        yield client


def put(client: Stream, *sequences: int) -> None:
    for sequence in sequences:
        client.put_event(Exit(sequence=sequence, time_ns=sequence, pid=1, span=7, code=0))


def hello(sandbox: str) -> bytes:
    return wire.ProbeMessage(hello=wire.Hello(sandbox=sandbox, boot="b1")).SerializeToString()


def batch(*sequences: int) -> bytes:
    items = [
        wire.Item(
            sequence=number, event=event_message(Exit(sequence=number, time_ns=1, pid=1, span=7))
        )
        for number in sequences
    ]
    return wire.ProbeMessage(batch=wire.Batch(items=items)).SerializeToString()


def converse(address: str, bearer: str | None, *messages: bytes) -> tuple[str, str, Any]:
    """The status, what is said with it, and the metadata that it comes with."""
    metadata = [("authorization", f"Bearer {bearer}")] if bearer is not None else []
    with grpc.insecure_channel(address) as channel:
        call = channel.stream_stream(METHOD)(iter(messages), timeout=LIMIT_S, metadata=metadata)
        with contextlib.suppress(grpc.RpcError):
            list(call)
        return call.code().name, call.details(), call.trailing_metadata()


def test_two_sandboxes_cannot_touch_each_other(
    tmp_path: Path, start: Callable[..., Collector]
) -> None:
    first, second = token(tmp_path, "s1"), token(tmp_path, "s2")
    collector = start("--tokens", tmp_path / "tokens")
    access = {
        "s1": Access((collector.address,), token=first),
        "s2": Access((collector.address,), token=second),
    }
    for sandbox, own in access.items():
        with probe_of(sandbox, own) as client:
            put(client, 1, 2)
            assert client.drain(LIMIT_S)
    code, told, _ = converse(collector.address, first, hello("s2"), batch(3))
    assert (code, told) == ("PERMISSION_DENIED", "not allowed to speak for this sandbox")
    with probe_of("s2", access["s1"]) as client:
        put(client, 4)
        assert not client.drain(0.5)
        assert client.losses.total == 0  # the mistake may be mended
    assert collector.sequences("s1") == collector.sequences("s2") == [1, 2]
    assert not collector.rows("SELECT 1 FROM sandboxes WHERE sandbox NOT IN ('s1', 's2')")
    [record] = collector.records("not let in")
    assert (record["sandbox"], record["reason"]) == ("s2", "token of sandbox s1")
    text = (tmp_path / "tokens").read_text()
    assert first not in text and second not in text


def test_why_a_token_is_refused_is_for_the_log_alone(
    tmp_path: Path, start: Callable[..., Collector]
) -> None:
    old = token(tmp_path, "s1", "--hours", "1")
    lines = [json.loads(line) for line in (tmp_path / "tokens").read_text().splitlines()]
    lines[0]["expires"] = "2020-01-01T00:00:00Z"
    (tmp_path / "tokens").write_text("\n".join(map(json.dumps, lines)))
    collector = start("--tokens", tmp_path / "tokens")
    answers = {
        converse(collector.address, bearer, hello("s1"), batch(1))[:2]
        for bearer in (old, "wrong", None)
        for _ in range(2)
    }
    assert answers == {("UNAUTHENTICATED", "not authenticated")}
    reasons = [record["reason"] for record in collector.records("not let in")]
    assert reasons == ["expired token of sandbox s1", "unknown token", "no token"]
    assert collector.rows("SELECT * FROM sandboxes") == []


def test_tokens_change_without_a_restart(tmp_path: Path, start: Callable[..., Collector]) -> None:
    mine = tmp_path / "mine"
    mine.write_text(token(tmp_path, "s1"))
    collector = start("--tokens", tmp_path / "tokens")
    with probe_of("s1", Access((collector.address,), token_file=str(mine))) as client:
        put(client, 1)
        assert client.drain(LIMIT_S)
        (tmp_path / "tokens").write_text("nonsense")  # what held before holds on
        until(lambda: [put(client, 2), collector.records("tokens not read")][1])
        assert client.drain(LIMIT_S)
        (tmp_path / "tokens").unlink()
        fresh = token(tmp_path, "s1")
        put(client, 3)
        until(lambda: [put(client, 3), client.error == "not authenticated"][1])
        mine.write_text(fresh)
        assert client.drain(LIMIT_S)
        assert client.losses.total == 0
    assert collector.sequences("s1") == [1, 2, 3]


def openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


def authority(folder: Path, name: str) -> None:
    options = ("-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}")
    openssl(folder, "req", *options, "-keyout", f"{name}.key", "-out", f"{name}.pem")


def certificate(folder: Path, name: str, subject: str, ca: str = "ca") -> None:
    (folder / "san").write_text(f"subjectAltName=DNS:{subject},IP:127.0.0.1")
    request = ("-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={subject}")
    openssl(folder, "req", *request, "-keyout", f"{name}.key", "-out", "request")
    issue = ("-req", "-in", "request", "-CA", f"{ca}.pem", "-CAkey", f"{ca}.key", "-days", "2")
    openssl(folder, "x509", *issue, "-CAcreateserial", "-extfile", "san", "-out", f"{name}.pem")


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    authority(folder, "ca")
    authority(folder, "other")
    certificate(folder, "server", "localhost")
    certificate(folder, "s1", "s1")
    certificate(folder, "stranger", "s1", "other")
    certificate(folder, "renewed", "localhost", "other")
    return folder


def delivers(sandbox: str, access: Access, limit_s: float) -> bool:
    with probe_of(sandbox, access) as client:
        put(client, 1)
        return client.drain(limit_s)


def test_certificates_name_sandboxes(keys: Path, start: Callable[..., Collector]) -> None:
    tls = ("--tls-cert", keys / "server.pem", "--tls-key", keys / "server.key")
    collector = start(*tls, "--client-ca", keys / "ca.pem")

    def access(name: str) -> Access:
        pair = (str(keys / f"{name}.pem"), str(keys / f"{name}.key"))
        return Access((collector.address,), str(keys / "ca.pem"), *pair)

    assert delivers("s1", access("s1"), LIMIT_S)
    assert not delivers("s2", access("s1"), 0.5)
    assert not delivers("s1", access("stranger"), 0.5)
    assert not delivers("s1", Access((collector.address,), str(keys / "ca.pem")), 0.5)
    assert not delivers("s1", Access((collector.address,)), 0.5)
    [record] = collector.records("not let in")
    assert record["sandbox"] == "s2" and "certificate of" in record["reason"]
    assert [row[0] for row in collector.rows("SELECT sandbox FROM sandboxes")] == ["s1"]


def test_certificates_change_without_a_restart(
    tmp_path: Path, keys: Path, start: Callable[..., Collector]
) -> None:
    pair = {kind: tmp_path / f"server.{kind}" for kind in ("pem", "key")}
    for kind, file in pair.items():
        file.write_bytes((keys / f"server.{kind}").read_bytes())
    collector = start("--tls-cert", pair["pem"], "--tls-key", pair["key"])
    known = Access((collector.address,), str(keys / "ca.pem"))
    fresh = Access((collector.address,), str(keys / "other.pem"))
    assert delivers("s1", known, LIMIT_S)
    assert not delivers("s2", fresh, 0.5)
    pair["pem"].write_text("half written")
    assert delivers("s3", known, LIMIT_S)
    for kind, file in pair.items():
        file.write_bytes((keys / f"renewed.{kind}").read_bytes())
    assert delivers("s2", fresh, LIMIT_S)
    assert not delivers("s4", known, 0.5)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--listen", "0.0.0.0:0"), "--listen 0.0.0.0:0: others could read"),
        (("--tls-cert", "{keys}/server.pem"), "--tls-cert and --tls-key belong together"),
        (("--tls-cert", "{keys}/server.pem", "--tls-key", "{keys}/s1.key"), "KEY_VALUES_MISMATCH"),
        (("--tls-cert", "/nowhere", "--tls-key", "/nowhere"), "--tls-cert /nowhere: No such"),
        (("--client-ca", "{keys}/ca.pem"), "--client-ca takes TLS"),
        (("--tokens", "/nowhere"), "--tokens /nowhere: No such file"),
        (("--tokens", "{keys}/ca.pem"), "line 1 is no token"),
        (("--rate", "0"), "'0': no number above 0"),
    ],
)
def test_what_a_server_is_not_started_with(
    tmp_path: Path, keys: Path, options: tuple[str, ...], words: str
) -> None:
    given = [option.format(keys=keys) for option in options]
    command = [*CLI, "serve", "--listen", "127.0.0.1:0", "--db", str(tmp_path / "c.db"), *given]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1), ran.stderr
    assert words in ran.stderr


def test_who_sends_too_fast_is_slowed_and_loses_nothing(start: Callable[..., Collector]) -> None:
    collector = start("--rate", "500")
    with probe_of("s1", Access((collector.address,)), batch_items=100) as client:
        put(client, *range(1, 2001))  # a burst of a thousand is free
        quick = converse(collector.address, None, hello("s2"), batch(1))
        assert quick[0] == "OK"  # and no other sandbox waits for it
        assert len(collector.sequences("s1")) < 2000
        assert client.drain(LIMIT_S)
    assert collector.sequences("s1") == list(range(1, 2001))


def test_one_stream_too_many_is_told_when_to_come_again(start: Callable[..., Collector]) -> None:
    collector = start("--streams", "1")
    with probe_of("s1", Access((collector.address,))) as client:
        put(client, 1)
        assert client.drain(LIMIT_S)
        code, _, metadata = converse(collector.address, None, hello("s1"))
        assert code == "RESOURCE_EXHAUSTED"
        delay = stream._retry_delay_s(metadata)
        assert delay is not None and delay > 0
        assert converse(collector.address, None, hello("s2"))[0] == "OK"
    assert until(lambda: converse(collector.address, None, hello("s1"))[0] == "OK")


def test_a_message_that_unpacks_to_much_more(start: Callable[..., Collector]) -> None:
    """gzip makes a thousand of one; the collector holds no more for it than it may."""
    collector = start()
    bomb = bytes(1 << 30)
    assert len(gzip.compress(bomb[: 1 << 24])) < 1 << 20
    before = psutil.Process(collector.process.pid).memory_info().rss
    with grpc.insecure_channel(collector.address) as channel:
        call = channel.stream_stream(METHOD)(
            iter([bomb[: 1 << 28]]), timeout=LIMIT_S, compression=grpc.Compression.Gzip
        )
        with pytest.raises(grpc.RpcError):
            list(call)
        assert call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    peak = Path(f"/proc/{collector.process.pid}/status").read_text()
    [high] = [line for line in peak.splitlines() if line.startswith("VmHWM")]
    assert int(high.split()[1]) * 1024 - before < 64 << 20
    assert delivers("s1", Access((collector.address,)), LIMIT_S)


CLOCK = """
import sys, time
from probe.access import Access
from probe.coverage import Coverage
from probe.events import Exit
from probe.stream import Stream
client = Stream(Access((sys.argv[1],)), sandbox="s1", boot="b1", coverage=Coverage("core", {}))
for number in range(1, 6):
    client.put_event(Exit(sequence=number, time_ns=1, pid=1))
    assert client.drain(20)
client.close()
"""


@pytest.mark.parametrize("shift_s", [-7200, 0, 300])
def test_a_sandboxes_clock_is_measured(start: Callable[..., Collector], shift_s: int) -> None:
    collector = start()
    [library] = Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")
    environment = {
        **os.environ,
        "LD_PRELOAD": str(library),
        "FAKETIME": f"{shift_s:+d}s",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    command = [sys.executable, "-c", CLOCK, collector.address]
    subprocess.run(command, env=environment, check=True, timeout=60)
    [(offset,)] = collector.rows("SELECT clock_offset_ns FROM sandboxes")
    assert abs(offset / 1e9 - shift_s) < 0.5


def test_a_collector_that_fails_is_replaced_by_its_neighbour(
    tmp_path: Path, start: Callable[..., Collector]
) -> None:
    """Two of one database; the probe goes on at the other, and nothing is doubled."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "c.db").symlink_to(tmp_path / "c.db")
    first = Collector(tmp_path / "a")
    second = Collector(tmp_path / "b")
    with probe_of("s1", Access((first.address, second.address)), batch_items=7) as client:
        put(client, *range(1, 101))
        assert client.drain(LIMIT_S)
        first.process.kill()
        first.process.wait()
        put(client, *range(101, 201))
        assert client.drain(LIMIT_S)
        assert client.losses.total == 0
    assert second.sequences("s1") == list(range(1, 201))
    second.end()
