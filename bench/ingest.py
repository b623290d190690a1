"""From stream to commit: how many events a second a collector takes, beside the floor.

Probes' streams carry batches that were made before; the clock stops when the last of them
is acknowledged, which follows its commit. The floor is a bulk insert of the same rows into
the same table by the bare driver, in transactions of the same size, on the same machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import statistics
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path

import grpc
import psycopg

from bench.events import event
from bench.measure import Goal, Rounds, Table, ratios, spread
from bench.testbed import Testbed
from collector.ingest import TOGETHER
from collector.store import EventRow, Hello, open_store
from collector.store.rows import EVENT_COLUMNS, event_row
from probe.coverage import SENSES, Coverage
from probe.message import coverage_message, event_message
from probe.wire import stream_pb2 as wire
from tests.postgres import Server

ROUNDS = 3
STREAMS = 128
BATCHES = 12  # of each stream
ITEMS = 512  # of a batch
EVENTS = STREAMS * BATCHES * ITEMS
FLOOR_SHARE = 2.0  # the floor's rate over ours
UNBOUNDED = ("--rate", "1000000000")  # what a collector can, not what it lets a sandbox do
METHOD = "/probe.v1.Collector/Stream"

COVERAGE = Coverage("core", dict.fromkeys(SENSES, "full"))


MESSAGES = [
    event_message(
        event(one, time_ns=time.time_ns(), pid=100 + one % 50, parent=99, span=1 + one // 1000)
    )
    for one in range(1, BATCHES * ITEMS + 1)
]


def batches() -> list[bytes]:
    """The same for every stream: it is the sandbox that tells them apart."""
    made = []
    for first in range(0, len(MESSAGES), ITEMS):
        items = [wire.Item(sequence=one.sequence, event=one) for one in MESSAGES[first:][:ITEMS]]
        made.append(wire.ProbeMessage(batch=wire.Batch(items=items)).SerializeToString())
    return made


async def stream(channel: grpc.aio.Channel, sandbox: str, made: Sequence[bytes]) -> None:
    """Returns when all is acknowledged."""
    hello = wire.Hello(
        sandbox=sandbox,
        boot="b",
        coverage=coverage_message(COVERAGE),
        time_ns=time.time_ns(),
    )

    async def said() -> AsyncIterator[bytes]:
        yield wire.ProbeMessage(hello=hello).SerializeToString()
        for one in made:
            yield one

    call = channel.stream_stream(METHOD, response_deserializer=wire.CollectorMessage.FromString)
    acknowledged = 0
    async for answer in call(said()):
        acknowledged = max(acknowledged, answer.acknowledgement.sequence)
    if acknowledged != BATCHES * ITEMS:
        raise RuntimeError(f"{sandbox}: {acknowledged} of {BATCHES * ITEMS} acknowledged")


async def _send(addresses: Sequence[str], made: Sequence[bytes]) -> float:
    """Each stream over a connection of its own, as probes do."""
    own = (("grpc.use_local_subchannel_pool", 1),)
    async with contextlib.AsyncExitStack() as stack:
        channels = [
            await stack.enter_async_context(
                grpc.aio.insecure_channel(addresses[number % len(addresses)], options=own)
            )
            for number in range(STREAMS)
        ]
        began = time.perf_counter()
        await asyncio.gather(
            *(stream(channel, f"s{number}", made) for number, channel in enumerate(channels))
        )
        return time.perf_counter() - began


def through(bed: Testbed, url: str, collectors: int) -> float:
    """Events a second from streams to commits."""
    with contextlib.ExitStack() as stack:
        addresses = [
            stack.enter_context(bed.collector(url, number, UNBOUNDED))
            for number in range(collectors)
        ]
        took = asyncio.run(_send(addresses, batches()))
    return EVENTS / took


def rows(url: str) -> list[tuple[int, EventRow]]:
    """With the numbers of their sandboxes; the tables are made on the way."""
    with contextlib.closing(open_store(url)) as store:
        for number in range(STREAMS):
            store.greet(Hello(f"s{number}", "b", "bench", COVERAGE, 0))
    made = [event_row(message) for message in MESSAGES]
    numbers = _sandboxes(url)
    return [(number, row) for number in numbers for row in made]


def _sandboxes(url: str) -> list[int]:
    sql = "SELECT id FROM sandboxes ORDER BY id"
    if "://" not in url:
        with contextlib.closing(sqlite3.connect(url)) as file:
            return [number for (number,) in file.execute(sql)]
    with psycopg.connect(url, options="-c search_path=collector") as server:
        return [number for (number,) in server.execute(sql)]


def transactions(made: Sequence[tuple[int, EventRow]]) -> Iterator[list[tuple[object, ...]]]:
    size = TOGETHER * ITEMS
    for first in range(0, len(made), size):
        yield [(number, *row) for number, row in made[first : first + size]]


def sqlite_floor(url: str) -> float:
    parts = list(transactions(rows(url)))
    columns = ("sandbox", *EVENT_COLUMNS)
    sql = f"INSERT INTO events ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
    with contextlib.closing(sqlite3.connect(url, isolation_level=None)) as file:
        file.execute("PRAGMA synchronous = FULL")
        began = time.perf_counter()
        for part in parts:
            file.execute("BEGIN IMMEDIATE")
            file.executemany(sql, part)
            file.execute("COMMIT")
        return EVENTS / (time.perf_counter() - began)


def postgres_floor(url: str) -> float:
    parts = list(transactions(rows(url)))
    copy = (
        "COPY events (sandbox, sequence, span, kind, time_ns, message) FROM STDIN (FORMAT BINARY)"
    )
    with psycopg.connect(url, options="-c search_path=collector", autocommit=True) as server:
        began = time.perf_counter()
        for part in parts:
            with server.transaction(), server.cursor().copy(copy) as target:
                target.set_types(("int8", "int8", "int8", "text", "int8", "bytea"))
                for row in part:
                    target.write_row(row)
        return EVENTS / (time.perf_counter() - began)


def measure(bed: Testbed, rounds: int | None) -> Table:
    turns = Rounds(rounds or ROUNDS)
    with contextlib.ExitStack() as stack:
        server = Server(durable=True)
        stack.callback(server.remove)
        variants: dict[str, Callable[[], float]] = {
            "SQLite, floor": lambda: sqlite_floor(_file(bed)),
            "SQLite, one collector": lambda: through(bed, _file(bed), 1),
            "SQLite, two collectors": lambda: through(bed, _file(bed), 2),
            "PostgreSQL, floor": lambda: postgres_floor(server.database()),
            "PostgreSQL, one collector": lambda: through(bed, server.database(), 1),
            "PostgreSQL, two collectors": lambda: through(bed, server.database(), 2),
        }
        taken = turns.interleave(variants)
    table, goals = [], []
    for name, rates in taken.items():
        floor = taken[f"{name.split(',')[0]}, floor"]
        share = ratios(rates, floor)
        told = "" if rates is floor else spread([one * 100 for one in share], 0)
        table.append([name, spread([rate / 1000 for rate in rates], 1), told])
        if rates is not floor:
            slower = statistics.median(ratios(floor, rates))
            goals.append(Goal(f"the floor over {name}", slower, FLOOR_SHARE))
    return Table(
        title=f"Ingest, {turns.count} rounds of {EVENTS:,} events in {STREAMS} streams",
        headers=["", "1000 events/s", "% of the floor"],
        rows=table,
        goals=goals,
        samples=taken,
        notes=[
            f"Client, collectors and database share {os.cpu_count()} cores, which the floor "
            "has alone."
        ],
    )


def _file(bed: Testbed) -> str:
    """A new one; the one before it is gone."""
    for old in bed.folder.glob("ingest*"):
        old.unlink()
    return str(Path(bed.folder, f"ingest-{time.monotonic_ns()}.db"))
