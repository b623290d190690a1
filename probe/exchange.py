"""What went through the interface in front of a sandbox: between a client and a command.

Each end takes digests of what it sends and what it gets. The collector lays those of one call
beside each other; where they part, the interface did it.
"""

from __future__ import annotations

from dataclasses import dataclass

from probe.digest import Digest, digest_from
from probe.events import JsonObject

CLIENT, SERVER, SANDBOX = "client", "server", "sandbox"
PLACES = (CLIENT, SERVER, SANDBOX)
TIMEOUT, TRANSPORT = "timeout", "transport"
ERRORS = (TIMEOUT, TRANSPORT)
TRANSFERS_MAX = 64  # of one call
_NAME_MAX = 256


@dataclass(frozen=True, slots=True)
class Transfer:
    """Bytes as one place had them. `outward`: from the sandbox to the client."""

    name: str  # the argument or the result: "code", "content", "stdout"
    at: str
    outward: bool
    digest: Digest

    def as_json(self) -> JsonObject:
        return {
            "name": self.name,
            "at": self.at,
            "outward": self.outward,
            "digest": self.digest.as_json(),
        }


def transfer_from(told: JsonObject) -> Transfer:
    """ValueError where it is none."""
    if not isinstance(told, dict) or told.get("at") not in PLACES:
        raise ValueError(f"a transfer is at one of {', '.join(PLACES)}")
    name, outward = told.get("name"), told.get("outward", False)
    if not isinstance(name, str) or len(name) > _NAME_MAX or not isinstance(outward, bool):
        raise ValueError("a transfer has a (short) name, and is outward or not")
    return Transfer(name, told["at"], outward, digest_from(told.get("digest", {})))


def transfers_from(told: object) -> tuple[Transfer, ...]:
    """ValueError where they are none, or too many."""
    if not isinstance(told, list) or len(told) > TRANSFERS_MAX:
        raise ValueError(f"transfers are a list of at most {TRANSFERS_MAX}")
    return tuple(map(transfer_from, told))


@dataclass(frozen=True, slots=True)
class Exchange:
    """One call as all that took part in it tell. `error`: what the client saw in place of an
    answer, one of ERRORS."""

    transfers: tuple[Transfer, ...] = ()
    error: str | None = None

    def plus(self, transfers: tuple[Transfer, ...]) -> Exchange:
        return Exchange((*self.transfers, *transfers), self.error)

    def as_json(self) -> JsonObject:
        return {"error": self.error, "transfers": [one.as_json() for one in self.transfers]}


def exchange_from(told: JsonObject) -> Exchange:
    """ValueError where it is none."""
    error = told.get("error")
    if error is not None and error not in ERRORS:
        raise ValueError(f"an error is one of {', '.join(ERRORS)}")
    return Exchange(transfers_from(told.get("transfers", [])), error)
