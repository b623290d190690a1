"""The sockets of traced processes: whom each one is connected to, and what it asks resolvers."""

from __future__ import annotations

import socket
import struct
import sys
from dataclasses import dataclass

from probe import abi
from probe.engine.decode import address_text, text

_ADDRESS_MAX = 128
DNS_PORT = 53


@dataclass(frozen=True, slots=True)
class Peer:
    family: str
    address: str
    port: int | None = None


@dataclass(slots=True)
class Socket:
    """`since_ns`: when a connect began that no answer has come to; 0 for none."""

    protocol: str = "stream"
    peer: Peer | None = None
    since_ns: int = 0

    @property
    def is_of_names(self) -> bool:
        return self.peer is not None and self.peer.port == DNS_PORT


def parse_address(raw: bytes) -> Peer | None:
    """A struct sockaddr; None where it is cut, or of no known family."""
    if len(raw) < 2:
        return None
    family = int.from_bytes(raw[:2], sys.byteorder)
    name = abi.FAMILIES.get(family)
    if family == socket.AF_UNIX:
        path = raw[2:]
        if path[:1] == b"\0":
            shown = path[1:].rstrip(b"\0")
            return Peer("unix", "@" + text(shown) if shown else "")
        return Peer("unix", text(path.split(b"\0")[0]))
    if family == socket.AF_INET and len(raw) >= 8:
        return Peer("ipv4", address_text(family, raw[4:8]), _port(raw))
    if family == socket.AF_INET6 and len(raw) >= 24:
        return Peer("ipv6", address_text(family, raw[8:24]), _port(raw))
    known = name and family not in (socket.AF_INET, socket.AF_INET6)
    return Peer(name, "") if name and known else None


def _port(raw: bytes) -> int:
    port: int = struct.unpack_from(">H", raw, 2)[0]
    return port


ADDRESS_MAX = _ADDRESS_MAX
