"""`probe mcp`: the tools of one sandbox, each a question to its agent."""

from __future__ import annotations

from probe import asking, doctor
from probe.events import KINDS, JsonObject
from probe.mcp_server import (
    CONCISE_BYTES,
    COUNT,
    FORMAT,
    PAGE,
    REPORT,
    TEXT,
    Tool,
    brief,
    detailed,
    page,
    serve,
    told,
)
from probe.problem import Problem
from probe.terminal import shorten
from probe.text import describe

_REMEMBERED = 20  # failures that an agent tells of at once
_FINDINGS = 8  # of an examination in concise form
_LINE = 120
_PID_MAX = (1 << 22) - 1  # proc_sys_kernel(5), pid_max


def run() -> None:
    """Serves on stdio until the client goes."""
    serve("sandbox-probe", TOOLS)


def _explain(arguments: JsonObject) -> JsonObject:
    found, reason = asking.reports(arguments.get("pid"), None, arguments.get("test"))
    if not found:
        raise Problem(str(reason), "list_failures tells what is remembered")
    report = brief(found[0])
    if arguments["response_format"] == "detailed":
        return {"text": told(report), "report": detailed(found[0])}
    return {"text": told(report), "report": report}


def _list(arguments: JsonObject) -> JsonObject:
    found, _ = asking.reports(last=_REMEMBERED)
    every = [brief(report) for report in found]
    part, after = page(every, arguments)
    text = "\n".join(shorten(told(report), 2 * _LINE) for report in part)
    return {"text": text or "nothing that failed is remembered", "failures": part, "next": after}


def _recent(arguments: JsonObject) -> JsonObject:
    asked = {name: arguments[name] for name in ("kinds", "failed", "limit")}
    answer = asking.ask({"do": "recent", **asked})
    lines = [
        shorten(f"{one['time'][11:23]} {one['comm']}[{one['pid']}] {describe(one)}", _LINE)
        for one in answer["events"]
    ]
    full = arguments["response_format"] == "detailed"
    while not full and sum(map(len, lines)) > CONCISE_BYTES // 2:
        lines.pop(0)
    events = answer["events"] if full else []
    text = "\n".join(lines) or "no such event is remembered"
    return {"text": text, "earlier": answer["earlier"], "events": events}


def _doctor(arguments: JsonObject) -> JsonObject:
    examination = doctor.examine([]).as_json()
    findings = examination["findings"]
    lines = [f"{one['summary']}: {one['advice']}" for one in findings[:_FINDINGS]]
    text = "\n".join(shorten(line, 2 * _LINE) for line in lines) or "nothing is likely to break"
    if arguments["response_format"] == "detailed":
        return {"text": text, "findings": findings, "examination": examination}
    return {"text": text, "findings": [], "more": max(0, len(findings) - _FINDINGS)}


TOOLS = (
    Tool(
        "explain_failure",
        "Explain a failure",
        "Why the last failed command in this sandbox failed (or a process that is gone, or a "
        "test): the cause, whether the sandbox or the work is at fault, and what to do.",
        {
            "pid": {
                "type": "integer",
                "minimum": 1,
                "maximum": _PID_MAX,
                "description": "a process that has ended",
            },
            "test": {"type": "string", "description": "a test that ran under probe run"},
            "response_format": FORMAT,
        },
        {"text": TEXT, "report": REPORT},
        _explain,
    ),
    Tool(
        "list_failures",
        "List failures",
        "The commands that failed lately in this sandbox, the latest first, each with its cause.",
        dict(PAGE),
        {"text": TEXT, "failures": {"type": "array", "items": REPORT}, "next": COUNT},
        _list,
    ),
    Tool(
        "recent_events",
        "Recent events",
        "What the kernel saw lately: refused calls, programs started or missing, connections, "
        "kills. The text has a line each; the events in full in detailed form.",
        {
            "kinds": {
                "type": "array",
                "items": {"enum": sorted(KINDS)},
                "default": [],
                "description": "only these; none for all",
            },
            "failed": {"type": "boolean", "default": True, "description": "only what went wrong"},
            "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 20},
            "response_format": FORMAT,
        },
        {"text": TEXT, "earlier": COUNT, "events": {"type": "array"}},
        _recent,
    ),
    Tool(
        "doctor",
        "Examine the sandbox",
        "What this sandbox can and cannot do (system calls, limits, mounts, network, tools), "
        "and what is likely to break in it, the worst first, with advice.",
        {"response_format": FORMAT},
        {"text": TEXT, "findings": {"type": "array"}, "examination": {"type": "object"}},
        _doctor,
    ),
)
