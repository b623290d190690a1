"""Who watches a command for `probe run`: a running agent, this process itself, or nobody.

The plain types here are on purpose: with an agent at hand `probe run` must cost
next to nothing, so nothing heavy is imported until it is needed.
"""

from __future__ import annotations

import os

from probe import local

TYPE_CHECKING = False  # not from typing, which takes two milliseconds
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from typing import Protocol

    from probe.access import Access
    from probe.coverage import Coverage
    from probe.diagnose import Case
    from probe.engine.choice import Choice
    from probe.events import JsonObject
    from probe.redaction import Redactor

    class Watcher(Protocol):
        """Watches one command from its begin to its end."""

        warning: str | None  # what is blind, and how to mend it
        prepare: Callable[[], None] | None  # what the command's process is to do before it starts

        def begin(self, command: JsonObject, pidfd: int) -> None:
            """`command` as local.begin_request makes it; called before the command starts."""

        def end(self, status: int, ended_ns: int, wanted: bool) -> JsonObject | None:
            """Takes the wait status; the report, where it is wanted."""


class Agent:
    """The agent of this sandbox, over its socket. One that fails leaves nobody to watch."""

    prepare: Callable[[], None] | None = None

    def __init__(self, client: local.Client, redact: str | None) -> None:
        self._redact = redact  # the agent has its own; this is for when it goes away
        self.warning: str | None = None
        self._client = client
        self._nobody: Nobody | None = None

    def begin(self, command: JsonObject, pidfd: int) -> None:
        self._command = command
        try:
            self._key = self._client.ask({"do": "begin", **command}, pidfd)["key"]
        except local.AgentError as error:
            self._give_up(error)

    def end(self, status: int, ended_ns: int, wanted: bool) -> JsonObject | None:
        if self._nobody is None:
            request = {"do": "end", "key": self._key, "status": status, "ended_ns": ended_ns}
            try:
                if not wanted:
                    self._client.tell(request)
                    return None
                report: JsonObject = self._client.ask({**request, "report": True})["report"]
                return report
            except local.AgentError as error:
                self._give_up(error)
        assert self._nobody is not None
        return self._nobody.end(status, ended_ns, wanted)

    def _give_up(self, error: local.AgentError) -> None:
        from probe.coverage import blind
        from probe.redaction import load

        self.warning = f"blind: {error}, so a failure cannot be explained"
        self._nobody = Nobody(blind(str(error)), self.warning, load(self._redact), None)
        self._nobody.begin(self._command, -1)


class Self:
    """An engine of our own, for as long as the command runs."""

    def __init__(self, choice: Choice, redactor: Redactor, collector: Access | None) -> None:
        from probe.watch import Watch

        self.warning = choice.warning
        self.prepare = _prepared_for(choice.engine.name)
        self._watch = Watch(choice.engine, redactor)
        self._redactor = redactor
        self._collector = collector

    def begin(self, command: JsonObject, pidfd: int) -> None:
        from probe.span import open_span

        self._span = open_span(self._watch.next_key(), command, self._redactor)
        self._watch.begin(self._span, pidfd)
        self._watch.listen()

    def end(self, status: int, ended_ns: int, wanted: bool) -> JsonObject | None:
        self._span.end(ended_ns, status)
        case = self._watch.end(self._span.key)
        self._watch.close()
        if self._collector:
            self.warning = _send(self._collector, case) or self.warning
        return _explained(case) if wanted else None


class Nobody:
    """No engine runs here: the command runs all the same, and the report says so."""

    prepare: Callable[[], None] | None = None

    def __init__(
        self, coverage: Coverage, warning: str, redactor: Redactor, collector: Access | None
    ) -> None:
        self._redactor = redactor
        self.warning: str | None = warning
        self._coverage = coverage
        self._collector = collector

    def begin(self, command: JsonObject, pidfd: int) -> None:
        from probe.span import open_span

        self._span = open_span(0, command, self._redactor)

    def end(self, status: int, ended_ns: int, wanted: bool) -> JsonObject | None:
        from probe.diagnose import Case

        self._span.end(ended_ns, status)
        case = Case(self._span, (), self._coverage)
        if self._collector:
            self.warning = _send(self._collector, case) or self.warning
        return _explained(case) if wanted else None


def _prepared_for(engine: str) -> Callable[[], None] | None:
    if engine != "ptrace":
        return None
    from probe.engine.traced.ptrace import allow_tracing

    return allow_tracing


def _explained(case: Case) -> JsonObject:
    from probe import report
    from probe.diagnose import explain

    return report.build(case, explain(case))


def _send(access: Access, case: Case) -> str | None:
    from probe.sending import send_case

    if send_case(access, case):
        return None
    return f"the collector at {','.join(access.addresses)} did not take the report (is it running?)"


def choose(engine: str, options: argparse.Namespace) -> Watcher:
    """The agent where one runs and nothing special is asked for, else an engine of our own.

    Problem where the way to the collector that `options` name could never work.
    """
    if engine == "auto" and options.collector is None:
        client = local.connect()
        if client is not None:
            os.environ.pop(local.TOKEN, None)
            return Agent(client, options.redact)
    from probe.redaction import load

    collector, redactor = _access(options), load(options.redact)
    from probe.engine.choice import open_engine
    from probe.engine.errors import EngineError

    try:
        return Self(open_engine(engine), redactor, collector)
    except EngineError as error:
        return _nobody(str(error), error.mend, redactor, collector)
    except Exception as error:
        # No thread, no descriptor, no /proc: whatever it is, the command must run.
        return _nobody(f"{type(error).__name__}: {error}", "", redactor, collector)


def _access(options: argparse.Namespace) -> Access | None:
    address = options.collector or os.environ.get("PROBE_COLLECTOR")
    if not address:
        return None
    from probe import access

    return access.from_options(options, address)


def _nobody(reason: str, mend: str, redactor: Redactor, collector: Access | None) -> Nobody:
    from probe.coverage import blind

    mend = f"; to mend it, {mend}" if mend else ""
    warning = f"blind: {reason}, so a failure cannot be explained{mend}"
    return Nobody(blind(reason), warning, redactor, collector)
