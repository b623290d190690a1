"""What is left when the sandbox did nothing: the work itself, or an eye that was shut."""

from __future__ import annotations

from probe.diagnose import faults, words
from probe.diagnose.case import Finding
from probe.diagnose.crashes import CRASHES
from probe.diagnose.hearing import DEATHS
from probe.diagnose.network import NAME_ERRORS
from probe.diagnose.story import Story
from probe.diagnose.tree import Process
from probe.events import Connect

_DNS_PORT = 53
_RIVAL = 0.3  # how likely another cause is that a reader should hear of


def verdict(story: Story, rival: float = 0.0) -> Finding:
    """The verdict where no sandbox event explains the failure; `rival`: how likely one does."""
    shut = _relevant_shut(story)
    lost = story.case.losses.total
    culprit = _deepest_failure(story)
    evidence = (culprit.exit.id,) if culprit.exit is not None else ()
    if story.case.span.outcome == "lost":
        return Finding(
            "unknown",
            0.5,
            "nobody said how it ended: the harness or its connection went away before",
            "see what became of the harness; what was seen until then is in the events",
            evidence,
        )
    if shut or lost:
        why = _why_unseen(story, shut)
        if lost:
            why.append(f"{lost} events were lost")
        return Finding(
            "unknown",
            0.5,
            f"no cause was found, and not everything could be seen ({'; '.join(why)})",
            "run it again by probe run --engine ptrace, which sees refusals and slows the work"
            if story.case.coverage.only_looks
            else "run it again where the probe sees what was hidden from it here",
            evidence,
        )
    most = max(0.5, 1 - rival)
    if culprit.exit is not None and culprit.exit.signal in CRASHES:
        return Finding(
            "workload.crashed",
            min(0.93, most),
            f"{culprit.name} (pid {culprit.pid}) crashed with {culprit.exit.signal} "
            "of its own making",
            f"debug the program: {_in_its_way(rival)}",
            evidence,
        )
    return Finding(
        "workload.failed",
        min(_certainty(story, culprit), most),
        f"{_how(story, culprit)} by itself: {_in_its_way(rival)}",
        "look at the work's own output",
        evidence,
    )


def _in_its_way(rival: float) -> str:
    if rival < _RIVAL:
        return "nothing in the sandbox stood in its way"
    return "what it met with in the sandbox it more likely went without"


def _why_unseen(story: Story, shut: dict[str, str]) -> list[str]:
    if story.case.coverage.only_looks:
        engine = story.case.coverage.engine
        return [f"the {engine} engine does not see most refusals: {', '.join(shut)}"]
    senses: dict[str, list[str]] = {}
    for sense, state in shut.items():
        senses.setdefault(state, []).append(sense)
    return [f"{', '.join(those)}: {state}" for state, those in senses.items()]


def _certainty(story: Story, culprit: Process) -> float:
    """An error of the system that is spoken of and was not seen leaves room for doubt."""
    said = story.words(culprit.pid)
    if words.unexplained_errno(said) and not faults.of_work(said):
        return 0.55
    return 0.92 if faults.of_work(said) else 0.85


def _how(story: Story, culprit: Process) -> str:
    if culprit.exit is None:
        return "the test failed"
    name = f"{story.name(culprit)} (pid {culprit.pid})"
    if culprit.exit.signal:
        return f"{name} was ended by {culprit.exit.signal}"
    return f"{name} failed with exit status {culprit.exit.code}"


def _deepest_failure(story: Story) -> Process:
    """Where the failure began: from the root down along the strongest link."""
    process = story.tree.process(story.tree.root)
    seen = {process.pid}
    while True:
        below = [child for child in _at_fault(story, process) if child.pid not in seen]
        if not below:
            return process
        process = max(below, key=lambda child: child.weight)
        seen.add(process.pid)


def _at_fault(story: Story, process: Process) -> list[Process]:
    """The children that a process failed for, as far as it does not speak for itself."""
    said = process.last_words
    below = story.tree.children(process.pid)
    strong = [child for child in below if child.weight >= 0.5 * process.weight > 0]
    if words.is_specific(said) and not words.tells_of_a_child(said):
        strong = [one for one in strong if one.status == process.status or _was_killed(one)]
    if words.only_warned(said, DEATHS):  # it went on without those that were killed
        strong = [child for child in strong if not _was_killed(child)]
    heard = [child for child in strong if not (said and _is_unheard(child))]
    if not any(child.status == process.status for child in strong):
        heard = heard or [child for child in strong if _is_told(child, said)]
    acted = [child for child in heard if not story.tree.only_reports(child)]
    if faults.of_work(said):  # a test runner repeats what was said by the test
        return [child for child in acted or heard if _is_repeated(child, said)]
    return acted or heard


def _was_killed(process: Process) -> bool:
    return process.exit is not None and process.exit.signal is not None


def _is_told(process: Process, said: str) -> bool:
    """A shell says of its own accord what a signal has ended."""
    ended = process.exit
    return ended is not None and ended.signal is not None and words.tells_end(said, ended.signal)


def _is_repeated(process: Process, said: str) -> bool:
    own = words.last_line(process.last_words).strip()
    return bool(own) and own in said


def _is_unheard(process: Process) -> bool:
    return process.exit is not None and process.exit.silenced is True


def _relevant_shut(story: Story) -> dict[str, str]:
    """The shut eyes that could have seen the cause. One that nothing came near does no harm."""
    shut = story.case.coverage.unseen()
    if "dns" in shut and len(shut) == 1 and not _asked_for_names(story):
        return {}
    return shut


def _asked_for_names(story: Story) -> bool:
    asked = any(event.port == _DNS_PORT for event in story.all(Connect))
    return asked or words.mentions(story.words(story.tree.root), NAME_ERRORS)
