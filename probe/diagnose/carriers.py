"""Who failed over a trouble in place of the process that met it, lived on, and handed it over."""

from __future__ import annotations

from probe.diagnose import words
from probe.diagnose.chain import SUFFERED
from probe.diagnose.story import Story, Suspect
from probe.diagnose.tree import Process
from probe.events import Event, File, Oom, Seccomp

# What everybody meets with, and gets over, is not among them.
_OF_SERVERS = frozenset({"EROFS", "ENOSPC", "EDQUOT", "EMFILE", "ENFILE", "EFBIG"})


def carrier(story: Story, suspect: Suspect) -> Process | None:
    """A worker tells the process that forked it; a server the client that it serves."""
    process = story.process(suspect.event)
    if isinstance(suspect.event, Oom):
        return _mourner(story, suspect.event, process)
    errno = getattr(suspect.event, "errno", None)
    if errno is None:
        return None
    served = client(story, suspect)
    if served is not None or process.failed:
        return served
    above = story.tree.processes.get(process.parent)
    if above is not None and not process.programs and _told_of(story, above, errno):
        return above
    heir = _heir(story, suspect.event, process)
    if heir is not None:
        return heir
    if not isinstance(suspect.event, File) or errno not in _OF_SERVERS:
        return None
    return next(
        (
            other
            for other in story.sufferers
            if other.born_ns <= suspect.event.time_ns <= other.end_ns
            and _told_of(story, other, errno)
            and not story.met_with(other.pid, errno)
        ),
        None,
    )


def client(story: Story, suspect: Suspect) -> Process | None:
    """Who failed while it was served by the process that met with it, and lived on."""
    if story.process(suspect.event).weight >= SUFFERED:
        return None
    return story.services.sufferer(suspect.event)


def bearer(story: Story, suspect: Suspect) -> Process:
    """Whose end and words count: of what a server met with, those of the client."""
    return client(story, suspect) or story.process(suspect.event)


def _heir(story: Story, event: Event, process: Process) -> Process | None:
    """Who failed later over what a process was kept from making and took no notice of."""
    if not process.unmade or not isinstance(event, (File, Seccomp)) or process.status != 0:
        return None
    return next(
        (
            other
            for other in story.sufferers
            if other.born_ns >= process.end_ns
            and not process.things.isdisjoint(other.wanted_after(process.end_ns))
        ),
        None,
    )


def _mourner(story: Story, event: Oom, victim: Process) -> Process | None:
    """Who failed over the death of a worker that was not its own child: a browser's page, which
    its zygote forked and got over."""
    if victim.weight >= SUFFERED:
        return None
    return next(
        (
            other
            for other in story.sufferers
            if other.born_ns <= event.time_ns <= other.end_ns
            and words.tells_of_a_death(story.own_words(other.pid))
        ),
        None,
    )


def _told_of(story: Story, process: Process, errno: str) -> bool:
    if not (process.failed and process.weight >= SUFFERED):
        return False
    said = story.own_words(process.pid)
    return words.says(said, errno) or (errno in _OF_SERVERS and words.could_not_write(said))
