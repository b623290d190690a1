"""`probe why` and `probe watch`: what a person, or a program, asks the agent of this sandbox."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time

from probe import local
from probe.events import JsonObject, time_from_text
from probe.problem import Problem
from probe.terminal import Terminal, escape, shorten
from probe.text import describe, render

NOTHING = 1  # the exit status where nothing failed that is remembered
TYPED = "PROBE_TYPED"  # from the shell's hook (probe.hook)


def agent() -> local.Client:
    """A connection to the agent. Problem where none runs."""
    client = local.connect()
    if client is None:
        raise Problem(
            f"no agent answers at {local.socket_path()}",
            "start one as root with `probe agent &`, or name its socket in $PROBE_SOCKET",
        )
    return client


def ask(request: JsonObject) -> JsonObject:
    """The agent's answer. Problem for a refusal, or where it went away."""
    try:
        return agent().ask(request)
    except local.AgentError as error:
        raise Problem(f"the agent did not answer: {error}", "see `probe why --help`") from error


def reports(
    pid: int | None = None, last: int | None = None, test: str | None = None
) -> tuple[list[JsonObject], str | None]:
    """The latest first, or none and why there are none."""
    named = local.clean(test)[: local.ID_MAX] if test is not None else None
    given = {"pid": pid, "last": last, "test": named}
    request = {name: value for name, value in given.items() if value is not None}
    answer = ask({"do": "why", **request})
    return answer["reports"], answer["reason"]


def why_command(options: argparse.Namespace) -> int:
    found, reason = reports(options.pid, options.last, options.test)
    terminal = Terminal(sys.stdout, needed=True)
    if options.json:
        for report in found:
            terminal.line(json.dumps(report))
    elif options.brief:
        for report in found:
            terminal.line(escape(brief(report)))
    else:
        for number, report in enumerate(found):
            if number:
                terminal.line()
            _header(report, terminal, single=len(found) == 1)
            render(report, terminal)
    if found:
        return 0
    errors = Terminal(sys.stderr)
    errors.line(errors.style(f"probe: {reason}"))
    return NOTHING


def brief(report: JsonObject) -> str:
    """One line: the cause, how sure, why, and what to do."""
    verdict = report["verdict"]
    if verdict is None:
        return f"passed: {' '.join(report['span']['command'])}"
    told = f"{verdict['cause']} ({verdict['confidence']:.0%}): {verdict['summary']}"
    return f"{told} -> {verdict['advice']}" if verdict["advice"] else told


def _header(report: JsonObject, terminal: Terminal, *, single: bool) -> None:
    span = report["span"]
    typed = os.environ.get(TYPED, "").strip() if single else ""
    command = typed if _is_of(typed, span["command"]) else " ".join(span["command"])
    status = span["signal"] or f"exit {span['exit_code']}"
    ago = f"  ({status}, {_age(report)} ago)"
    room = max(20, terminal.width - len(ago) - 2)
    terminal.line(
        terminal.style(f"$ {shorten(escape(command), room)}", "bold"), terminal.style(ago, "dim")
    )


def _is_of(typed: str, command: list[str]) -> bool:
    """The line before this one need not be the one that failed."""
    names = {os.path.basename(word) for word in command} - {"", "|"}
    return any(name in typed for name in names)


def _age(report: JsonObject) -> str:
    span = report["span"]
    ended_ns = time_from_text(span["started_at"]) + int((span["duration_s"] or 0) * 1e9)
    age_s = max(0, time.time_ns() - ended_ns) // 1_000_000_000
    return f"{age_s} s" if age_s < 120 else f"{age_s // 60} min"


class Searches:
    """Of a program that is looked up in one directory after another, people see one line, and
    none where it is found in the end. So a miss waits for what its process does next."""

    def __init__(self) -> None:
        self._waiting: dict[int, JsonObject] = {}

    def settled(self, told: JsonObject) -> list[JsonObject]:
        """What is to be shown now."""
        event = told.get("event")
        if event is None:
            return [told]
        before = self._waiting.pop(event["pid"], None)
        again = event["kind"] == "exec" and before is not None and _name(before) == _name(told)
        if event["kind"] == "exec" and event.get("errno") == "ENOENT":
            self._waiting[event["pid"]] = told
            return [before] if before is not None and not again else []
        return [told] if before is None or again else [before, told]


def _name(told: JsonObject) -> str:
    return os.path.basename(str(told["event"].get("path", "")))


def watch_command(options: argparse.Namespace) -> int:
    """Until it is interrupted, or the agent ends."""
    client = agent()
    terminal = Terminal(sys.stdout, needed=True)
    try:
        client.ask({"do": "watch", "kinds": options.kind, "failed": options.failed})
        searches = Searches()
        for told in client.listen():
            for one in [told] if options.json else searches.settled(told):
                _tell(one, terminal, as_json=options.json)
    except local.AgentError as error:
        raise Problem(f"the agent did not answer: {error}", "see `probe watch --help`") from error
    return 0


def _tell(told: JsonObject, terminal: Terminal, *, as_json: bool) -> None:
    event = told.get("event")
    if as_json:
        terminal.line(json.dumps(event if event is not None else told))
    elif event is None:
        terminal.line(terminal.style(f"{told['lost']} events were too many to show", "yellow"))
    else:
        clock, who = event["time"][11:23], f"{event['comm']}[{event['pid']}]"
        line = shorten(escape(f"{clock} {who:24} {describe(event)}"), terminal.width)
        terminal.line(terminal.style(line, *(["red"] if _went_wrong(event) else [])))


def _went_wrong(event: JsonObject) -> bool:
    kind = event["kind"]
    if kind == "exit":
        return event.get("code") != 0
    return bool(event.get("errno")) or kind in ("seccomp", "oom", "signal")
