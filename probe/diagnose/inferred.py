"""What is left to infer where an engine sees no refusals: from statuses, signals and states.

Each is as sure as its evidence allows (`most`): a status is a convention, a signal may have
been sent by anybody. Where refusals are seen, the other rules know better.
"""

from __future__ import annotations

from collections.abc import Iterator

from probe.diagnose.crashes import ACCIDENTS, CRASHES
from probe.diagnose.memory import size
from probe.diagnose.story import Story, Suspect
from probe.diagnose.tree import Process
from probe.events import Event, Exit, Limit, Oom, Seccomp

_NOT_FOUND, _NOT_STARTED, _TIMED_OUT = 127, 126, 124
# Those that say by these statuses that they could not start a program (env(1), POSIX sh).
_STARTERS = frozenset(
    {
        *("sh", "bash", "dash", "ash", "ksh", "zsh", "busybox", "env", "xargs", "nohup", "nice"),
        *("timeout", "stdbuf", "setsid", "setpriv", "sudo", "chroot", "unshare"),
    }
)
_OWN_LIMITS = {
    "SIGXCPU": ("limit.cpu_time", "its CPU time is used up (RLIMIT_CPU)", "raise ulimit -t"),
    "SIGXFSZ": ("fs.file_size_limit", "a file grew beyond RLIMIT_FSIZE", "raise ulimit -f"),
}
_FROM_OUTSIDE = frozenset({"SIGKILL", "SIGTERM"})
# A program that was refused something may as well abort, or use what it did not get.
_CRASH_MOST = {"SIGFPE": 0.9, "SIGSEGV": 0.6}
_NEVER_BEGAN = 0.7
_DOUBT = 0.5  # an alternative to not knowing, no more


def suspects(story: Story) -> Iterator[Suspect]:
    if not story.case.coverage.only_looks:
        return
    explained = {event.pid for event in (*story.all(Oom), *story.all(Seccomp))}
    for event in story.worth_judging(Exit, unless=lambda event: event.code == 0):
        if event.pid not in explained:
            yield from _ended(story, event)
    for filled in story.worth_judging(Limit):
        suspect = _full(story, filled)
        if suspect is not None:
            yield suspect


def _ended(story: Story, event: Exit) -> Iterator[Suspect]:
    process = story.process(event)
    if event.signal == "SIGSYS":
        yield _suspect(
            story,
            event,
            "seccomp.denied",
            0.85,
            "was ended by SIGSYS, as seccomp filters do; by which call was not seen",
            "see the kernel log for the syscall (type=1326), and allow it in the profile",
        )
    elif event.signal in _OWN_LIMITS:
        cause, what, advice = _OWN_LIMITS[event.signal]
        yield _suspect(story, event, cause, 0.9, f"was ended by {event.signal}: {what}", advice)
    elif event.signal in CRASHES:
        most = _CRASH_MOST.get(event.signal, _DOUBT)
        ill = "crashed with" if event.signal in ACCIDENTS else "gave up with"
        yield _suspect(
            story,
            event,
            "workload.crashed",
            most,
            f"{ill} {event.signal}; whether it was refused something before was not seen",
            "debug the program; if nothing is wrong with it, watch it with more rights",
        )
    elif event.signal in _FROM_OUTSIDE and event.pid == story.tree.root:
        yield _suspect(
            story,
            event,
            "limit.killed",
            _DOUBT,
            f"was ended by {event.signal}; from whom was not seen",
            "give it more time, or find out who ended it",
        )
    elif event.code == _TIMED_OUT and story.name(process) == "timeout":
        yield _suspect(
            story,
            event,
            "limit.killed",
            0.8,
            "ended what it had started, because its time was over (status 124)",
            "give it more time, or find out what it was waiting for",
        )
    elif event.code in (_NOT_FOUND, _NOT_STARTED):
        yield from _not_started(story, event, process)


def _not_started(story: Story, event: Exit, process: Process) -> Iterator[Suspect]:
    """By the status alone: 127 for a program that is not there, 126 for one that is."""
    became_nothing = story.case.coverage.attribution == "exact" and not process.programs
    if any(child.status == event.code for child in story.tree.children(event.pid)):
        return  # it hands on what another one said
    if not became_nothing and story.name(process) not in _STARTERS:
        return
    root = event.pid == story.tree.root
    above = story.tree.processes.get(process.parent)
    by_shell = root or (above is not None and story.name(above) in _STARTERS)
    # A shell says it of an unset variable too, a loader of a library, a spawn of any error.
    sure = _NEVER_BEGAN if became_nothing and by_shell else _DOUBT
    by = "no program" if became_nothing else "a program that it starts"
    missing = event.code == _NOT_FOUND
    command = story.case.span.command
    if became_nothing and root and command:
        by = command[0]
    yield _suspect(
        story,
        event,
        "exec.not_found" if missing else "exec.permission",
        sure if missing else _DOUBT,
        f"ended with {event.code}, which says that {by} "
        + ("was found" if by == "no program" else "was not found" if missing else "was refused"),
        "see the error output for the name, and put that program into the sandbox image"
        if missing
        else "see the error output for the name; chmod +x it, or start it by its interpreter",
    )


def _full(story: Story, event: Limit) -> Suspect | None:
    of, _, mount = event.limit.partition(" of ")
    if not mount or of not in ("space", "inodes"):
        return None
    shared = mount == "/dev/shm"
    cause = "fs.no_inodes" if of == "inodes" else "memory.shm_full" if shared else "fs.no_space"
    what = f"{event.value} inodes" if of == "inodes" else size(event.value or 0)
    return _suspect(
        story,
        event,
        cause,
        0.7,
        f"failed when the file system at {mount} ({what}) had become full",
        f"make {mount} larger, or clean it up",
    )


def _suspect(
    story: Story, event: Event, cause: str, most: float, what: str, advice: str
) -> Suspect:
    return Suspect(
        cause=cause,
        event=event,
        prior=most,
        summary=f"{story.who(event)} {what}",
        advice=advice,
        silent=True,
        most=most,
    )
