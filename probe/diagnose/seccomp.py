"""Rules for syscalls that a seccomp filter refused."""

from __future__ import annotations

from collections.abc import Iterator

from probe.diagnose import faults, words
from probe.diagnose.case import Dismissal
from probe.diagnose.crashes import ACCIDENTS, GIVING_UP, YIELD_NOTHING
from probe.diagnose.fallbacks import is_harmless, substitutes
from probe.diagnose.story import Story, Suspect
from probe.events import UNKNOWN_CALL, Seccomp

_KILLS = frozenset({"kill_process", "kill_thread", "strict"})


def suspects(story: Story) -> Iterator[Suspect | Dismissal]:
    denials = story.worth_judging(Seccomp)
    proven = {
        _kind(event)
        for event in story.all(Seccomp)
        if _shrugged_off(event) and not _named(story, event)
    }
    for event in denials:
        yield _judge(story, event, proven)


def _kind(event: Seccomp) -> tuple[int, str, str | None]:
    return event.pid, event.syscall, event.errno


def _judge(
    story: Story, event: Seccomp, proven: set[tuple[int, str, str | None]]
) -> Suspect | Dismissal:
    if event.syscall == UNKNOWN_CALL:
        return _killed_for_something(story, event)
    killed = event.action in _KILLS or (event.action == "trap" and _died_by(story, event, _TRAPPED))
    crashed = _crashed_for_it(story, event)
    if not killed:
        reason = None if _named(story, event) else _shrugged_off(event)
        if reason is None and _kind(event) in proven:
            reason = "the same process did without it elsewhere"
        if reason is None and event.action == "trap" and not _named(story, event):
            reason = "the program's own handler of SIGSYS took it"
        if reason is not None:
            return Dismissal(event.id, reason)
    answer = f"answered {event.errno}" if event.errno else f"answered {event.action}"
    rule = f" ({event.filter})" if event.filter else ""
    about = ", ".join(words for words in (event.path, event.detail) if words)
    what = f" ({about})" if about else ""
    prior = 0.97 if killed else 0.85 if crashed else _prior(story, event)
    return Suspect(
        cause="seccomp.denied",
        event=event,
        prior=prior,
        summary=f"{story.who(event)} called {event.syscall}{what} "
        f"and the seccomp filter {answer}{rule}",
        advice=f"allow {event.syscall} in the sandbox's seccomp profile: "
        f'{{"names": ["{event.syscall}"], "action": "SCMP_ACT_ALLOW"}}',
        mentions=(event.syscall, *_short(event.syscall), *([event.path] if event.path else [])),
        spellings=("seccomp", "bad system call", *_IN_OTHER_WORDS.get(event.syscall, ())),
        silent=killed or crashed,
    )


def _short(syscall: str) -> list[str]:
    """What the thing is called that a call makes: pidfd of pidfd_open."""
    first = syscall.split("_")[0]
    return [first] if first != syscall and first.endswith(("fd", "notify", "landlock")) else []


def _killed_for_something(story: Story, event: Seccomp) -> Suspect:
    return Suspect(
        cause="seccomp.denied",
        event=event,
        prior=0.9,
        summary=f"the seccomp filter ended a thread of {story.who(event)} for a call that could "
        "not be seen",
        advice="learn which call it is on a kernel with BTF, or by SCMP_ACT_LOG for it in the "
        "sandbox's seccomp profile, and allow that",
        mentions=(),
        spellings=("seccomp", "bad system call"),
        silent=True,
    )


_NO_THREAD = ("native thread", "start new thread", "create thread", "cannot fork", "pthread_create")
_IN_OTHER_WORDS = dict.fromkeys(("clone", "clone3", "fork", "vfork"), _NO_THREAD)
_TRAPPED = frozenset({"SIGSYS"})
# What comes of these is used as an address, and touching a bad one is no fault of arithmetic.
_MAPS = frozenset({"mmap", "mmap2", "mremap", "shmat", "brk", "memfd_create", "io_uring_setup"})
_BAD_ADDRESSES = ACCIDENTS - {"SIGFPE"}
_AT_ONCE_NS = 200_000_000
_FEW_CALLS = 60
_MANY_CALLS = 500


def _died_by(story: Story, event: Seccomp, signals: frozenset[str]) -> bool:
    exit_event = story.process(event).exit
    return exit_event is not None and exit_event.signal in signals


def _crashed_for_it(story: Story, event: Seccomp) -> bool:
    crashes = GIVING_UP | _BAD_ADDRESSES if event.syscall in _MAPS else GIVING_UP
    own = story.own_words(event.pid)
    # An assertion may be over the refused call itself, but not over one that nobody needs.
    spoilt = (
        faults.of_memory(own)
        or faults.of_logic(own)
        or (_is_needless(event) and faults.of_work(own) and not words.names(own, event.syscall))
    )
    return _died_by(story, event, crashes) and _at_once(story, event) and not spoilt


def _is_needless(event: Seccomp) -> bool:
    return is_harmless(event) or event.syscall in YIELD_NOTHING


def _at_once(story: Story, event: Seccomp) -> bool:
    few = event.calls_after is None or event.calls_after < _FEW_CALLS
    return few and story.tree.end_ns(event.pid) - event.time_ns < _AT_ONCE_NS


def _named(story: Story, event: Seccomp) -> bool:
    said = story.words(event.pid)
    return words.names(said, event.syscall) or (
        event.errno is not None and words.says(said, event.errno)
    )


def _prior(story: Story, event: Seccomp) -> float:
    if is_harmless(event) and not (_named(story, event) and _at_once(story, event)):
        return 0.2
    # Callers ask for what a kernel may not have yet, and are ready for ENOSYS.
    prior = 0.7 if event.errno == "ENOSYS" else 0.85
    if event.calls_after is not None and event.calls_after > _MANY_CALLS:
        prior *= 0.7
    return prior


def _shrugged_off(event: Seccomp) -> str | None:
    """The substitute that the same thread used next, where it worked."""
    for call in event.next:
        name, _, result = call.partition("=")
        if name in substitutes(event.syscall) and not result.startswith("-"):
            return f"the thread used {name} instead and went on"
    return None
