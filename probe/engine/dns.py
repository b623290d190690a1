"""Name queries and answers, as they go over port 53 (RFC 1035, section 4)."""

from __future__ import annotations

import struct
from dataclasses import dataclass

TYPES = {1: "A", 2: "NS", 5: "CNAME", 6: "SOA", 12: "PTR", 15: "MX", 16: "TXT", 28: "AAAA"}
TYPES |= {33: "SRV", 35: "NAPTR", 64: "SVCB", 65: "HTTPS", 255: "ANY"}
RCODES = {0: "NOERROR", 1: "FORMERR", 2: "SERVFAIL", 3: "NXDOMAIN", 4: "NOTIMP", 5: "REFUSED"}

_HEADER = struct.Struct(">HHHHHH")
_ANSWER, _RCODE = 0x8000, 0x000F
_INTERNET, _UNICAST = 1, 0x8000  # the class IN, and a bit of multicast DNS (RFC 6762)
_LABEL_MAX, _NAME_MAX = 63, 255


@dataclass(frozen=True, slots=True)
class Message:
    """The header and the first question."""

    id: int
    answer: bool
    rcode: str
    name: str
    type: str


def parse(data: bytes) -> Message | None:
    """None where it is not the beginning of a message with a question."""
    if len(data) > 2 and int.from_bytes(data[:2], "big") in (len(data) - 2, _long(data)):
        framed = _parse(data[2:])  # over TCP two bytes of length go before it
        if framed is not None:
            return framed
    return _parse(data)


def _long(data: bytes) -> int:
    """A framed length that a cut message may have announced."""
    return max(len(data), int.from_bytes(data[:2], "big")) if len(data) > 280 else -1


def _parse(data: bytes) -> Message | None:
    if len(data) < _HEADER.size:
        return None
    number, flags, questions, *_ = _HEADER.unpack_from(data)
    name, at = _name(data, _HEADER.size)
    if questions != 1 or name is None or at + 4 > len(data):
        return None
    kind, of = (int.from_bytes(data[one : one + 2], "big") for one in (at, at + 2))
    if of & ~_UNICAST != _INTERNET:
        return None  # a socket that has become another, and what it carries only looks like one
    rcode = flags & _RCODE
    return Message(
        number,
        bool(flags & _ANSWER),
        RCODES.get(rcode, f"RCODE{rcode}"),
        name,
        TYPES.get(kind, f"TYPE{kind}"),
    )


def _name(data: bytes, at: int) -> tuple[str | None, int]:
    """The name that begins at `at` and where it ends; a question's name is never compressed."""
    labels: list[str] = []
    start = at
    while at < len(data) and at - start <= _NAME_MAX:
        size = data[at]
        at += 1
        if size == 0:
            return ".".join(labels) or ".", at
        if size > _LABEL_MAX or at + size > len(data):
            break
        labels.append(data[at : at + size].decode("ascii", "backslashreplace"))
        at += size
    return None, at
