"""Rules for processes that were ended from outside, by a time limit, or by a limit of their own."""

from __future__ import annotations

from collections.abc import Iterator

from probe.diagnose import words
from probe.diagnose.case import Dismissal
from probe.diagnose.story import Story, Suspect
from probe.diagnose.tree import TIMED_OUT, Process
from probe.events import Oom, Signal

_ENDING = frozenset({"SIGKILL", "SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGALRM"})
_OWN_LIMITS = {
    "SIGXCPU": ("limit.cpu_time", "its CPU time is used up (RLIMIT_CPU)", "raise ulimit -t"),
    "SIGXFSZ": ("fs.file_size_limit", "a file grew beyond RLIMIT_FSIZE", "raise ulimit -f"),
}


def suspects(story: Story) -> Iterator[Suspect | Dismissal]:
    chosen = {event.pid for event in story.all(Oom)}
    for event in story.worth_judging(Signal):
        target = story.tree.processes.get(event.target)
        if target is None or target.exit is None:
            continue
        if _is_own_limit(event, target) and event.target not in chosen:
            yield _own_limit(story, event, target)
        elif event.signal in _ENDING and event.sender == "process" and event.target not in chosen:
            suspect = _ended(story, event, target)
            if suspect is not None:
                yield suspect


def _is_own_limit(event: Signal, target: Process) -> bool:
    """RLIMIT_CPU and RLIMIT_FSIZE; the hard limit of the former kills from the timer tick."""
    assert target.exit is not None
    if event.signal in _OWN_LIMITS:
        return target.exit.signal in (event.signal, "SIGKILL")
    return event.signal == "SIGKILL" and event.sender == "kernel" and event.pid == event.target


def _own_limit(story: Story, event: Signal, target: Process) -> Suspect:
    assert target.exit is not None
    cause, what, advice = _OWN_LIMITS.get(event.signal, _OWN_LIMITS["SIGXCPU"])
    return Suspect(
        cause=cause,
        event=target.exit,
        prior=0.97,
        summary=f"{story.who(target.exit)} was ended by {event.signal}: {what}",
        advice=advice,
        silent=True,
        evidence=(event.id, target.exit.id),
    )


def _ended(story: Story, event: Signal, target: Process) -> Suspect | None:
    """From outside the span, or by something inside whose task it is to end what takes long."""
    assert target.exit is not None
    sender = story.tree.processes.get(event.pid)
    if event.pid == event.target or target.exit.time_ns < event.time_ns:
        return None
    if sender is not None:
        above = sender in story.tree.ancestors(event.target)
        if above and not _is_a_time_limit(story, sender):
            return None  # a program ends what it started
        if not above and target.weight < 0.5:
            return None
        culprit = sender if above and sender.exit is not None else target
    else:
        culprit = target
    if sender is None and target.exit.signal != event.signal and not target.failed:
        return None
    age = (event.time_ns - target.born_ns) / 1e9
    assert culprit.exit is not None
    return Suspect(
        cause="limit.killed",
        event=culprit.exit,
        prior=0.85,
        summary=f"{story.who(target.exit)} was ended by {event.signal} from "
        f"{event.comm or 'outside'} (pid {event.pid}) after {age:.1f} s",
        advice="give it more time, or find out what it was waiting for",
        silent=True,
        spellings=words.TIMEOUTS,
        evidence=(event.id, target.exit.id),
    )


def _is_a_time_limit(story: Story, sender: Process) -> bool:
    return sender.status in TIMED_OUT or words.timed_out(story.words(sender.pid))
