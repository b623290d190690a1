"""Writes the tables of docs from the definitions in the code (PAGES, below)."""

from __future__ import annotations

import dataclasses
import inspect
import re
import typing
from pathlib import Path

from prometheus_client.metrics import MetricWrapperBase

from probe import events
from probe.causes import CAUSES
from probe.doctor import Examination

DOCS = Path(__file__).parent.parent / "docs"


def causes() -> str:
    lines = ["# Causes", "", "What a verdict can name. Ids are stable.", ""]
    lines += ["| id | layer | primitive | holds when |", "|---|---|---|---|"]
    for cause in CAUSES.values():
        lines.append(f"| `{cause.id}` | {cause.layer} | {cause.primitive} | {cause.holds} |")
    return "\n".join(lines) + "\n"


def _comments(kind: type[events.Event]) -> dict[str, str]:
    source = inspect.getsource(kind)
    found = re.findall(r"^    (\w+): [^#\n]*#(.*(?:\n    #.*)*)$", source, re.MULTILINE)
    return {name: text.strip() for name, text in found}


def event_kinds() -> str:
    lines = ["# Events", "", "What the probe heard. Sizes are bytes, durations seconds, times UTC."]
    lines += ["Errnos and signals go by name; a field without a value is left out.", ""]
    lines += [
        "Every event has `id`, `time`, `kind`, `pid`, `tid`, `ppid`, `comm`, `exe` and `count`."
    ]
    for name, kind in events.KINDS.items():
        comments = _comments(kind)
        lines += ["", f"## {name}", "", inspect.cleandoc(kind.__doc__ or ""), ""]
        lines += ["| field | type | |", "|---|---|---|"]
        for field in events.detail_fields(kind):
            hint = kind.__annotations__[field].replace("|", "\\|")
            lines.append(f"| `{field}` | {hint} | {comments.get(field, '')} |")
    return "\n".join(lines) + "\n"


def examination() -> str:
    lines = ["# The report of an examination", ""]
    lines += ["`probe doctor --json`: version `probe.doctor/1`, described by"]
    lines += ["`probe/doctor.schema.json` (JSON Schema 2020-12). Unknown extra fields may appear;"]
    lines += [
        "ignore them. Sizes are bytes, durations seconds, times UTC. A field that is null has"
    ]
    lines += ["its reason in `unknown` of its section, unless none is what was found.", ""]
    lines += [
        "The weight is how likely a difference in the field breaks work: `--diff` sorts by it,"
    ]
    lines += ["and leaves out what has none.", ""]
    lines += [
        "`findings` has the likeliest first, each with `id`, `severity`, `likelihood` (0 to 1),"
    ]
    lines += ["`summary` and `advice`."]
    hints = typing.get_type_hints(Examination)
    for section in dataclasses.fields(Examination):
        kind = hints[section.name]
        module = inspect.getmodule(kind)
        assert module is not None
        summary = (inspect.getdoc(module) or "").split("\n\n")[0]
        lines += ["", f"## {section.name}", "", summary]
        for inner in (kind, *_parts(kind)):
            lines += ["", *([] if inner is kind else [f"Each `{inner.__name__.lower()}`:", ""])]
            lines += ["| field | type | weight | |", "|---|---|---|---|"]
            lines += [_row(inner, field) for field in dataclasses.fields(inner)]
    return "\n".join(lines) + "\n"


def _parts(kind: type) -> list[type]:
    """The dataclasses that fields of a section hold."""
    found = []
    for hint in typing.get_type_hints(kind).values():
        for one in (hint, *typing.get_args(hint)):
            found += [inner for inner in (one, *typing.get_args(one)) if _is_part(inner)]
    return list(dict.fromkeys(found))


def _is_part(hint: object) -> bool:
    return isinstance(hint, type) and dataclasses.is_dataclass(hint)


def _row(kind: type, field: dataclasses.Field[object]) -> str:
    hint = str(field.type).replace("|", "\\|")
    weight = field.metadata["weight"]
    shown = "" if weight is None else weight
    return f"| `{field.name}` | {hint} | {shown} | {field.metadata['doc']} |"


def metrics() -> str:
    from collector.metrics import Metrics

    lines = [
        "# Metrics",
        "",
        "What `collector serve --metrics` tells Prometheus, beside the process's own.",
    ]
    lines += [""]
    lines += ["| name | type | labels | |", "|---|---|---|---|"]
    for instrument in vars(Metrics()).values():
        if isinstance(instrument, MetricWrapperBase):
            [family] = instrument.describe()
            total = "_total" if family.type == "counter" else ""
            labels = ", ".join(f"`{label}`" for label in instrument._labelnames)
            lines.append(
                f"| `{family.name}{total}` | {family.type} | {labels} | {family.documentation} |"
            )
    return "\n".join(lines) + "\n"


