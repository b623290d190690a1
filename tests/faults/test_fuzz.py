"""A hundred thousand mutated messages and files: no crash, no hang, no growth, others served."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import typing
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import psutil
import pytest
from google.protobuf.message import DecodeError
from world import Store, World, store, until

from collector.ingest import Malformed, _event, _observation
from collector.store import Hello
from collector.store.rows import event_from
from probe import events
from probe.access import Access
from probe.coverage import SENSES, Coverage, Losses
from probe.events import Event, Exit
from probe.message import event_message, span_message
from probe.queue import Entry, Queue
from probe.span import Span
from probe.spool import Spool
from probe.stream import Stream, _Session
from probe.wire import stream_pb2 as wire

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]

SERVER, DECODER, SPOOL, PROBE = 50_000, 30_000, 10_000, 10_000
__all__ = ["store"]
METHOD = "/probe.v1.Collector/Stream"
COVERAGE = Coverage("core", dict.fromkeys(SENSES, "full"))
GROWTH_MAX = 256 << 20
NASTY = [
    "",
    "\0",
    "\x1b[2J",
    "\u202e",
    "../" * 50,
    "x" * 5000,
    "'; DROP TABLE events; --",
    "\U0001f4a9",
]
NUMBERS = [0, 1, (1 << 31) - 1, (1 << 32) - 1]


def full(kind: type[Event], chance: random.Random) -> Event:
    """With each field set, most to something odd."""
    values: dict[str, object] = {}
    for name, hint in typing.get_type_hints(kind).items():
        text = str(hint)
        if "ClassVar" in text:
            continue
        if "tuple[int" in text:
            values[name] = tuple(chance.choices(NUMBERS, k=3))
        elif "tuple" in text:
            values[name] = tuple(chance.choices(NASTY, k=3))
        elif "str" in text:
            values[name] = chance.choice(NASTY)
        elif "bool" in text:
            values[name] = chance.random() < 0.5
        elif "float" in text:
            values[name] = chance.choice([0.0, 1e308, 0.5])
        else:
            values[name] = chance.choice(NUMBERS) & 0x7FFFFFFF
    values["sequence"] = chance.randrange(1, 1 << 40)
    return kind(**values)  # type: ignore[arg-type]


def messages(chance: random.Random) -> list[bytes]:
    """Good ones, of each kind, to be spoiled."""
    items = [
        wire.Item(sequence=number, event=event_message(full(kind, chance)))
        for number, kind in enumerate(events.KINDS.values(), 1)
    ]
    span = Span(7, "r1", "t1", tuple(NASTY), "s1", "b1", 1, 0, message=NASTY[2], labels={"a": "b"})
    items.append(wire.Item(sequence=99, span=span_message(span, COVERAGE, Losses({"exec": 1}))))
    batches = [wire.ProbeMessage(batch=wire.Batch(items=[item])) for item in items]
    batches.append(wire.ProbeMessage(batch=wire.Batch(items=items, clock=wire.Clock(heard_ns=1))))
    batches.append(wire.ProbeMessage(hello=wire.Hello(sandbox="s1", boot="b1")))
    return [batch.SerializeToString() for batch in batches]


def mutated(data: bytes, others: list[bytes], chance: random.Random) -> bytes:
    spoiled = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 4, 16])):
        place = chance.randrange(len(spoiled) + 1)
        end = min(len(spoiled), place + chance.choice([1, 2, 8, 64]))
        kind = chance.randrange(6)
        if kind == 0 and place < len(spoiled):
            spoiled[place] ^= 1 << chance.randrange(8)
        elif kind == 1 and place < len(spoiled):
            spoiled[place] = chance.choice([0, 1, 0x7F, 0x80, 0xFF])
        elif kind == 2:
            del spoiled[place:end]
        elif kind == 3:
            spoiled[place:place] = spoiled[place:end] * chance.choice([1, 3])
        elif kind == 4:
            spoiled[place:place] = chance.randbytes(chance.choice([1, 9, 30]))
        else:
            other = chance.choice(others)
            start = chance.randrange(len(other))
            spoiled[place:end] = other[start : start + 40]
    return bytes(spoiled)


def test_the_server(store: Store, tmp_path: Path) -> None:
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    chance = random.Random(seed)
    good = messages(chance)
    with World(tmp_path, store) as world:
        world.start_collectors("--rate", "1000000")
        process = psutil.Process(
            typing.cast("subprocess.Popen[bytes]", world.collectors[0].running).pid
        )
        with grpc.insecure_channel(world.addresses[0]) as channel:
            grpc.channel_ready_future(channel).result(30)
            before = process.memory_info().rss

            def throw(number: int) -> Counter[str]:
                own, codes = random.Random(seed + number), Counter[str]()
                call = channel.stream_stream(METHOD)
                for count in range(SERVER // 8):
                    hello = wire.Hello(sandbox=f"fuzz-{count % 50}", boot="b1")
                    first = wire.ProbeMessage(hello=hello).SerializeToString()
                    spoiled = mutated(own.choice(good), good, own)
                    answers = call(iter([first, spoiled]), timeout=60)
                    try:
                        list(answers)
                    except grpc.RpcError:
                        codes[answers.code().name + " " + str(answers.details())[:40]] += 1
                    else:
                        codes["OK"] += 1
                return codes

            with ThreadPoolExecutor(8) as pool:
                codes: Counter[str] = sum(pool.map(throw, range(8)), Counter())
        assert process.is_running() and process.memory_info().rss - before < GROWTH_MAX
        names = {code.split()[0] for code in codes}
        assert names <= {"OK", "INVALID_ARGUMENT"}, codes
        assert min(codes["OK"], codes.total() - codes["OK"]) > SERVER // 20, codes
        world.start_producers()
        until(lambda: all(map(world.put, world.sandboxes)))
        world.finish()
        assert world.check()["lost"] == 0
    explain = (sys.executable, "-m", "collector.cli", "explain", "--json", "--db", store.url)
    done = subprocess.run([*explain, "--run", "r1"], capture_output=True, text=True, timeout=300)
    assert "Traceback" not in done.stderr and done.returncode in (0, 2), done.stderr


def test_the_decoders() -> None:
    chance = random.Random()
    good, hello, taken = messages(chance), Hello("s1", "b1", "1", COVERAGE, 0), 0
    for _ in range(DECODER):
        try:
            message = wire.ProbeMessage.FromString(mutated(chance.choice(good), good, chance))
        except DecodeError:
            continue
        for item in message.batch.items:
            try:
                if item.HasField("event"):
                    *_, stored = _event(item.event)
                    event_from(stored).as_json()
                elif item.HasField("span"):
                    _observation(item.span, hello)
            except Malformed:
                continue
            taken += 1
    assert taken > DECODER // 20


def test_the_probe_takes_any_answer() -> None:
    """A collector may be broken too: nothing that it says ends the stream's thread."""
    chance = random.Random()
    answers = [
        wire.CollectorMessage(welcome=wire.Welcome(acknowledged=9, window=7), time_ns=1 << 60),
        wire.CollectorMessage(
            acknowledgement=wire.Acknowledgement(sequence=5, window=100, pause_ms=1 << 31)
        ),
    ]
    good = [answer.SerializeToString() for answer in answers]
    client = Stream(Access(("unix:/nowhere",)), sandbox="s1", boot="b1", coverage=COVERAGE)
    session = _Session(b"")
    for number in range(PROBE):
        client.put_event(Exit(sequence=number + 1, time_ns=1, pid=1))
        try:
            client._heard(
                session,
                wire.CollectorMessage.FromString(mutated(chance.choice(good), good, chance)),
            )
        except DecodeError:
            continue
    assert threading.current_thread().is_alive() and client._threads[0].is_alive()
    client.close()


def test_the_spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that anybody may have written: what is no segment of ours is told, and gone."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # no power is cut here
    chance = random.Random()
    hello = wire.Hello(sandbox="s1", boot="b1")
    made = Spool(tmp_path / "made", hello, Queue(100, 1 << 20))
    put = {}
    for number, data in enumerate(messages(chance), 1):
        put[number] = Entry(number, data)
        made.append(put[number])
    made.close()
    [segment] = (tmp_path / "made").glob("*.segment")
    good = segment.read_bytes()
    folder = tmp_path / "spoiled"
    folder.mkdir()
    before = psutil.Process().memory_info().rss
    for _ in range(SPOOL):
        (folder / segment.name).write_bytes(mutated(good, [good], chance))
        (folder / "acknowledged").write_bytes(mutated(b"1 5 00000000\n", [good], chance))
        spool = Spool(folder, hello, Queue(100, 1 << 20))
        for entry in spool.take(100, 1 << 20):
            assert put[entry.sequence] == entry
            spool.acknowledge(entry.sequence)
        spool.close()
        for file in folder.iterdir():
            os.unlink(file)
    assert psutil.Process().memory_info().rss - before < GROWTH_MAX
