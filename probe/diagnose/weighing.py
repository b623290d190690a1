"""How sure it is that a suspect is the cause: what speaks for and against it, weighed.

What there is to say of a suspect is a handful of grounds. Their weights are data
(probe.diagnose.weights), fitted on scenarios whose cause is known (bench.calibration),
so that of the verdicts given with 0.9 nine in ten are right.
"""

from __future__ import annotations

import itertools
import math
import os

from probe.diagnose import hearing
from probe.diagnose.background import SIGNIFICANT, feature_of
from probe.diagnose.carriers import Bearer, bearer, carrier
from probe.diagnose.crashes import ACCIDENTS, GIVING_UP
from probe.diagnose.fallbacks import is_keepsake, is_probing, known
from probe.diagnose.story import Story, Suspect
from probe.diagnose.tree import Process
from probe.diagnose.weights import WEIGHTS
from probe.events import Event, File, Seccomp

Grounds = dict[str, float]

MOST = 0.99
_MS = 1_000_000
_LEAST_WEIGHT = 0.02
_SEVERAL = 2
_DEAF, _DOUBT, _SURE_CHAIN = 0.8, 0.5, 0.6


def weigh(grounds: Grounds) -> float:
    """The log-odds that it is the cause."""
    return sum(WEIGHTS.get(name, 0.0) * value for name, value in grounds.items())


def at_most(score: float, share: float) -> float:
    """The log-odds, bounded by those of a share."""
    return score if share >= 1 else min(score, math.log(share / (1 - share)))


def ceiling(story: Story, suspect: Suspect) -> float:
    """Nobody is as sure who did not hear what was said of it, or by those above it."""
    if not story.case.coverage.only_looks:
        return suspect.most
    if story.process(suspect.event).weight < _SURE_CHAIN:
        return min(suspect.most, _DOUBT)
    return suspect.most if suspect.silent else min(suspect.most, _DEAF)


def confidence(score: float) -> float:
    """Between 0 and MOST."""
    return min(MOST, 1 / (1 + math.exp(-max(-30.0, min(30.0, score)))))


def grounds(story: Story, suspect: Suspect) -> Grounds:
    """What speaks for and against it. The names are keys of WEIGHTS."""
    borne = bearer(story, suspect)
    beside = _beside(story, suspect, borne.process)
    found: Grounds = {"always": 1.0, "prior": _log_odds(suspect.prior)}
    found |= _place(story, suspect, borne)
    found |= _elsewhere(story, suspect)
    found |= _afterwards(story, suspect, borne.process)
    if hearing.was_ignored(story, borne.process):
        found["those above ignored it"] = 1.0
    if story.case.coverage.only_looks:  # that nothing was heard says nothing
        return found | ({beside: 1.0} if beside else {})
    if suspect.silent:
        found[hearing.heard_above(story, suspect)] = 1.0
        return found | ({beside: 1.0} if beside else {})
    turn = _turn(story, suspect, borne.process)
    if turn is not None:
        found[turn] = 1.0
    found |= _words(story, suspect, borne, beside or turn)
    found[f"ended {_lag(story, suspect.event, borne.process)}"] = 1.0
    return found | _call(story, suspect, found)


def _place(story: Story, suspect: Suspect, borne: Bearer) -> Grounds:
    """Whose failure it is, and what became of that further up."""
    process = borne.process
    carried_by = None if borne.ground else carrier(story, suspect)
    weight = carried_by.weight if carried_by is not None else process.weight
    found: Grounds = {"chain": math.log(max(_LEAST_WEIGHT, weight))}
    if borne.ground:
        found[borne.ground] = 1.0
    if carried_by is not None:
        found["carried up"] = 1.0
    found[_handed_on(story, process)] = 1.0
    if any(one.missed for one in story.tree.ancestors(process.pid)):
        found["what it was to make was missed"] = 1.0
    spoke = hearing.above_spoke(story, suspect, borne)
    if spoke is not None:
        went_on = story.started_well_above(process) >= _SEVERAL
        found[f"{spoke}, after more" if went_on else spoke] = 1.0
    if story.did_no_harm_elsewhere(suspect.event):
        found["did no harm to others"] = 1.0
    if carried_by is None and story.did_no_harm_to_its_twin(suspect.event):
        found["did no harm to its twin"] = 1.0
    return found


