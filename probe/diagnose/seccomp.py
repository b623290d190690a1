"""Rules for syscalls that a seccomp filter refused."""

from __future__ import annotations

from collections.abc import Iterator

from probe.diagnose.case import Dismissal
from probe.diagnose.fallbacks import HARMLESS, substitutes
from probe.diagnose.story import Story, Suspect
from probe.events import Seccomp

_KILLS = frozenset({"kill_process", "kill_thread", "strict"})


def suspects(story: Story) -> Iterator[Suspect | Dismissal]:
    for event in story.events:
        if isinstance(event, Seccomp):
            yield _judge(story, event)


def _judge(story: Story, event: Seccomp) -> Suspect | Dismissal:
    killed = event.action in _KILLS or (event.action == "trap" and _died_of_it(story, event))
    if not killed:
        reason = _shrugged_off(event)
        if reason is not None:
            return Dismissal(event.id, reason)
    answer = f"answered {event.errno}" if event.errno else f"answered {event.action}"
    rule = f" ({event.filter})" if event.filter else ""
    what = f" ({event.detail})" if event.detail else ""
    return Suspect(
        cause="seccomp.denied",
        event=event,
        prior=0.97 if killed else _prior(event),
        summary=f"{story.who(event)} called {event.syscall}{what} "
        f"and the seccomp filter {answer}{rule}",
        advice=f"allow {event.syscall} in the sandbox's seccomp profile: "
        f'{{"names": ["{event.syscall}"], "action": "SCMP_ACT_ALLOW"}}',
        mentions=(event.syscall, "seccomp", "bad system call"),
        silent=killed,
    )


def _died_of_it(story: Story, event: Seccomp) -> bool:
    exit_event = story.process(event).exit
    return exit_event is not None and exit_event.signal == "SIGSYS"


def _prior(event: Seccomp) -> float:
    if event.syscall in HARMLESS:
        return 0.2
    # Callers ask for what a kernel may not have yet, and are ready for ENOSYS.
    prior = 0.6 if event.errno == "ENOSYS" else 0.8
    if event.calls_after is not None and event.calls_after > 5000:
        prior *= 0.6
    return prior


def _shrugged_off(event: Seccomp) -> str | None:
    """The substitute that the same thread used next, where it worked."""
    for call in event.next:
        name, _, result = call.partition("=")
        if name in substitutes(event.syscall) and not result.startswith("-"):
            return f"the thread used {name} instead and went on"
    return None
