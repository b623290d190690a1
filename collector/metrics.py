"""What a collector counts of itself, for Prometheus (docs/operations.md lists it)."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TypeVar
from wsgiref.simple_server import WSGIServer

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    start_http_server,
)

from collector.store import Delivery, Hello
from collector.store.interface import Ingesting
from probe.coverage import SENSES
from probe.problem import Problem
from probe.queue import SPANS

_CLOCKS = 100_000  # sandboxes whose clock offset is remembered
_STORE_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_SENSES = {*SENSES, SPANS}  # a probe's word for another makes no series
_LAG_S = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200)

T = TypeVar("T")


class Metrics:
    """Of one collector, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        registry = self.registry
        PlatformCollector(registry)
        ProcessCollector(registry=registry)
        self.streams = Gauge("collector_streams", "Streams that are open now", registry=registry)
        self.items = Counter(
            "collector_items",
            "Items committed, with those that came again",
            ["kind"],
            registry=registry,
        )
        self.deliveries = Counter("collector_deliveries", "Batches committed", registry=registry)
        self.refused = Counter(
            "collector_refused_streams",
            "Streams that were ended, and why",
            ["why"],
            registry=registry,
        )
        self.lost = Counter(
            "collector_lost_events",
            "Events that probes could not deliver, by the sense that they belonged to, "
            "as ended spans tell",
            ["sense"],
            registry=registry,
        )
        self.store_seconds = Histogram(
            "collector_store_seconds",
            "How long the database took for one transaction",
            ["operation"],
            buckets=_STORE_S,
            registry=registry,
        )
        self.store_failures = Counter(
            "collector_store_failures", "Transactions that failed", ["operation"], registry=registry
        )
        self.lag_seconds = Histogram(
            "collector_lag_seconds",
            "From an event, by its sandbox's clock as it was measured, to its commit; "
            "of the last event of each batch",
            buckets=_LAG_S,
            registry=registry,
        )

    def serve(self, address: str) -> WSGIServer:
        """Answers GET /metrics in a thread of its own. Problem where it cannot listen."""
        host, _, port = address.rpartition(":")
        try:
            server, _ = start_http_server(
                int(port), host.strip("[]") or "127.0.0.1", registry=self.registry
            )
        except (OSError, ValueError, OverflowError) as error:
            why = error.strerror if isinstance(error, OSError) else "no address"
            raise Problem(f"--metrics {address}: {why}", "name another HOST:PORT") from None
        return server


class Measured:
    """A store whose ingest is counted."""

    def __init__(self, store: Ingesting, metrics: Metrics) -> None:
        self._store = store
        self._metrics = metrics
        self._offsets: OrderedDict[tuple[str, str], int] = OrderedDict()

    @property
    def writers(self) -> int:
        return self._store.writers

    def greet_all(self, hellos: Sequence[Hello]) -> list[int]:
        for hello in hellos:
            self._set_clock(hello.sandbox, hello.boot, hello.clock_offset_ns)
        return self._timed("greet", lambda: self._store.greet_all(hellos))

    def _set_clock(self, sandbox: str, boot: str, offset_ns: int) -> None:
        self._offsets[sandbox, boot] = offset_ns
        if len(self._offsets) > _CLOCKS:
            self._offsets.popitem(last=False)

    def add(self, deliveries: Sequence[Delivery]) -> None:
        self._timed("add", lambda: self._store.add(deliveries))
        now = time.time_ns()
        for delivery in deliveries:
            self._count(delivery, now)

    def _timed(self, operation: str, work: Callable[[], T]) -> T:
        began = time.perf_counter()
        try:
            return work()
        except Exception:
            self._metrics.store_failures.labels(operation).inc()
            raise
        finally:
            took = time.perf_counter() - began
            self._metrics.store_seconds.labels(operation).observe(took)

    def _count(self, delivery: Delivery, now: int) -> None:
        metrics = self._metrics
        metrics.deliveries.inc()
        if delivery.clock_offset_ns is not None:
            self._set_clock(delivery.sandbox, delivery.boot, delivery.clock_offset_ns)
        metrics.items.labels("event").inc(len(delivery.events))
        metrics.items.labels("span").inc(len(delivery.spans))
        if delivery.events:
            _, _, _, time_ns, _ = delivery.events[-1]
            offset = self._offsets.get((delivery.sandbox, delivery.boot), 0)
            metrics.lag_seconds.observe(max(0, now - (time_ns - offset)) / 1e9)
        for _, observation in delivery.spans:
            if observation.span.ended_ns is not None:
                for sense, count in observation.losses.by_sense.items():
                    metrics.lost.labels(sense if sense in _SENSES else "other").inc(count)