def _afterwards(story: Story, suspect: Suspect, process: Process) -> Grounds:
    """What was done next, by the process and by those above it."""
    found: Grounds = {}
    if getattr(suspect.event, "syscall", "") in _REMOVING:
        found["was tidying up"] = 1.0
    if suspect.cause == "fs.missing" and is_probing(story.command_lines(suspect.event.pid)):
        found["a probe of configure"] = 1.0
    went_on = story.started_well_after(suspect.event)
    if went_on:
        found["went on to other programs"] = math.log2(1 + went_on)
    above = story.started_well_above(process)
    if above:
        found["those above went on to other programs"] = math.log2(1 + above)
    if suspect.went_on:
        found["looked for others later"] = 1.0
    return found


def _words(story: Story, suspect: Suspect, borne: Bearer, beside: str | None) -> Grounds:
    """What was said of it. Where another had the status that counts, `beside` it or later, and
    nobody above tells of this one, its words are of no account."""
    said = hearing.account(story, suspect, borne)
    found: Grounds = {}
    if beside in _HAD_THE_STATUS and said in _TOLD and not hearing.told_above(story, suspect):
        said = "it, and another had the status"
    elif beside is not None:
        found[beside] = 1.0
    found[f"said {said}"] = 1.0
    if hearing.was_thrown(story, suspect, borne.process):
        found["was thrown"] = 1.0
    return found


_HAD_THE_STATUS = frozenset(
    {"another gave the status", "one beside gave the status", "an earlier one had the status"}
    | {"another failed later", "another had failed before"}
    | {"a child failed later", "a child failed later of something else"}
    | {"a child failed later by a fault of its own"}
)
_TOLD = ("error", "error and thing", "thing")


def _call(story: Story, suspect: Suspect, known_so_far: Grounds) -> Grounds:
    """What kind of call it was, and what is known of it."""
    event, found = suspect.event, Grounds()
    fate = _known_fate(suspect)
    if fate is not None:
        told = any(name.startswith("said error") for name in known_so_far)
        told = fate == "harmless" and (told or hearing.was_told(story, suspect))
        found[f"known as {fate}{', yet told' if told else ''}"] = 1.0
    if not isinstance(event, Seccomp):
        return found
    found[f"after {_calls_after(event)}"] = 1.0
    if event.errno == "ENOSYS":
        found["not there yet"] = 1.0  # callers are ready for kernels without it
    if _went_on_to_another(story, event):
        found["another denial came later"] = 1.0
    return found


def _known_fate(suspect: Suspect) -> str | None:
    """What callers are known to make of it."""
    event = suspect.event
    if not isinstance(event, (File, Seccomp)):
        return None
    if event.path and is_keepsake(os.path.join(getattr(event, "cwd", None) or "", event.path)):
        return "harmless"
    pattern = known(event) if isinstance(event, Seccomp) else None
    return None if pattern is None else "harmless" if pattern.harmless else "fatal"


def _went_on_to_another(story: Story, event: Seccomp) -> bool:
    """The process got as far as another call, which was refused in the same way."""
    denials = story.last_denials.get((event.pid, event.errno), {})
    return any(
        time_ns > event.time_ns for syscall, time_ns in denials.items() if syscall != event.syscall
    )


_REMOVING = frozenset({"unlink", "unlinkat", "rmdir"})


def _elsewhere(story: Story, suspect: Suspect) -> Grounds:
    """Whether the run's other tests show the like: those that passed, or those that failed."""
    run, feature = story.case.background, feature_of(suspect.event)
    if run is None or feature is None:
        return {}
    share = run.share_of_passing(feature)
    if share:
        return {"passing tests show it": share}
    return {"failing tests alone show it": 1.0} if run.chance(feature) < SIGNIFICANT else {}


