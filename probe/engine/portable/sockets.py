"""TCP sockets that wait for an answer, as /proc/PID/net shows them."""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import dataclass

from probe.events import is_local

_TABLE_MAX = 1 << 20  # bytes that are read of one
_DESCRIPTORS_MAX = 256
_ESTABLISHED, _SYN_SENT = 1, 2


@dataclass(frozen=True, slots=True)
class Entry:
    """One connection; `inode` is what its descriptors are named by."""

    inode: int
    established: bool
    family: str
    address: str
    port: int


def parse(table: str) -> list[Entry]:
    """Those that wait and those that are made. Lines out of form are left out."""
    found = []
    for line in table.split("\n")[1:]:
        words = line.split()
        try:
            state = int(words[3], 16)
            if state in (_ESTABLISHED, _SYN_SENT):
                family, address, port = _peer(words[2])
                inode = int(words[9])
                found.append(Entry(inode, state == _ESTABLISHED, family, address, port))
        except (IndexError, ValueError):
            continue
    return found


def _peer(text: str) -> tuple[str, str, int]:
    """Words of 32 bits each, in the machine's order."""
    host, _, port = text.partition(":")
    raw = bytes.fromhex(host)
    if sys.byteorder == "little":
        raw = b"".join(raw[at : at + 4][::-1] for at in range(0, len(raw), 4))
    if len(raw) == 4:
        return "ipv4", socket.inet_ntop(socket.AF_INET, raw), int(port, 16)
    address = socket.inet_ntop(socket.AF_INET6, raw).removeprefix("::ffff:")
    return "ipv6", address, int(port, 16)


def table(pid: int) -> list[Entry]:
    """Of the network namespace of a process."""
    found: list[Entry] = []
    for name in ("tcp", "tcp6"):
        try:
            with open(f"/proc/{pid}/net/{name}", encoding="ascii", errors="replace") as file:
                found += parse(file.read(_TABLE_MAX))
        except OSError:
            continue
    return found


def network_namespace(pid: int) -> int:
    try:
        return os.stat(f"/proc/{pid}/ns/net").st_ino
    except OSError:
        return 0


def inodes(pid: int) -> set[int]:
    """Of the sockets that a process has open; empty where they are not shown."""
    found: set[int] = set()
    try:
        names = os.listdir(f"/proc/{pid}/fd")[:_DESCRIPTORS_MAX]
    except OSError:
        return found
    for name in names:
        try:
            target = os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:
            continue
        if target.startswith("socket:["):
            found.add(int(target[8:-1]))
    return found


def is_next_hop_missing(pid: int, entry: Entry) -> bool:
    """Whether who is to be asked first does not answer: its hardware address is looked for in vain.

    That is the peer where it is a neighbour, else a gateway (proc(5), /proc/PID/net).
    """
    if is_local(entry.family, entry.address):
        return False
    missing = {words[0] for words in rows(pid, "arp") if words[2:3] == ["0x0"]}
    if not missing:
        return False
    gateways = {_gateway(words[2]) for words in rows(pid, "route") if len(words) > 2}
    return not missing.isdisjoint({entry.address, *gateways})


def _gateway(text: str) -> str:
    try:
        return socket.inet_ntop(socket.AF_INET, int(text, 16).to_bytes(4, sys.byteorder))
    except (ValueError, OverflowError):
        return ""


def rows(pid: int, name: str) -> list[list[str]]:
    """The words of a table's lines; none where it is not shown, or is none: tcp6 without IPv6."""
    try:
        with open(f"/proc/{pid}/net/{name}", encoding="utf-8", errors="replace") as file:
            return [line.split() for line in file.read(_TABLE_MAX).split("\n")[1:]]
    except OSError:
        return []
