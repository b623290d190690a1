"""What is said of a suspect: by the process that met with it, and by those above."""

from __future__ import annotations

import itertools
import os
import re

from probe.causes import CAUSES
from probe.diagnose import faults, words
from probe.diagnose.carriers import Bearer
from probe.diagnose.story import Story, Suspect
from probe.diagnose.tree import Process

DEATHS = (
    *("killed", "SIGKILL", "SIGSYS", "SIGSEGV", "SIGABRT", "out of memory", "OOM", "137", "139"),
    *("-9", "-11", "-6", "died with", "segmentation", "aborted", "core dumped", "bad system call"),
    *("non-zero", "exit status", "signal", "terminated", "timed out", "timeout"),
)
# How those speak of a thing who name neither it nor its error.
_FIELDS = {
    "filesystem": "writ save create open read file folder director stor disk persist copy move "
    "rename remove delete load space",
    "network": "connect network fetch download request server reach host remote online resolv "
    "lookup address port",
    "process": "start spawn launch exec fork thread install command",
    "memory": "memory alloc heap shm shared",
    "syscalls": "permi denied privileg forbid allow kernel support sandbox restrict",
    "limits": "time long kill",
}
_OF_CALLS = (
    (re.compile(r"sock|connect|bind|listen|accept|send|recv"), "network"),
    (re.compile(r"clone|fork|exec|kill|wait|prio|sched|affinity"), "process"),
    (re.compile(r"mmap|brk|mem|mlock|shm"), "memory"),
    (
        re.compile(r"open|mkdir|rename|link|chmod|chown|stat|write|trunc|sync|utime|mk|dir|access"),
        "filesystem",
    ),
)


def account(story: Story, suspect: Suspect, borne: Bearer) -> str:
    """What the error output says of it."""
    voice = borne.process
    if words.passed_over(story.words_above(voice.pid), (*suspect.mentions, *_jobs(story, voice))):
        return "that it goes without"
    if borne.ground and _spoke_of_its_own(story, suspect):
        return "another fault"
    if _is_silenced(story, voice):
        return f"unheard, {_heard_instead(story, suspect, borne)}"
    said = story.words(voice.pid)
    if not said:
        return _silence(voice)
    spellings = _spellings(suspect)
    error_named = words.mentions(said, spellings)
    thing_named = any(words.names(said, thing) for thing in suspect.mentions)
    if error_named and words.only_warned(said, spellings):
        return "a warning"
    if thing_named and words.passed_over(said, suspect.mentions):
        return "that it goes without"
    overtaken = _overtaken(story, suspect, voice, said) if error_named else None
    if overtaken is not None:
        return overtaken
    if error_named:
        return "error and thing" if thing_named else "error"
    if _is_of_its_status(story, voice):
        return "its status"
    if faults.of_work(said):
        return "unheard, a lack" if borne.ground and borne.wanted else _fault(said)
    if faults.of_work(_unheard(voice)):
        return _fault(_unheard(voice))
    if thing_named:
        return "thing"
    if not suspect.insisted and words.timed_out(words.last_line(said)):
        return "that it waited"
    if _is_of_its_field(suspect, said):
        return "field"
    if story.left_it_to_others(voice):
        return "only others"
    return "something else" if words.is_specific(said) else "that it failed"


def _overtaken(story: Story, suspect: Suspect, voice: Process, said: str) -> str | None:
    """What else was told after its error, of which that was perhaps a note."""
    spellings = _spellings(suspect)
    if not _is_of_its_status(story, voice):
        if words.another_thrown(story.own_words(voice.pid), spellings):
            return "another fault thrown"
        if words.overtaken(said, spellings):
            return "error, then a lack" if words.nothing_came(said) else "another fault as well"
    if words.warned_at_last(said, spellings):
        return "a warning at last"
    own = words.told(voice.last_words)
    if was_thrown(story, suspect, voice):
        return None
    thrown = words.thrown_after(own, spellings, suspect.mentions)
    forestalled = words.forestalled(own, spellings, suspect.mentions)
    return "another fault as well" if thrown or forestalled else None


def _jobs(story: Story, process: Process) -> set[str]:
    """The names of the scripts that it is part of, as a driver calls them."""
    line = story.tree.ancestors(process.pid)[:-1]
    return {os.path.splitext(name)[0] for one in line for name in one.things if _JOB.search(name)}


_JOB = re.compile(r"\w{3,}\.(sh|py|js|rb|pl|php|mjs|ts)$")


def _spoke_of_its_own(story: Story, suspect: Suspect) -> bool:
    """A server that tells of a fault of its own served its client badly for that."""
    said = words.told(story.own_words(suspect.event.pid))
    return faults.of_work(said) and not _is_told_of(suspect, said)


def _silence(process: Process) -> str:
    """What was written for this work alone checks what it likes, and may say so by a status."""
    if not process.is_scripted:
        return "nothing"
    chosen = process.exit is not None and process.exit.code not in _OF_RUNTIMES
    return "nothing, by a status of its own" if chosen else "nothing, by a program of its own"


_OF_RUNTIMES = frozenset({None, 1, 255})  # of an error that nobody caught


def _unheard(process: Process) -> str:
    """What it wrote to stdout, where it wrote nothing to stderr: a test runner's report."""
    if process.exit is None or (process.exit.last_words or "").strip():
        return ""
    return words.told(process.exit.last_output or "")


