"""What it takes to explain a large run: 1,000 tests with 1,000 events each, on both databases.

A run is read and judged test by test, so memory is that of the largest test. What passed
costs a row; the events of what failed are read, taken apart and judged. The floor is the
read alone: the messages of the failing tests, by the bare driver.
"""

from __future__ import annotations

import contextlib
import sqlite3
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import psycopg

from bench.events import event
from bench.ingest import COVERAGE
from bench.measure import Goal, Rounds, Table, spread
from bench.memory import peak
from bench.testbed import COLLECTOR, Testbed
from collector.store import Delivery, EventRow, Hello, Observation, open_store
from collector.store.rows import event_row
from probe.coverage import Losses
from probe.events import Exit
from probe.message import event_message
from probe.span import Span
from tests.postgres import Server

ROUNDS = 2
TESTS, EVENTS = 1_000, 1_000  # of each test
SANDBOXES = 10
SECONDS_MAX, MIB_MAX = 5.0, 300.0
FEW, ALL = "1 test in 10 fails", "every test fails"
EVERY = {FEW: 10, ALL: 1}
ROOT = 1000  # the pid of each test's own process


@dataclass(frozen=True)
class Cost:
    """Seconds and, of the process, MiB at its peak."""

    seconds: float
    mib: float = 0.0


def fill(url: str, every: int) -> None:
    """A run in which one test in `every` fails."""
    with contextlib.closing(open_store(url)) as store:
        for number in range(SANDBOXES):
            store.greet(Hello(f"s{number}", "b", "bench", COVERAGE, 0))
        for number in range(TESTS):
            span = _span(number, failed=number % every == 0)
            last = (number + 1) * (EVENTS + 1)
            seen = (last, Observation(span, COVERAGE, Losses()))
            store.add([Delivery(span.sandbox, "b", last, _rows(span, last - EVENTS), (seen,))])


def _span(number: int, *, failed: bool) -> Span:
    began = 10**18 + number * 10**9
    return Span(
        number + 1,
        "r1",
        f"t{number}",
        ("make", "test"),
        f"s{number % SANDBOXES}",
        "b",
        ROOT,
        began,
        ended_ns=began + 10**9,
        exit_code=int(failed),
        outcome="failed" if failed else "passed",
    )


def _rows(span: Span, first: int) -> tuple[EventRow, ...]:
    """Of children of the test's process, and at last its own end."""
    began = span.started_ns
    events = [
        event(
            first + step,
            time_ns=began + step * 1000,
            pid=ROOT + 1 + step // 5,
            parent=ROOT,
            span=span.key,
        )
        for step in range(EVENTS - 1)
    ]
    end = Exit(
        sequence=first + EVENTS - 1,
        time_ns=began + EVENTS * 1000,
        pid=ROOT,
        span=span.key,
        code=span.exit_code,
    )
    return tuple(event_row(event_message(one)) for one in (*events, end))


def explain(bed: Testbed, url: str) -> Cost:
    """`collector explain --json`, whose output nobody keeps."""
    command = ["sh", "-c", 'exec "$@" >/dev/null 2>&1', "sh"]
    command += [COLLECTOR, "explain", "--json", "--db", url]
    began = time.perf_counter()
    resident = peak(bed, command).resident
    return Cost(time.perf_counter() - began, resident)


def read(url: str, every: int) -> Cost:
    began = time.perf_counter()
    sql = "SELECT message FROM {} WHERE sandbox = (SELECT id FROM sandboxes WHERE sandbox = {}) "
    sql += "AND span = {} ORDER BY time_ns, sequence"
    with contextlib.ExitStack() as stack:
        ask: Callable[..., object]
        if "://" in url:
            options = "-c search_path=collector"
            server = stack.enter_context(psycopg.connect(url, options=options))
            text = sql.format("events", "%s", "%s")
            ask = lambda *values: server.execute(text, values, binary=True).fetchall()  # noqa: E731
        else:
            file = stack.enter_context(contextlib.closing(sqlite3.connect(url)))
            text = sql.format("events INDEXED BY events_by_span", "?", "?")
            ask = lambda *values: file.execute(text, values).fetchall()  # noqa: E731
        for number in range(0, TESTS, every):
            ask(f"s{number % SANDBOXES}", number + 1)
    return Cost(time.perf_counter() - began)


def measure(bed: Testbed, rounds: int | None) -> Table:
    turns = Rounds(rounds or ROUNDS)
    with contextlib.ExitStack() as stack:
        server = Server(durable=True)
        stack.callback(server.remove)
        variants: dict[str, Callable[[], Cost]] = {}
        for words, every in EVERY.items():
            for kind in ("SQLite", "PostgreSQL"):
                url = server.database()
                if kind == "SQLite":
                    url = str(bed.folder / f"explain-{every}.db")
                fill(url, every)
                variants[f"{kind}, {words}, floor"] = _reading(url, every)
                variants[f"{kind}, {words}"] = _explaining(bed, url)
        taken = turns.interleave(variants)
    rows, goals = [], []
    for name, costs in taken.items():
        seconds, mib = [cost.seconds for cost in costs], [cost.mib for cost in costs]
        rows.append([name, spread(seconds, 2), spread(mib, 0) if any(mib) else ""])
        if name.endswith(FEW):
            goals.append(Goal(f"{name}, seconds", statistics.median(seconds), SECONDS_MAX))
        if any(mib):
            goals.append(Goal(f"{name}, MiB", statistics.median(mib), MIB_MAX))
    return Table(
        title=f"Explain, {turns.count} rounds of {TESTS:,} tests, {TESTS * EVENTS:,} events",
        headers=["", "seconds", "MiB"],
        rows=rows,
        goals=goals,
        samples={name: [asdict(one) for one in costs] for name, costs in taken.items()},
    )


def _reading(url: str, every: int) -> Callable[[], Cost]:
    return lambda: read(url, every)


def _explaining(bed: Testbed, url: str) -> Callable[[], Cost]:
    return lambda: explain(bed, url)
