"""`collector serve`: the gRPC server around the ingest service, from start to signal."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import socket
import sys
from dataclasses import dataclass
from typing import Any

import grpc
import structlog
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from collector import web
from collector.gate import Gate
from collector.ingest import MESSAGE_BYTES, SERVICE, Ingest
from collector.metrics import Metrics
from collector.quota import Quota
from collector.store import Store
from collector.tls import Tls
from probe.access import check_address, is_local
from probe.problem import Problem

_SWITCH_S = 5e-4  # the database's thread needs its turn often, for a moment each
# Objects between two looks for cycles. What comes in holds none, and many thousand rows of it are
# under way at a time: with Python's 700 a sixth of the CPU went into looking at them.
_GARBAGE = 50_000
GRACE_S = 5.0  # for streams to end by themselves when the collector stops
_OPTIONS = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    # Without it two collectors share a port and each gets some of the probes.
    ("grpc.so_reuseport", 0),
    # A probe that vanished without a word is noticed; probes may do the same with us.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.max_concurrent_streams", 64),  # of one connection
)


@dataclass(frozen=True, slots=True)
class Door:
    """Where the server listens, to whom, and how much of each."""

    address: str
    gate: Gate
    quota: Quota
    tls: Tls | None = None
    insecure: bool = False

    def __post_init__(self) -> None:
        """Problem where others than this machine would be spoken to in plain text unasked."""
        check_address(self.address)
        if self.tls is None and not self.insecure and not is_local(self.address):
            raise Problem(
                f"--listen {self.address}: others could read and write along in plain text",
                "give --tls-cert and --tls-key, or --insecure where the network is trusted",
            )


async def serve(
    store: Store,
    door: Door,
    metrics_address: str | None = None,
    web_address: str | None = None,
) -> None:
    """Serves until SIGTERM or SIGINT. Problem where an address is not to be had.

    Files of tokens and certificates are followed anyway; SIGHUP reads the tokens at once.

    Port 0 means any free port; the log line `listening` says which.
    """
    log = structlog.get_logger("server")
    sys.setswitchinterval(_SWITCH_S)
    gc.freeze()
    gc.set_threshold(_GARBAGE)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGHUP, door.gate.reload)
    metrics = Metrics()
    ingest = Ingest(store, metrics, door.gate, door.quota)
    server, healthy = _server(ingest)
    bound = _bind(server, door)
    told = metrics.serve(metrics_address) if metrics_address else None
    pages = web.serve(store, web_address) if web_address else None
    committing = asyncio.create_task(ingest.commit_forever())
    await server.start()
    await _set_serving(healthy)
    log.info(
        "listening",
        address=bound,
        tls=door.tls is not None,
        metrics=told and f"{told.server_name}:{told.server_port}",
        web=pages and f"http://{pages.server_address[0]!s}:{pages.server_port}/",
    )
    await stop.wait()
    log.info("stopping")
    await healthy.enter_graceful_shutdown()
    ingest.stop()
    await server.stop(GRACE_S)
    committing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await committing
    for beside in (told, pages):
        if beside is not None:
            beside.shutdown()
    log.info("stopped")


def _server(ingest: Ingest) -> tuple[grpc.aio.Server, health.aio.HealthServicer]:
    server = grpc.aio.server(options=_OPTIONS)
    server.add_generic_rpc_handlers((ingest.handler(),))
    healthy = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(healthy, server)
    names = (SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server)
    return server, healthy


async def _set_serving(healthy: health.aio.HealthServicer) -> None:
    for service in (SERVICE, health.OVERALL_HEALTH):
        await healthy.set(service, health_pb2.HealthCheckResponse.SERVING)


def _bind(server: grpc.aio.Server, door: Door) -> str:
    """The address with the real port."""
    address = door.address
    try:
        if door.tls is None:
            port = server.add_insecure_port(address)
        else:
            port = server.add_secure_port(address, door.tls.credentials())
    except RuntimeError:
        raise Problem(
            f"cannot listen on {address}: {_obstacle(address)}",
            "name another address with --listen, or end what holds this one",
        ) from None
    return address if address.startswith("unix:") else f"{address.rpartition(':')[0]}:{port}"


def _obstacle(address: str) -> str:
    """gRPC does not say why it could not bind; the kernel does."""
    try:
        for family, place in _places(address):
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(place)
    except OSError as error:
        return error.strerror or str(error)
    return "refused"


def _places(address: str) -> list[tuple[int, Any]]:
    if address.startswith("unix:"):
        return [(socket.AF_UNIX, address.removeprefix("unix:"))]
    host, _, port = address.rpartition(":")
    found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    return [(family, place) for family, _, _, _, place in found]
