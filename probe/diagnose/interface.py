"""Rules for what stands between a client and the sandbox: MCP server, SDK, gateway.

They rest on digests that both ends took, and on what the client saw beside what the command did.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from probe.diagnose.case import Case, Finding
from probe.digest import AT_NUL, NUL_REMOVED, TRUNCATED, difference
from probe.exchange import PLACES, TIMEOUT, TRANSPORT, Transfer
from probe.span import Span

# What many an interface does on purpose, and few programs mind.
_SLIGHT = frozenset(
    {
        "the last newline removed",
        "white space at the ends removed",
        "a newline added",
    }
)
_SURE, _UNSURE = 0.97, 0.6
_ADVICE = {
    "interface.corrupted": "hand {name} on as bytes from end to end (base64 where the protocol is "
    "text): what is between the {sender} and the {receiver} changes it",
    "interface.truncated": "raise the limit on {name} between the {sender} and the {receiver}, or "
    "hand it on in pieces",
    "interface.null_byte": "hand {name} on with its length (base64 where the protocol is text): "
    "what is between the {sender} and the {receiver} takes NUL for its end",
}


def verdict(case: Case) -> Finding | None:
    """Where the interface did it; None where nothing says so."""
    exchange = case.exchange
    if exchange is None:
        return None
    damaged = [one for one in map(_damage, _hops(exchange.transfers)) if one is not None]
    if damaged:
        return max(damaged, key=lambda finding: finding.confidence)
    return _abandoned(case) if exchange.error is not None else None


Hop = tuple[Transfer, Transfer]


def _hops(transfers: tuple[Transfer, ...]) -> Iterator[Hop]:
    """Each transfer with the next place on its way, in the order of the way."""
    by_name: dict[tuple[str, bool], dict[str, Transfer]] = {}
    for one in transfers:
        by_name.setdefault((one.name, one.outward), {})[one.at] = one
    for (_, outward), places in by_name.items():
        way = [places[at] for at in PLACES if at in places]
        if outward:
            way.reverse()
        yield from itertools.pairwise(way)


def _damage(hop: Hop) -> Finding | None:
    sent, received = hop
    how = difference(sent.digest, received.digest)
    if how is None:
        return None
    if how.startswith(TRUNCATED):
        cause = "interface.truncated"
    elif how.startswith((AT_NUL, NUL_REMOVED)):
        cause = "interface.null_byte"
    else:
        cause = "interface.corrupted"
    fields = {"name": sent.name, "sender": sent.at, "receiver": received.at}
    return Finding(
        cause,
        _UNSURE if how in _SLIGHT else _SURE,
        f"{sent.name} changed on its way from the {sent.at} to the {received.at}: {how} "
        f"({sent.digest.length} bytes were sent, {received.digest.length} came)",
        _ADVICE[cause].format(**fields),
    )


def _abandoned(case: Case) -> Finding | None:
    """The client saw an error in place of an answer. What did the command do?"""
    span, error = case.span, case.exchange.error if case.exchange else None
    if error == TIMEOUT and (span.exit_code == 0 or _worked_on(span)):
        return Finding(
            "interface.timeout",
            0.9,
            f"the client gave up while the sandbox was at work: the command {_what_became(span)}",
            "let the client wait longer than the work takes, or have the server answer at once "
            "and be asked for the result",
            _last(case),
        )
    if error == TRANSPORT and span.exit_code == 0:
        return Finding(
            "interface.error",
            0.93,
            "the client saw an error of the transport, and the command in the sandbox ended well",
            "see the log of what stands between them; send the call again where that does no harm",
            _last(case),
        )
    return None


def _worked_on(span: Span) -> bool:
    return span.ended_ns is None and span.exit_code is None and span.signal is None


def _what_became(span: Span) -> str:
    if span.exit_code == 0:
        return f"ended well after {span.duration_s or 0:.1f} s"
    return "had not ended yet"


def _last(case: Case) -> tuple[str, ...]:
    return tuple(event.id for event in case.events[-1:])
