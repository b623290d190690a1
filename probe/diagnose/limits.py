"""Rules for processes that were ended from outside, by a time limit, or by a limit of their own."""

from __future__ import annotations

from collections.abc import Iterator

from probe.diagnose import words
from probe.diagnose.case import Dismissal
from probe.diagnose.chain import TIMED_OUT
from probe.diagnose.crashes import signal_number
from probe.diagnose.memory import size
from probe.diagnose.story import Story, Suspect
from probe.diagnose.tree import Process
from probe.events import Event, Exit, Oom, Signal

_ENDING = frozenset({"SIGKILL", "SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGALRM"})
_OWN_LIMITS = {
    "SIGXCPU": ("limit.cpu_time", "its CPU time is used up (RLIMIT_CPU)", "raise ulimit -t"),
    "SIGXFSZ": ("fs.file_size_limit", "a file grew beyond RLIMIT_FSIZE", "raise ulimit -f"),
}


def suspects(story: Story) -> Iterator[Suspect | Dismissal]:
    chosen = {event.pid for event in story.all(Oom)}
    for event in story.worth_judging(Signal):
        target = story.tree.processes.get(event.target)
        if target is None or event.target in chosen:
            continue
        if target.exit is not None and _is_own_limit(event, target.exit):
            yield _own_limit(story, event, target.exit)
        elif event.signal in _ENDING and event.sender == "process":
            suspect = _ended(story, event, target)
            if suspect is not None:
                yield suspect


def _is_own_limit(event: Signal, ended: Exit) -> bool:
    """RLIMIT_CPU and RLIMIT_FSIZE; the hard limit of the former kills from the timer tick."""
    if event.signal in _OWN_LIMITS:
        return ended.signal in (event.signal, "SIGKILL")
    by_kernel = event.sender == "kernel" and event.pid == event.target
    return event.signal == ended.signal == "SIGKILL" and by_kernel and event.limit is not None


def _own_limit(story: Story, event: Signal, ended: Exit) -> Suspect:
    cause, what, advice = _OWN_LIMITS.get(event.signal, _OWN_LIMITS["SIGXCPU"])
    limit = ""
    if event.limit is not None:
        told = size(event.limit) if event.signal == "SIGXFSZ" else f"{event.limit} s"
        limit, advice = f", {told}", f"{advice} above {told}"
    return Suspect(
        cause=cause,
        event=ended,
        prior=0.97,
        summary=f"{story.who(ended)} was ended by {event.signal}: {what}{limit}",
        advice=advice,
        silent=True,
        evidence=(event.id, ended.id),
    )


def _ended(story: Story, event: Signal, target: Process) -> Suspect | None:
    """From outside the span, or by something inside whose task it is to end what takes long."""
    ended = target.exit
    if ended is None and event.signal != "SIGKILL":
        return None  # it may have lived on; nothing outlives SIGKILL, though it takes a while
    sender = story.tree.processes.get(event.pid)
    if event.pid == event.target or (ended is not None and ended.time_ns < event.time_ns):
        return None
    culprit: Event = ended or event
    if sender is not None:
        above = sender in story.tree.ancestors(event.target)
        if above and not _is_a_time_limit(story, sender):
            return None  # a program ends what it started
        if not above and (target.weight < 0.5 or not _was_killed(target, event.signal)):
            return None  # one that was asked to end, and ended as it likes
        if above and sender.exit is not None:
            culprit = sender.exit
    elif ended is not None and ended.signal != event.signal and not target.failed:
        return None
    age = (event.time_ns - target.born_ns) / 1e9
    return Suspect(
        cause="limit.killed",
        event=culprit,
        prior=0.85,
        summary=f"{target.name} (pid {target.pid}) was ended by {event.signal} from "
        f"{event.comm or 'outside'} (pid {event.pid}) after {age:.1f} s",
        advice="give it more time, or find out what it was waiting for",
        silent=True,
        spellings=words.TIMEOUTS,
        killed=(target.pid,),
        evidence=(event.id, *([ended.id] if ended is not None else [])),
    )


def _was_killed(target: Process, signal: str) -> bool:
    """The signal ended it, as far as is known; or it ended itself as if that were so."""
    if target.exit is None or target.exit.signal is not None:
        return True
    return target.status == 128 + signal_number(signal)


def _is_a_time_limit(story: Story, sender: Process) -> bool:
    if sender.name == "timeout":  # of coreutils or busybox, whatever status it was asked to keep
        return True
    return sender.status in TIMED_OUT or words.timed_out(story.words(sender.pid))