def _beside(story: Story, suspect: Suspect, process: Process) -> str | None:
    """Whether another child of the same parent failed, and gave it the status or its words: of
    something else, which those that met with the like did not."""
    line = story.tree.ancestors(process.pid)
    for below, above in itertools.pairwise(line):
        statuses = story.passed_on(above.pid)
        if (
            below.failed
            and below not in story.dead_services
            and (below.status not in statuses or above.status not in statuses)
        ):
            rivals = _rivals(story, suspect.event, below, above)
            if any(other.born_ns > below.end_ns for other in rivals):
                return "another gave the status"
            if any(other.end_ns > below.born_ns for other in rivals):
                return "one beside gave the status"
            if rivals:
                return "an earlier one had the status"
        for other in story.faulty_children(above.pid):
            if other is not below and not story.met_with_the_like(suspect.event, other):
                return f"another {_when(other, below)}"
    return None


def _when(other: Process, one: Process) -> str:
    if other.end_ns <= one.born_ns:
        return "had failed before"
    return "failed later" if other.born_ns >= one.end_ns else "failed beside"


def _rivals(story: Story, event: Event, below: Process, above: Process) -> list[Process]:
    """Those with the status that became the parent's, which did more than tell of a failure, did
    not fail for the want of what the other one was to make, nor met with the like."""
    return [
        other
        for other in story.children_like(above.pid)
        if other is not below
        and not story.tree.only_reports(other)
        and not story.flows.wanted(below, other)
        and not story.met_with_the_like(event, other)
        and not _were_ended_together(other, above)
    ]


def _were_ended_together(process: Process, above: Process) -> bool:
    ends = process.exit, above.exit
    signals = {end.signal for end in ends if end is not None}
    return len(signals) == 1 and None not in signals and None not in ends


def _log_odds(share: float) -> float:
    share = min(0.99, max(0.01, share))
    return math.log(share / (1 - share))


def _handed_on(story: Story, process: Process) -> str:
    """Whether the process's status became that of the whole."""
    root = story.tree.process(story.tree.root)
    if process.pid == root.pid:
        return "its own end"
    if process.status is None or root.status is None:
        return "no status"
    return "its status was handed on" if process.status == root.status else "another status"


def _lag(story: Story, event: Event, process: Process) -> str:
    """How long after it the process ended."""
    lag_ms = (story.tree.end_ns(process.pid) - event.time_ns) / _MS
    for limit_ms, name in ((100, "at once"), (500, "soon"), (2000, "later"), (10_000, "late")):
        if lag_ms < limit_ms:
            return name
    return "long after"


def _turn(story: Story, suspect: Suspect, process: Process) -> str | None:
    """Whether the process came to its end through something else, after the event."""
    event = suspect.event
    if process.exit is None or event is process.exit:
        return None
    if process.exit.signal == "SIGFPE":
        return "divided by zero"
    if process.exit.signal in ACCIDENTS:
        return "crashed"
    if process.exit.signal in GIVING_UP:
        return "gave up"
    later = [
        child
        for child in story.tree.children(process.pid)
        if child.failed and child.end_ns > event.time_ns
    ]
    if later and any(process in story.tree.ancestors(one.pid)[1:] for one in story.crashed):
        return "a child failed later by a fault of its own"
    statuses = story.passed_on(process.pid)
    heirs = [child for child in later if child.status in statuses]
    if heirs and story.faulty_children(process.pid):
        return "a child failed later by a fault of its own"
    if any(hearing.spoke_of_another(story, suspect, child) for child in heirs):
        return "a child failed later of something else"
    return "a child failed later" if heirs else None


def _calls_after(event: Seccomp) -> str:
    """How many calls the thread made after the denial."""
    if event.calls_after is None:
        return "unknown"
    for limit, name in ((20, "few"), (100, "some"), (500, "many")):
        if event.calls_after < limit:
            return name
    return "very many"
