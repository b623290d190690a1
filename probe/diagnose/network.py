"""Rules for connections that came to nothing and names that were not found."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator

from probe.diagnose import words
from probe.diagnose.case import Dismissal
from probe.diagnose.story import Story, Suspect
from probe.events import Connect, Dns, Exit

_CAUSES = {
    "ECONNREFUSED": "net.refused",
    "ENETUNREACH": "net.unreachable",
    "EHOSTUNREACH": "net.unreachable",
    "ENETDOWN": "net.unreachable",
    "EPERM": "net.denied",
    "EACCES": "net.denied",
    "ETIMEDOUT": "net.timeout",
    "ECONNRESET": "net.reset",
    "EAFNOSUPPORT": "net.family_unsupported",
    "EADDRNOTAVAIL": "net.family_unsupported",
}
_DNS_PORT = 53


class Attempts:
    """A span's connections at a glance: how often each failed alike, and the last ones made."""

    def __init__(self, connects: list[Connect]) -> None:
        self._alike: Counter[tuple[object, ...]] = Counter()
        self._made: dict[object, Connect] = {}  # by service, and by process
        for event in connects:
            if _was_reached(event):
                self._made[_service(event)] = self._made[event.pid] = event
            else:
                self._alike[_kind(event)] += event.count

    def like(self, event: Connect) -> int:
        return self._alike[_kind(event)]

    def reached_later(self, event: Connect) -> Connect | None:
        """The same service, by the same process or one beside it, here or at another address."""
        return self._later(_service(event), event)

    def went_elsewhere(self, event: Connect) -> bool:
        """Whether the same process made another connection afterwards."""
        return self._later(event.pid, event) is not None

    def _later(self, key: object, event: Connect) -> Connect | None:
        made = self._made.get(key)
        return made if made is not None and made.time_ns > event.time_ns else None


def _service(event: Connect) -> tuple[str, object]:
    return ("port", event.port) if event.port is not None else ("path", event.address)


def _kind(event: Connect) -> tuple[object, ...]:
    return event.address, event.port, event.errno


def suspects(story: Story) -> Iterator[Suspect | Dismissal]:
    attempts = Attempts(story.all(Connect))
    for event in story.worth_judging(Connect, unless=_was_reached):
        if event.errno == "ECONNRESET" and not event.address:
            yield Dismissal(event.id, "the process at the other end of a socketpair(2) had ended")
        elif _came_to_nothing(story, event):
            yield _connect(story, event, attempts)
    for process in story.dead_services:
        if process.exit is not None and not process.exit.code:
            yield _crashed(story, process.exit)
    for query in story.worth_judging(Dns, unless=lambda query: query.rcode == "NOERROR"):
        yield _name(story, query)


def _crashed(story: Story, ended: Exit) -> Suspect:
    """The service itself belongs to the work, and went down by its own fault."""
    return Suspect(
        cause="workload.crashed",
        event=ended,
        prior=0.95,
        summary=f"{story.who(ended)}, which others were connected to, crashed with "
        f"{ended.signal} of its own making",
        advice="debug that program: nothing in the sandbox stood in its way",
        silent=True,
    )


def _was_reached(event: Connect) -> bool:
    return event.errno is None and not event.abandoned


def _came_to_nothing(story: Story, event: Connect) -> bool:
    if event.errno == "ENOENT":
        return _socket_missed(story, event)
    return event.errno in _CAUSES or bool(event.abandoned)


def _name(story: Story, event: Dns) -> Suspect | Dismissal:
    if _resolved_later(story, event):
        return Dismissal(event.id, f"{event.name} was found all the same")
    cause = _RCODES.get(event.rcode or "", "net.dns_failed")
    what, advice = _NAME_WORDS[cause]
    waited = not event.rcode and _was_killed(story, event)
    return Suspect(
        cause=cause,
        event=event,
        prior=0.97 if waited else 0.85,
        summary=f"{story.who(event)} could not resolve {event.name}: the name server "
        f"{event.resolver} {what.format(rcode=event.rcode)}",
        advice=advice.format(name=event.name, resolver=event.resolver),
        mentions=(event.name.rstrip("."),),
        spellings=NAME_ERRORS,
    )


# Sockets of services that the C library and others ask for everywhere and do without.
_SOUGHT_BY_ALL = re.compile(r"/nscd/|/systemd/|/dbus/|/pulse/|X11-unix|/dev/log|avahi|/sssd/")


def _socket_missed(story: Story, event: Connect) -> bool:
    """A socket that is not there, and that somebody misses."""
    said = story.words(event.pid)
    if words.names(said, event.address):
        return True
    if _SOUGHT_BY_ALL.search(event.address):
        return False
    return words.names(said, os.path.basename(event.address)) or words.mentions(said, _DOMAIN)


