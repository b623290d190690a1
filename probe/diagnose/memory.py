"""Rules for the OOM killer."""

from __future__ import annotations

from collections.abc import Iterator

from probe.diagnose.case import Dismissal
from probe.diagnose.story import Story, Suspect
from probe.events import Oom, Signal

_PAGE = 4096
_MIB = 1 << 20
_MARGIN = 1.25
_RESERVED = 8  # times the limit: who has mapped more than that does not mean to use it all


def suspects(story: Story) -> Iterator[Suspect | Dismissal]:
    for victim in story.worth_judging(Oom):
        yield _oom(story, victim)
    for sent in story.worth_judging(Signal):
        if sent.signal == "SIGBUS" and (sent.detail or sent.mapping):
            suspect = _no_page(story, sent)
            if suspect is not None:
                yield suspect


def _no_page(story: Story, event: Signal) -> Suspect | None:
    """A page of a mapped file could not be had, because its file system is full."""
    target = story.tree.processes.get(event.target)
    if target is None or target.exit is None or _is_beyond_its_end(event):
        return None
    shared = event.mapping is None or event.mapping.startswith("/dev/shm/")
    where = f" touching {event.mapping}" if event.mapping else ""
    # What was full may have room again before it is looked at.
    reason = event.detail or "no page of the file could be had there"
    return Suspect(
        cause="memory.shm_full" if shared else "fs.no_space",
        event=target.exit,
        prior=0.93,
        summary=f"{story.who(target.exit)} was ended by SIGBUS{where}: {reason}",
        advice="make shared memory larger: --shm-size, or a tmpfs on /dev/shm with more size"
        if shared
        else "make the file system larger, or clean it up",
        silent=True,
        evidence=(event.id, target.exit.id),
    )


def _is_beyond_its_end(event: Signal) -> bool:
    """The file is shorter than its mapping: the program's own doing."""
    if event.mapping is None or event.offset is None or event.file_size is None:
        return False
    return event.offset >= event.file_size + (-event.file_size) % _PAGE


def _oom(story: Story, event: Oom) -> Suspect:
    who = story.who(event)
    if event.scope == "cgroup":
        cause = "memory.cgroup_oom"
        limit = size(event.limit or 0)
        summary = (
            f"the OOM killer ended {who}: the cgroup {event.cgroup} had used up "
            f"its memory limit of {limit}"
        )
        if event.biggest:
            summary += f" (beside it: {', '.join(event.biggest)})"
        advice = (
            f"raise the memory limit of {event.cgroup} to {_enough(event)}, or use less at once"
        )
    else:
        cause = "memory.system_oom"
        summary = f"the OOM killer ended {who}: the whole machine was out of memory"
        advice = "give the machine more memory, or run less at once"
    return Suspect(
        cause=cause, event=event, prior=0.99, summary=summary, advice=advice, silent=True
    )


def _enough(event: Oom) -> str:
    """What would have done, as far as that can be known: nobody touches more than is mapped.

    A heap that grows has not mapped it all yet, and runtimes that reserve address space by
    the gigabyte say nothing by it; twice the limit is a start then.
    """
    limit, mapped = event.limit or 0, event.virtual or 0
    if 2 * limit < mapped * _MARGIN and mapped <= _RESERVED * limit:
        return f"{size(_whole(mapped * _MARGIN))} (it had mapped {size(_whole(mapped))})"
    return f"{size(_whole(2 * limit))} for a start"


def _whole(count: float) -> int:
    """To full MiB, upwards."""
    return -(-int(count) // _MIB) * _MIB


def size(count: int) -> str:
    """Bytes for people: 64 MiB."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:.0f} {unit}" if value == int(value) else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError("unreachable")
