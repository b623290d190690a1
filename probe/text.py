"""A report for people: the verdict first, then what it rests on, then what to do."""

from __future__ import annotations

from collections.abc import Callable

from probe.events import JsonObject
from probe.terminal import Terminal, escape, shorten

_OUTCOME_STYLE = {"passed": "green"}
_SHOWN = 6


def render(report: JsonObject, terminal: Terminal, prefix: str = "") -> None:
    """Writes the explanation of one span; `prefix` says whose words they are."""
    verdict = report["verdict"]
    if verdict is None:
        terminal.line(terminal.style(prefix, "dim"), terminal.style("passed", "green"))
    else:
        _verdict(verdict, report, terminal, prefix)
    _dismissed(report, terminal)
    _coverage(report, terminal)


def _verdict(verdict: JsonObject, report: JsonObject, terminal: Terminal, prefix: str) -> None:
    terminal.line(
        terminal.style(prefix, "dim"),
        terminal.style(verdict["cause"], "bold", "red"),
        terminal.style(f"  ({verdict['layer']}, {verdict['confidence']:.0%} sure)", "dim"),
    )
    terminal.text(verdict["summary"], "  ", "bold")
    events = {event["id"]: event for event in report["events"]}
    for name in verdict["evidence"][:_SHOWN]:
        if name in events:
            terminal.line(
                "  ", terminal.style(_event_line(events[name], terminal.width - 2), "dim")
            )
    if verdict["advice"]:
        terminal.text("→ " + verdict["advice"], "  ", "cyan")
    for other in report["alternatives"][:2]:
        line = f"or {other['cause']} ({other['confidence']:.0%}): {other['summary']}"
        terminal.line("  ", terminal.style(shorten(line, terminal.width - 2), "dim"))


def _event_line(event: JsonObject, width: int) -> str:
    clock = event["time"][11:23]
    return shorten(f"{clock} {event['comm']}[{event['pid']}] {describe(event)}", width)


def describe(event: JsonObject) -> str:
    """One event in a few words."""
    kind = event["kind"]
    times = f" ({event['count']} times)" if event["count"] > 1 else ""
    words = _WORDS.get(kind)
    return (words(event) if words else str(kind)) + times


def _seccomp(event: JsonObject) -> str:
    answer = event.get("errno") or event["action"]
    about = "".join(f" {event[name]}" for name in ("path", "detail") if event.get(name))
    return (
        f"{event['syscall']}{about} refused by seccomp: {answer} ({event.get('filter', 'filter')})"
    )


def _exec(event: JsonObject) -> str:
    if "errno" not in event:
        return f"started {event['path']}"
    detail = f" ({event['detail']})" if event.get("detail") else ""
    return f"could not start {event['path']}: {event['errno']}{detail}"


def _fork(event: JsonObject) -> str:
    limit = f", pids.max {event['pids_max']}" if event.get("pids_max") is not None else ""
    return f"{event['syscall']} failed: {event['errno']}{limit}"


def _exit(event: JsonObject) -> str:
    ended = f"killed by {event['signal']}" if event.get("signal") else f"exit {event.get('code')}"
    said = (event.get("last_words") or "").strip().rpartition("\n")[2]
    return f"{ended}, saying: {said}" if said else ended


def _connect(event: JsonObject) -> str:
    where = event["address"] + (f":{event['port']}" if event.get("port") is not None else "")
    return f"connect {where}: {event.get('errno') or 'connected'}"


def _dns(event: JsonObject) -> str:
    return f"looked up {event['name']} ({event['query']}): {event.get('rcode') or 'no answer'}"


def _limit(event: JsonObject) -> str:
    value = f" of {event['value']}" if event.get("value") is not None else ""
    return f"reached the limit {event['limit']}{value}"


def _loss(event: JsonObject) -> str:
    return f"events of the sense {event['sense']} were lost ({event['where']})"


def _oom(event: JsonObject) -> str:
    return f"chosen by the OOM killer ({event['scope']} {event.get('cgroup', '')})"


def _signal(event: JsonObject) -> str:
    return f"{event['signal']} to {event['target_comm']}[{event['target']}]"


def _file(event: JsonObject) -> str:
    return f"{event['syscall']} {event['path']}: {event['errno']}"


def _syscall(event: JsonObject) -> str:
    return f"{event['syscall']}: {event['errno']}"


_WORDS: dict[str, Callable[[JsonObject], str]] = {
    "seccomp": _seccomp,
    "syscall": _syscall,
    "exec": _exec,
    "fork": _fork,
    "exit": _exit,
    "connect": _connect,
    "dns": _dns,
    "limit": _limit,
    "loss": _loss,
    "oom": _oom,
    "signal": _signal,
    "file": _file,
}


def _dismissed(report: JsonObject, terminal: Terminal) -> None:
    events = {event["id"]: event for event in report["events"]}
    for dismissal in report["dismissed"][:3]:
        event = events.get(dismissal["event"])
        if event is not None:
            line = f"not it: {describe(event)}: {dismissal['reason']}"
            terminal.line("  ", terminal.style(shorten(line, terminal.width - 2), "dim"))


def _coverage(report: JsonObject, terminal: Terminal) -> None:
    lost = report["lost"]["total"]
    if lost:
        terminal.line("  ", terminal.style(f"{lost} events were lost", "yellow"))
    senses = report["coverage"]["senses"]
    shut = [sense for sense, state in senses.items() if state.startswith("none")]
    verdict = report["verdict"]
    if verdict is not None and shut and verdict["layer"] == "unknown":
        terminal.line("  ", escape(f"not seen: {', '.join(shut)}"))
