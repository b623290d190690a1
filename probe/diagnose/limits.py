"""Rules for processes that were ended from outside."""

from __future__ import annotations

from collections.abc import Iterator

from probe.diagnose.case import Dismissal
from probe.diagnose.story import Story, Suspect
from probe.events import Oom, Signal

_ENDING = frozenset({"SIGKILL", "SIGTERM"})


def suspects(story: Story) -> Iterator[Suspect | Dismissal]:
    chosen = {event.pid for event in story.events if isinstance(event, Oom)}
    for event in story.events:
        if not isinstance(event, Signal) or event.signal not in _ENDING:
            continue
        target = story.tree.processes.get(event.target)
        if target is None or target.exit is None or target.exit.signal != event.signal:
            continue
        if event.target in chosen or event.sender == "kernel":
            continue
        if event.pid in story.tree.processes and event.pid != event.target:
            continue  # a program ended its own child
        yield Suspect(
            cause="limit.killed",
            event=target.exit,
            prior=0.9 if event.pid != event.target else 0.3,
            summary=f"{story.who(target.exit)} was ended by {event.signal} "
            f"from {event.comm or 'outside'} (pid {event.pid})",
            advice="see what sent it: a time limit of the harness, or an operator",
            silent=True,
            evidence=(event.id, target.exit.id),
        )
