"""The sockets of traced processes: whom each one is connected to, and who listens there."""

from __future__ import annotations

import os
import re
import socket
import struct
import sys
from dataclasses import dataclass

from probe import abi
from probe.engine.decode import address_text, may_be_served, text
from probe.engine.portable.sockets import rows

ADDRESS_MAX = 128  # bytes of a struct sockaddr that are read
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


class Listeners:
    """Who listens where: by port, or by path (proc(5), /proc/PID/net)."""

    def __init__(self) -> None:
        self._known: dict[int | str, int] = {}

    def add(self, pid: int, fd: int) -> None:
        """After listen(2), which chooses a port where bind(2) did not."""
        try:
            found = _INODE.fullmatch(os.readlink(f"/proc/{pid}/fd/{fd}"))
            place = found and _place(pid, found[1])
        except OSError:
            return  # it has gone, or /proc is not to be read
        if place:
            self._known[place] = pid

    def at(self, peer: Peer, protocol: str) -> int | None:
        """The process that a connection inside the sandbox leads to."""
        if not may_be_served(peer.family, peer.address, protocol):
            return None
        return self._known.get(peer.address if peer.family == "unix" else peer.port or 0)


_INODE = re.compile(r"socket:\[(\d+)\]")


def _place(pid: int, inode: str) -> int | str | None:
    """Where a listening socket is bound: the port, or the path."""
    for table in ("tcp", "tcp6"):
        for row in rows(pid, table):
            if row[9:10] == [inode]:
                return int(row[1].rpartition(":")[2], 16)
    return next((row[7] for row in rows(pid, "unix") if row[6:7] == [inode] and row[7:]), None)


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