def limits() -> str:
    from collector import ingest, metrics
    from collector.outcomes import document, inspect_log, outcome
    from collector.outcomes.read import LIMIT
    from collector.store import postgres, postgres_session, sql, sqlite
    from probe import stream

    table = (
        ("a message of a probe", f"{ingest.MESSAGE_BYTES >> 20} MiB", "the stream is refused"),
        ("items of a batch", f"{ingest.BATCH_ITEMS:,}", "the stream is refused"),
        ("the name of a sandbox, boot, run or test", f"{ingest.NAME_LENGTH:,} bytes", "refused"),
        ("batches in one transaction", f"{ingest.TOGETHER}", "the others wait for the next"),
        (
            "items that a probe keeps in memory",
            f"{stream.CAPACITY:,}",
            "the oldest is counted as lost",
        ),
        ("a file of outcomes", f"{LIMIT >> 20} MiB", "refused: import it in parts"),
        ("values in a file of outcomes", f"{document.VALUES:,}", "refused: import it in parts"),
        ("what is read of an Inspect archive", f"{inspect_log.MEMBER_LIMIT >> 20} MiB", "refused"),
        ("files in an Inspect archive", f"{inspect_log.MEMBERS:,}", "refused"),
        (
            "the message of an outcome",
            f"{outcome.MESSAGE_LIMIT:,} characters",
            "its middle is left out",
        ),
        ("the id of an outcome", f"{outcome.NAME_LIMIT:,} bytes", "its end becomes a hash"),
        (
            "waiting for a locked SQLite file",
            f"{sqlite.BUSY_TIMEOUT_MS // 1000} s",
            "the probe sends again",
        ),
        (
            "connecting to PostgreSQL",
            f"{postgres_session.CONNECT_TIMEOUT_S} s",
            "the probe sends again",
        ),
        (
            "dropping a partition that is read",
            f"{postgres.LOCK_TIMEOUT_S} s",
            "the next prune does it",
        ),
        ("events removed in one transaction", f"{sql.PRUNED_TOGETHER:,}", "the rest follows"),
        (
            "clock offsets for the lag metric",
            f"{metrics._CLOCKS:,} sandboxes",
            "the oldest is forgotten",
        ),
    )
    lines = ["# Limits", "", "What is bounded, and what happens beyond. Losses are counted.", ""]
    lines += ["| | at most | beyond it |", "|---|---|---|"]
    lines += [f"| {what} | {limit} | {beyond} |" for what, limit, beyond in (*table, *_looks())]
    return "\n".join([*lines, "", *_seen()]) + "\n"


def _looks() -> tuple[tuple[str, str, str], ...]:
    """What bounds the portable engine."""
    from probe.engine.portable import counters, engine, family, waiting

    often = f"{engine.LOOK_S * 1000:.0f} to {engine._LOOK_MOST_S * 1000:.0f} ms apart"
    return (
        ("looks of the portable engine", often, "what comes and goes in between is missed"),
        ("CPU that they take", f"{100 // engine._IDLE}% of one, each of two kinds", "rarer looks"),
        ("processes that it follows", f"{family.MEMBERS_MAX:,}", "counted as lost"),
        ("events that wait in it", f"{engine._EVENTS_MAX:,}", "counted as lost"),
        ("cgroups whose counters it reads", f"{counters._CGROUPS_MAX}", "the others are not read"),
        ("processes whose sockets it looks at", f"{waiting._MEMBERS_MAX}", "the others are not"),
        ("sockets that it watches waiting", f"{waiting._SOCKETS_MAX:,}", "the others are not"),
        ("a wait of a socket that it tells", f"{waiting._NOTABLE_S} s at least", "not told"),
    )


def _seen() -> list[str]:
    """The senses of each engine, at their best and where little is permitted."""
    from probe.coverage import SENSES
    from probe.engine.bcc import engine as bcc
    from probe.engine.core import _ALWAYS
    from probe.engine.portable import senses
    from probe.engine.portable.cgroups import MEMORY, PIDS, Cgroup
    from probe.engine.portable.engine import LOOK_S
    from probe.engine.traced import engine as traced

    top = [Cgroup(controller, 2, "/sys/fs/cgroup", "/") for controller in (MEMORY, PIDS)]
    best = senses.states("", "", top, LOOK_S)
    least = senses.states("not permitted", "not permitted", [], LOOK_S)
    core = dict.fromkeys(SENSES, "full") | _ALWAYS
    lines = ["## What the engines see", ""]
    lines += [
        "[architecture.md](architecture.md) says when each one is used. The portable one is shown",
        "as root in the initial namespaces, and where neither the process connector nor the kernel",
        "log nor counters of cgroups are permitted. With it a cause is named where one was",
        "observed; any other failure is `unknown`. Spans that `PROBE_TEST` begins (spans.md) are",
        "core's alone, and so are writes to a file that took less than they were given. Who",
        "listens where a connection inside the sandbox was made, core and ptrace tell. What a",
        "program reads from and writes to, bcc tells of those that live long enough to be looked",
        "at, and portable of none.",
        "",
    ]
    lines += [
        "| | core | bcc | ptrace | portable | portable, little permitted |",
        "|---|---|---|---|---|---|",
    ]
    for sense in SENSES:
        cells = (core[sense], bcc._SENSES[sense], traced._SENSES[sense], best[sense], least[sense])
        lines.append(f"| {sense} | {' | '.join(cells)} |")
    return lines


PAGES = {
    "causes.md": causes,
    "events.md": event_kinds,
    "examination.md": examination,
    "metrics.md": metrics,
    "limits.md": limits,
}

if __name__ == "__main__":
    for page, write in PAGES.items():
        (DOCS / page).write_text(write())