def _resolved_later(story: Story, event: Dns) -> bool:
    """The same name, or it with or without a search domain, or its other address family."""
    name = event.name.rstrip(".")
    for other in story.all(Dns):
        if other.rcode == "NOERROR":
            found = other.name.rstrip(".")
            if found == name or found.startswith(name + ".") or name.startswith(found + "."):
                return True
    return False


def _connect(story: Story, event: Connect, attempts: Attempts) -> Suspect | Dismissal:
    reached = attempts.reached_later(event)
    if reached is not None:
        return Dismissal(event.id, f"{peer(reached)} was reached afterwards")
    cause = "net.timeout" if event.errno is None else _CAUSES.get(event.errno, "net.refused")
    waited = event.abandoned and story.process(event).exit is not None and _was_killed(story, event)
    spellings: tuple[str, ...] = _TIMEOUTS if cause == "net.timeout" else ()
    if event.port == _DNS_PORT and cause in ("net.refused", "net.unreachable"):
        cause, spellings = "net.dns_unreachable", NAME_ERRORS
    what, advice = _WORDS[cause]
    if event.is_local and event.errno == "ENETUNREACH":
        what, advice = "the loopback interface is down", "bring it up: ip link set lo up"
    done = "lost its connection to" if event.in_use else "could not connect to"
    if event.protocol == "datagram":
        done = "could not send to"
    way = f"; {event.route}" if event.route else ""
    how = event.errno or f"given up after {event.duration_s or 0:.1f} s"
    return Suspect(
        cause=cause,
        event=event,
        prior=0.97 if waited else _prior(event, attempts),
        summary=f"{story.who(event)} {done} {peer(event)}: {what} ({how}{way})",
        advice=advice.format(peer=peer(event), address=event.address),
        mentions=(peer(event), event.address),
        spellings=spellings,
        domain=_DOMAIN,
        silent=bool(waited),
    )


def _was_killed(story: Story, event: Connect | Dns) -> bool:
    ended = story.process(event).exit
    return ended is not None and ended.signal in ("SIGKILL", "SIGTERM", "SIGINT")


_TIMEOUTS = ("timed out", "timeout", "time-out", "ETIMEDOUT")
_DOMAIN = (
    *("connect", "database", "server", "backend", "unavailable", "unreachable", "is down"),
    *("giving up", "gave up", "no answer", "socket", "network", "upstream"),
)
_NEEDED = 3  # attempts of the same thing: who tries so often does not go without


def _prior(event: Connect, attempts: Attempts) -> float:
    if event.abandoned and (event.duration_s or 0) < 0.05:
        return 0.3  # a race that another address won, or a program in a hurry
    if attempts.like(event) >= _NEEDED:
        return 0.97
    return 0.5 if attempts.went_elsewhere(event) else 0.85


_WORDS = {
    "net.refused": (
        "nothing listens there",
        "start the service at {peer} before the work needs it, or point the work elsewhere",
    ),
    "net.unreachable": (
        "the sandbox has no route to it",
        "give the sandbox a network with a route to {address}, or do without that address",
    ),
    "net.denied": (
        "a local firewall or policy forbids it",
        "allow {peer} in the sandbox's network policy",
    ),
    "net.timeout": ("no answer came", "let {peer} through, or see whether it is up"),
    "net.reset": ("the peer reset the connection", "see the log of what listens at {peer}"),
    "net.family_unsupported": (
        "this address family is not available in the sandbox",
        "enable it in the sandbox, or use an address of the other family",
    ),
    "net.dns_unreachable": (
        "the name server cannot be reached, so no name can be resolved",
        "give the sandbox a resolver that answers (/etc/resolv.conf), now {peer}",
    ),
}


_RCODES = {"": "net.dns_unreachable", "NXDOMAIN": "net.dns_not_found"}
NAME_ERRORS = (
    "name or service not known",
    "name resolution",
    "resolve host",
    "no address associated",
    "nodename nor servname",
    "no such host",
    "unknownhost",
    "getaddrinfo",
    "gaierror",
    "ENOTFOUND",
    "EAI_AGAIN",
)
_NAME_WORDS = {
    "net.dns_not_found": (
        "says that there is no such name",
        "mend the name, or use a name server that knows {name}, now {resolver}",
    ),
    "net.dns_failed": (
        "answered {rcode}",
        "see why {resolver} fails for {name}, or use another name server",
    ),
    "net.dns_unreachable": (
        "did not answer",
        "give the sandbox a resolver that answers (/etc/resolv.conf), now {resolver}",
    ),
}


def peer(event: Connect) -> str:
    """The address and port, the way people write them."""
    if event.port is None:
        return event.address or "an unnamed socket"
    host = f"[{event.address}]" if ":" in event.address else event.address
    return f"{host}:{event.port}"
