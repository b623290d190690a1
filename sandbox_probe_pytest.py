"""The pytest plugin: each test is a span of its own, where an agent runs.

Nothing is imported or done beyond one connect(2) when there is none. A module of its
own at the top, for a project under test may have a package `probe` itself, and it
must not fail for having this one installed.
"""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Generator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from probe import local
    from probe.events import JsonObject


MESSAGE_MAX = 4096


def _our_local() -> Any:
    """probe/local.py from beside this file, whatever `probe` means to the tests."""
    path = os.path.join(os.path.dirname(__file__), "probe", "local.py")
    spec = importlib.util.spec_from_file_location("_sandbox_probe_local", path)
    if spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except OSError:
        return None
    return module


class SpanPlugin:
    """Begins a span before a test's setup and ends it after its teardown."""

    def __init__(self, api: Any, client: local.Client, run: str) -> None:
        self._api = api
        self._client: local.Client | None = client
        self._run = run
        self._outcome = "passed"
        self._message: str | None = None
        # A worker of pytest-xdist runs its tests in its main thread, as pytest itself does.
        self._pidfd = os.pidfd_open(os.getpid())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._outcome, self._message = "passed", None
        process = SimpleNamespace(pid=os.getpid(), started_ns=time.time_ns())
        request = self._api.begin_request(self._run, item.nodeid, ["pytest", item.nodeid], process)
        key = self._ask({"do": "begin", "whole_process": False, **request}, self._pidfd)
        try:
            return (yield)
        finally:
            if key is not None:
                self._ask(
                    {
                        "do": "end",
                        "key": key["key"],
                        "ended_ns": time.time_ns(),
                        "outcome": self._outcome,
                        "message": self._message,
                    }
                )

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and self._outcome == "passed":
            self._outcome = "failed" if report.when == "call" else "error"
            self._message = _message(report)[-MESSAGE_MAX:]

    def _ask(self, request: JsonObject, pidfd: int | None = None) -> JsonObject | None:
        """A test must not fail because the agent does; the next one tries a new connection."""
        self._client = self._client or self._api.connect()
        if self._client is None:
            return None
        try:
            return self._client.ask(request, pidfd)
        except self._api.AgentError:
            self._client.close()
            self._client = None
            return None


def _message(report: pytest.TestReport) -> str:
    """The exceptions' own words, without the source lines that pytest shows around them."""
    chain = getattr(report.longrepr, "chain", None)
    crashes = [crash for _, crash, _ in chain] if chain else []
    crashes = crashes or [getattr(report.longrepr, "reprcrash", None)]
    words = [crash.message for crash in crashes if crash is not None]
    return "\n".join(words) or report.longreprtext


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("sandbox-probe")
    group.addoption("--probe-run", default=None, help="the run that these tests belong to")
    group.addoption("--no-probe", action="store_true", help="make no spans")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--no-probe") or _leaves_tests_to_workers(config):
        return
    api = _our_local()
    client = api.connect() if api is not None else None
    if client is not None:
        run = config.getoption("--probe-run") or os.environ.get("PROBE_RUN", "")
        config.pluginmanager.register(SpanPlugin(api, client, run), "sandbox-probe-spans")


def _leaves_tests_to_workers(config: pytest.Config) -> bool:
    """The controller of pytest-xdist sees the reports of its workers, but runs no test."""
    distributes = getattr(config.option, "dist", "no") != "no"
    return distributes and not hasattr(config, "workerinput")
