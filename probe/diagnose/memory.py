"""Rules for the OOM killer."""

from __future__ import annotations

from collections.abc import Iterator

from probe.diagnose.case import Dismissal
from probe.diagnose.story import Story, Suspect
from probe.events import Exit, Oom


def suspects(story: Story) -> Iterator[Suspect | Dismissal]:
    for victim in story.worth_judging(Oom):
        yield _oom(story, victim)
    for event in story.all(Exit):
        if event.signal == "SIGBUS" and event.detail:
            yield _shared_memory(story, event)


def _shared_memory(story: Story, event: Exit) -> Suspect:
    return Suspect(
        cause="memory.shm_full",
        event=event,
        prior=0.93,
        summary=f"{story.who(event)} was ended by SIGBUS: {event.detail}",
        advice="make shared memory larger: --shm-size, or a tmpfs on /dev/shm with more size",
        silent=True,
    )


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
        advice = f"raise the memory limit of {event.cgroup} above {limit}, or use less at once"
    else:
        cause = "memory.system_oom"
        summary = f"the OOM killer ended {who}: the whole machine was out of memory"
        advice = "give the machine more memory, or run less at once"
    return Suspect(
        cause=cause, event=event, prior=0.99, summary=summary, advice=advice, silent=True
    )


def size(count: int) -> str:
    """Bytes for people: 64 MiB."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:.0f} {unit}" if value == int(value) else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError("unreachable")