def _heard_instead(story: Story, suspect: Suspect, borne: Bearer) -> str:
    """What those above say where its own words went to /dev/null."""
    voice = borne.process
    own = words.told(story.own_words(voice.pid))
    if faults.of_work(own) and not _is_told_of(suspect, own):
        return _fault(own)  # what nobody heard is true all the same
    said = story.words_above(voice.pid)
    if not said:
        return "nothing"
    if faults.of_work(said):
        return "a lack" if borne.wanted else _fault(said)
    if _is_told_of(suspect, said):
        return "it"
    if _is_of_its_field(suspect, said):
        return "field"
    return "something else" if words.is_specific(said) else "that it failed"


def heard_above(story: Story, suspect: Suspect) -> str:
    """What those above a process that was killed say: of its death, or of another fault."""
    said = story.words_above(suspect.event.pid)
    if not said:
        return "above said nothing"
    deaths = (*suspect.spellings, *DEATHS)
    plain = tuple(death for death in deaths if not death.lstrip("-").isdigit())
    # An assertion about its status is over its death.
    status = story.process(suspect.event).status
    of_status = bool(status) and words.tells_status(said, status or 0)
    if faults.of_work(said) and not words.mentions(said, plain):
        return "above said death" if of_status else f"above said {_fault(said)}"
    if not words.mentions(said, deaths):
        return f"above said {_fault(said) if faults.of_work(said) else 'something else'}"
    if words.only_warned(said, deaths):
        return "said that it goes without"
    overtaken = words.overtaken(said, plain) and not of_status
    return "said another fault as well" if overtaken else "above said death"


def above_spoke(story: Story, suspect: Suspect, borne: Bearer) -> str | None:
    """Of what the next process above ends with words of its own, where it is something else."""
    spellings = _spellings(suspect)
    for above in story.tree.ancestors(borne.process.pid)[1:]:
        own = words.told(above.last_words).strip()
        if not own:
            continue
        if _is_of_its_status(story, borne.process):
            return None
        if words.another_thrown(own, spellings) and not borne.wanted:
            return "above died of another fault"
        if words.only_warnings(own):
            return "above only warned"
        heard = words.mentions(own, spellings) or words.touches(own, _field(suspect))
        named = any(words.names(own, thing) for thing in suspect.mentions)
        if heard or named or words.mentions(own, DEATHS):
            return None
        specific = words.is_specific(own) or faults.of_work(own)
        return "above spoke of something else" if specific else None
    return None


def _is_of_its_status(story: Story, process: Process) -> bool:
    """Those above it tell of a fault of their own that is over its status."""
    status = process.status or 0
    lines = story.words_above(process.pid).splitlines() if status else []
    # "got: 3", "expected: 0"; but a 1 stands in many a line.
    height = 3 if status > 1 else 1
    return any(
        faults.of_work(line) and words.tells_status("\n".join(lines[at : at + height]), status)
        for at, line in enumerate(lines)
    )


def was_thrown(story: Story, suspect: Suspect, process: Process) -> bool:
    """The process died of an exception that names it."""
    own = words.told(story.own_words(process.pid))
    return words.is_thrown(own) and _is_told_of(suspect, words.last_line(own))


def was_told(story: Story, suspect: Suspect) -> bool:
    """The process itself ended with its error, whoever heard it."""
    return _is_told_of(suspect, words.last_line(words.told(story.own_words(suspect.event.pid))))


def told_above(story: Story, suspect: Suspect) -> bool:
    """Those above the process tell of it as well."""
    return _is_told_of(suspect, story.words_above(suspect.event.pid))


def was_ignored(story: Story, process: Process) -> bool:
    """Those above say that it does not matter: make's (ignored)."""
    for below, above in itertools.pairwise(story.tree.ancestors(process.pid)):
        said = above.last_words
        if words.ignored(said) and not (words.statuses(said) and _failed_last(story, below, above)):
            return True  # what it does not ignore is what it ends with
    return False


def _failed_last(story: Story, child: Process, parent: Process) -> bool:
    failed = (one for one in reversed(story.tree.children(parent.pid)) if one.failed)
    return next(failed, None) is child


def spoke_of_another(story: Story, suspect: Suspect, child: Process) -> bool:
    said = words.told(story.words_below(child.pid))
    return words.is_specific(said) and not _is_told_of(suspect, said)


def _is_told_of(suspect: Suspect, said: str) -> bool:
    return words.mentions(said, _spellings(suspect)) or any(
        words.names(said, thing) for thing in suspect.mentions
    )


def _fault(said: str) -> str:
    return "a lack" if words.nothing_came(said) else "another fault"


def _is_silenced(story: Story, process: Process) -> bool:
    """Whoever called it wanted to hear nothing of it; not where that is so of the whole test."""
    root = story.tree.process(story.tree.root).exit
    if root is not None and root.silenced:
        return False
    return process.exit is not None and process.exit.silenced is True


def _spellings(suspect: Suspect) -> tuple[str, ...]:
    """How its error may be put."""
    errno = getattr(suspect.event, "errno", None)
    return (*suspect.spellings, *(words.errno_spellings(errno) if errno else ()))


def _is_of_its_field(suspect: Suspect, said: str) -> bool:
    return words.mentions(said, suspect.domain) or words.touches(said, _field(suspect))


def _field(suspect: Suspect) -> tuple[str, ...]:
    """Beginnings of words of the part of the sandbox that it is about."""
    fields = [CAUSES[suspect.cause].primitive]
    syscall = getattr(suspect.event, "syscall", "")
    fields += [field for pattern, field in _OF_CALLS if syscall and pattern.search(syscall)]
    return tuple(word for field in fields for word in _FIELDS.get(field, "").split())
