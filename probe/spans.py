"""Spans for any harness: a stretch of a process, or of what it starts, as one test.

In Python a context manager; in a shell `probe span begin` and `probe span end`; from anywhere
else the agent's Unix socket (docs/spans.md). Without an agent nothing is watched, and nothing
fails.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from types import SimpleNamespace

from probe import local
from probe.digest import digest
from probe.events import JsonObject
from probe.exchange import Transfer
from probe.problem import Problem


class Span:
    """One that is open. What is set here is told when it ends."""

    def __init__(self) -> None:
        self.outcome = "passed"
        self.message: str | None = None
        self.transfers: list[Transfer] = []
        self.report: JsonObject | None = None  # after its end, where one was wanted

    def fail(self, message: str) -> None:
        """The harness's own words for why."""
        self.outcome, self.message = "failed", message

    def transfer(self, name: str, at: str, data: bytes, *, outward: bool = False) -> None:
        """Takes a digest of what went through an interface (probe.exchange)."""
        self.transfers.append(Transfer(name, at, outward, digest(data)))


@contextlib.contextmanager
def span(
    test: str,
    *,
    run: str = "",
    labels: dict[str, str] | None = None,
    pid: int | None = None,
    report: bool = False,
) -> Iterator[Span]:
    """Everything that this thread (or process `pid`) starts until the end is of this test.

    An exception fails it, with its own words. `report`: asks the agent for the explanation.
    """
    opened, client, key = Span(), local.connect(), None
    if client is not None:
        key = _begin(client, test, run, labels or {}, pid)
    try:
        yield opened
    except BaseException as error:
        opened.fail(f"{type(error).__name__}: {error}")
        raise
    finally:
        if client is not None:
            if key is not None:
                opened.report = _end(client, key, opened, report)
            client.close()


def _begin(
    client: local.Client, test: str, run: str, labels: dict[str, str], pid: int | None
) -> int | None:
    process = SimpleNamespace(pid=pid or os.getpid(), started_ns=time.time_ns())
    request = local.begin_request(run, test, sys.argv or [""], process, labels)
    with contextlib.suppress(OSError, local.AgentError):
        pidfd = os.pidfd_open(process.pid)
        try:
            request |= {"do": "begin", "whole_process": False}
            return int(client.ask(request, pidfd)["key"])
        finally:
            os.close(pidfd)
    return None


def _end(client: local.Client, key: int, opened: Span, report: bool) -> JsonObject | None:
    request = {
        "do": "end",
        "key": key,
        "ended_ns": time.time_ns(),
        "outcome": opened.outcome,
        "message": opened.message,
        "transfers": [one.as_json() for one in opened.transfers],
        "report": report and opened.outcome != "passed",
    }
    with contextlib.suppress(local.AgentError):
        answer: JsonObject | None = client.ask(request).get("report")
        return answer
    return None


def begin(test: str, run: str, labels: dict[str, str], pid: int | None) -> int:
    """The key of a span that outlives this process. Problem where no agent takes it."""
    pid = pid or os.getppid()
    process = SimpleNamespace(pid=pid, started_ns=time.time_ns())
    request = local.begin_request(run, test, [test], process, labels)
    request |= {"do": "begin", "whole_process": False, "detached": True}
    try:
        pidfd = os.pidfd_open(pid)
    except OSError as error:
        raise Problem(f"process {pid}: {error.strerror}", "name one that runs") from error
    try:
        return int(_ask(request, pidfd)["key"])
    finally:
        os.close(pidfd)


def end(key: int, outcome: str, message: str | None) -> None:
    """Problem where the agent knows no such span."""
    told = {"outcome": outcome, "message": message, "ended_ns": time.time_ns()}
    _ask({"do": "end", "key": key, **told}, None)


def _ask(request: JsonObject, pidfd: int | None) -> JsonObject:
    client = local.connect()
    if client is None:
        raise Problem(f"no agent answers at {local.socket_path()}", "start one: probe agent &")
    try:
        return client.ask(request, pidfd)
    except local.AgentError as error:
        raise Problem(f"the agent refused: {error}", "see probe span --help") from error
    finally:
        client.close()
