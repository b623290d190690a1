"""A program looked up in one directory after another is one event, not ten."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable

from probe.events import Event, Exec

_SEARCH_GOES_ON = frozenset({"ENOENT", "ENOTDIR", "EACCES"})  # as execvp(3) has it


def fold_searches(events: Iterable[Event]) -> list[Event]:
    """One event for a name that one process looked up in several directories in a row."""
    folded: list[Event] = []
    open_searches: dict[int, int] = {}
    for event in events:
        at = open_searches.get(event.tid)
        if isinstance(event, Exec) and event.errno in _SEARCH_GOES_ON:
            before = folded[at] if at is not None else None
            if isinstance(before, Exec) and _same_search(before, event):
                folded[at or 0] = _joined(before, event)
                continue
            open_searches[event.tid] = len(folded)
        else:
            open_searches.pop(event.tid, None)
            if at is not None and isinstance(event, Exec) and _found(folded[at], event):
                # It was there, whether or not it could be started.
                folded[at] = dataclasses.replace(folded[at], found=event.path)  # type: ignore[call-arg]
        folded.append(event)
    return folded


def _found(search: Event, started: Exec) -> bool:
    name = os.path.basename(started.path)
    return isinstance(search, Exec) and os.path.basename(search.path) == name


def _same_search(before: Exec, event: Exec) -> bool:
    name = os.path.basename(event.path)
    return os.path.basename(before.path) == name and before.argv == event.argv


def _joined(before: Exec, event: Exec) -> Exec:
    """execvp(3) ends with EACCES when any directory said so; that one tells more."""
    telling = before if _tells(before) > _tells(event) else event
    searched = before.searched or (os.path.dirname(before.path),)
    return dataclasses.replace(
        telling,
        sequence=before.sequence,
        time_ns=event.time_ns,
        count=before.count + event.count,
        searched=tuple(dict.fromkeys((*searched, os.path.dirname(event.path)))),
    )


def _tells(event: Exec) -> int:
    """A file that is there and could not be started tells more than one that is not."""
    return (event.errno == "EACCES") + 2 * (event.reason not in (None, "exec.not_found"))
