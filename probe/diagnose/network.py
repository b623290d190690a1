"""Rules for connections that came to nothing."""

from __future__ import annotations

from collections.abc import Iterator

from probe.diagnose.case import Dismissal
from probe.diagnose.story import Story, Suspect
from probe.events import Connect

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


def suspects(story: Story) -> Iterator[Suspect | Dismissal]:
    for event in story.events:
        if isinstance(event, Connect) and event.errno in _CAUSES:
            yield _connect(story, event)


def _connect(story: Story, event: Connect) -> Suspect | Dismissal:
    reached = _reached_later(story, event)
    if reached is not None:
        return Dismissal(event.id, f"{peer(reached)} was reached afterwards")
    cause = _CAUSES[event.errno or ""]
    if event.port == _DNS_PORT and cause in ("net.refused", "net.unreachable"):
        cause = "net.dns_unreachable"
    what, advice = _WORDS[cause]
    return Suspect(
        cause=cause,
        event=event,
        prior=0.85,
        summary=f"{story.who(event)} could not connect to {peer(event)}: {what} ({event.errno})",
        advice=advice.format(peer=peer(event), address=event.address),
        mentions=(peer(event), event.address),
    )


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


def _reached_later(story: Story, event: Connect) -> Connect | None:
    """The same service, by the same process or one beside it, at this address or another."""
    for other in story.events:
        if (
            isinstance(other, Connect)
            and other.errno is None
            and not other.abandoned
            and other.time_ns > event.time_ns
            and other.port == event.port
            and (other.port is not None or other.address == event.address)
        ):
            return other
    return None


def peer(event: Connect) -> str:
    """The address and port, the way people write them."""
    if event.port is None:
        return event.address or "an unnamed socket"
    host = f"[{event.address}]" if event.family == "ipv6" else event.address
    return f"{host}:{event.port}"
