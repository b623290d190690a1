"""Rules for connections that came to nothing and names that were not found."""

from __future__ import annotations

from collections.abc import Iterator

from probe.diagnose.case import Dismissal
from probe.diagnose.story import Story, Suspect
from probe.events import Connect, Dns

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
        elif isinstance(event, Dns) and event.rcode != "NOERROR":
            yield _name(story, event)


def _name(story: Story, event: Dns) -> Suspect | Dismissal:
    if _resolved_later(story, event):
        return Dismissal(event.id, f"{event.name} was found all the same")
    cause = _RCODES.get(event.rcode or "", "net.dns_failed")
    what, advice = _NAME_WORDS[cause]
    return Suspect(
        cause=cause,
        event=event,
        prior=0.85,
        summary=f"{story.who(event)} could not resolve {event.name}: the name server "
        f"{event.resolver} {what.format(rcode=event.rcode)}",
        advice=advice.format(name=event.name, resolver=event.resolver),
        mentions=(event.name.rstrip("."),),
        spellings=NAME_ERRORS,
    )


def _resolved_later(story: Story, event: Dns) -> bool:
    """The same name, or it with or without a search domain, or its other address family."""
    name = event.name.rstrip(".")
    for other in story.events:
        if isinstance(other, Dns) and other.rcode == "NOERROR":
            found = other.name.rstrip(".")
            if found == name or found.startswith(name + ".") or name.startswith(found + "."):
                return True
    return False


def _connect(story: Story, event: Connect) -> Suspect | Dismissal:
    reached = _reached_later(story, event)
    if reached is not None:
        return Dismissal(event.id, f"{peer(reached)} was reached afterwards")
    cause = _CAUSES[event.errno or ""]
    spellings: tuple[str, ...] = ()
    if event.port == _DNS_PORT and cause in ("net.refused", "net.unreachable"):
        cause, spellings = "net.dns_unreachable", NAME_ERRORS
    what, advice = _WORDS[cause]
    done = "lost its connection to" if event.in_use else "could not connect to"
    return Suspect(
        cause=cause,
        event=event,
        prior=0.85,
        summary=f"{story.who(event)} {done} {peer(event)}: {what} ({event.errno})",
        advice=advice.format(peer=peer(event), address=event.address),
        mentions=(peer(event), event.address),
        spellings=spellings,
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
    "enotfound",
    "eai_again",
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
