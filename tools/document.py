"""Writes the tables of docs/causes.md and docs/events.md from the definitions in the code."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from probe import events
from probe.causes import CAUSES

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


PAGES = {"causes.md": causes, "events.md": event_kinds}

if __name__ == "__main__":
    for page, write in PAGES.items():
        (DOCS / page).write_text(write())
