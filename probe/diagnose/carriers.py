"""Who failed over a trouble in place of the process that met it, lived on, and handed it over."""

from __future__ import annotations

from dataclasses import dataclass

from probe.diagnose import words
from probe.diagnose.story import Story, Suspect
from probe.diagnose.tree import SUFFERED, Process
from probe.events import Connect, Dns, Event, File, Oom, Seccomp

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
    borne = bearer(story, suspect)
    if borne.ground is not None:
        return borne.process
    if process.failed:
        return None
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


@dataclass(frozen=True, slots=True)
class Bearer:
    """Whose end and words count, and the ground that it is not who met with it (WEIGHTS)."""

    process: Process
    ground: str | None = None

    @property
    def wanted(self) -> bool:
        """What it complains of is what it was to be given."""
        return self.process.missed or self.ground == _FETCHED


_FETCHED = "met while it fetched"


def bearer(story: Story, suspect: Suspect) -> Bearer:
    """Of what a server met with, it is the client; of what a worker did, who had forked it; of
    what a program went to fetch, and ended well without, who looked into what it brought."""
    process = story.process(suspect.event)
    if process.weight < SUFFERED:
        client = story.services.sufferer(suspect.event)
        if client is not None:
            return Bearer(client, "met while it served")
        reader = _reader(story, suspect.event)
        if reader is not None:
            return Bearer(reader, _FETCHED)
    chief = _chief(story, process)
    return Bearer(chief, "met by a worker") if chief else Bearer(process)


def _reader(story: Story, event: Event) -> Process | None:
    """Who failed over what a program had brought that went there in vain, and ended well."""
    for fetcher in story.tree.ancestors(event.pid):
        if fetcher.status == 0 and _goes_there(fetcher, event):
            brought = story.flows.products(fetcher)
            later = (one for one in story.tree.failed if one.born_ns >= fetcher.end_ns)
            reader = next((one for one in later if one.wants(brought, fetcher.end_ns)), None)
            line = story.tree.ancestors(reader.pid) if reader is not None else []
            return next((one for one in line if one.suffers), None)
    return None


def _goes_there(process: Process, event: Event) -> bool:
    """Whether its command line names the address, or the name, that it did not reach."""
    line = " ".join(process.programs[-1].argv) if process.programs else ""
    if isinstance(event, Dns):
        return event.name.rstrip(".") in line
    if not isinstance(event, Connect):
        return False
    named = bool(event.address) and event.address in line
    return named or (event.is_local and f"localhost:{event.port}" in line)


def _chief(story: Story, worker: Process) -> Process | None:
    """Who failed, for no other child's failure, and had forked a worker that lived on.

    A shell goes by its children's statuses; what a pool's worker met with comes back as words.
    """
    above = story.tree.processes.get(worker.parent)
    if above is None or worker.programs or worker.failed or not above.suffers:
        return None
    pool = bool(above.programs) and not above.is_shell
    others = any(child.failed for child in story.tree.children(above.pid))
    return above if pool and not others else None


def _heir(story: Story, event: Event, process: Process) -> Process | None:
    """Who failed later over what a process was kept from making and took no notice of."""
    if not process.unmade or not isinstance(event, (File, Seccomp)) or process.status != 0:
        return None
    return next(
        (
            other
            for other in story.sufferers
            if other.born_ns >= process.end_ns
            and other.wants(process.things, process.end_ns)
            and not story.met_with_the_like(event, other)  # who was to make it as well
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
    if not process.suffers:
        return False
    said = story.own_words(process.pid)
    return words.says(said, errno) or (errno in _OF_SERVERS and words.could_not_write(said))
