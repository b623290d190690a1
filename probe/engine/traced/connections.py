"""What traced processes do with sockets: whom they reach, and which names they ask for."""

from __future__ import annotations

import dataclasses
import errno
import struct
import time
from collections.abc import Callable

from probe import abi
from probe.engine import dns
from probe.engine.traced import ptrace
from probe.engine.traced.process import Process
from probe.engine.traced.ptrace import Entry
from probe.engine.traced.sockets import ADDRESS_MAX, Listeners, Peer, Socket, parse_address
from probe.events import Connect, Dns, Event

_DATAGRAM = 512
_SOL_SOCKET, _SO_ERROR = 1, 4
_UNREACHED = frozenset(
    {
        *(errno.ECONNREFUSED, errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN),
        *(errno.ETIMEDOUT, errno.ECONNRESET),
    }
)
_SENDS = {"sendto": (1, 2), "write": (1, 2), "send": (1, 2)}
_RECEIVES = {"recvfrom": 1, "read": 1}


def address_of(process: Process, address: int, size: int) -> Peer | None:
    """A struct sockaddr in its memory."""
    return parse_address(ptrace.read(process.member.pid, address, min(size, ADDRESS_MAX)))


class Connections:
    """`base` gives the fields that every event of a process has, `send` takes the events."""

    def __init__(
        self, base: Callable[[Process], dict[str, object]], send: Callable[[Event], None]
    ) -> None:
        self._base, self._send = base, send
        self._asked: dict[tuple[int, int, str, str], Dns] = {}
        self._listeners = Listeners()

    def end(self, process: Process) -> None:
        """It is about to end: what has had no answer will have none."""
        for one in process.sockets.values():
            self.give_up(process, one)

    def gone(self, pid: int) -> None:
        """What it asked name servers, and waited for in vain, is told."""
        for key, asked in list(self._asked.items()):
            if key[0] == pid:
                self._send(self._asked.pop(key, asked))

    def called(self, process: Process, name: str, entry: Entry, result: int, error: int) -> None:
        """A call of the process has ended, which may be about a socket."""
        arguments = entry.arguments
        fd = arguments[0]
        if name == "socket" and not error:
            kind = abi.SOCKET_TYPES.get(arguments[1] & 0xF, f"type_{arguments[1] & 0xF}")
            process.sockets[result] = Socket(kind)
        elif name == "connect":
            self._connect(process, entry, error)
        elif name == "listen" and not error:
            self._listeners.add(process.member.pid, fd)
        elif name in ("dup", "dup2", "dup3") and not error and fd in process.sockets:
            process.sockets[result] = process.sockets[fd]
        elif fd in process.sockets:
            one = process.sockets[fd]
            if name == "getsockopt" and arguments[1:3] == (_SOL_SOCKET, _SO_ERROR) and not error:
                raw = ptrace.read(process.member.pid, arguments[3], 4)
                self._answered(process, one, int.from_bytes(raw, "little"))
            elif one.since_ns and error in _UNREACHED:
                self._answered(process, one, error)
            elif one.since_ns and not error and name in (*_SENDS, *_RECEIVES, "sendmsg", "recvmsg"):
                self._answered(process, one, 0)
            elif error in _UNREACHED and one.peer is not None:
                self._tell(process, one, error, in_use=True)
            if not error:
                self._queries(process, one, name, arguments, result)

    def _connect(self, process: Process, entry: Entry, error: int) -> None:
        fd = entry.arguments[0]
        peer = address_of(process, entry.arguments[1], entry.arguments[2])
        if peer is None or peer.family == "unspec":
            return
        one = process.sockets.setdefault(fd, Socket())
        if one.since_ns:  # asked again: EISCONN, EALREADY, or why it failed
            if error not in (errno.EALREADY, errno.EINPROGRESS):
                self._answered(process, one, 0 if error == errno.EISCONN else error)
            return
        one.peer = peer
        if error == errno.EINPROGRESS:
            one.since_ns = time.time_ns()
        elif error not in (errno.EINTR, errno.EISCONN):
            self._tell(process, one, error)

    def _answered(self, process: Process, one: Socket, error: int) -> None:
        if one.since_ns:
            self._tell(process, one, error, took_ns=time.time_ns() - one.since_ns)
            one.since_ns = 0

    def give_up(self, process: Process, one: Socket) -> None:
        """It is closed, whether or not an answer came."""
        if one.since_ns:
            self._tell(process, one, 0, took_ns=time.time_ns() - one.since_ns, abandoned=True)
            one.since_ns = 0

    def _tell(
        self,
        process: Process,
        one: Socket,
        error: int,
        *,
        took_ns: int | None = None,
        abandoned: bool = False,
        in_use: bool = False,
    ) -> None:
        if one.peer is None:
            return
        reached = not (error or abandoned)
        self._send(
            Connect(
                **self._base(process),  # type: ignore[arg-type]
                family=one.peer.family,
                address=one.peer.address,
                port=one.peer.port,
                protocol=one.protocol,
                errno=abi.errno_name(error) if error else None,
                duration_s=took_ns / 1e9 if took_ns is not None else None,
                abandoned=True if abandoned else None,
                in_use=True if in_use and one.protocol == "stream" else None,
                server=self._listeners.at(one.peer, one.protocol) if reached else None,
            )
        )

    def _queries(
        self, process: Process, one: Socket, name: str, arguments: tuple[int, ...], result: int
    ) -> None:
        """Names that are asked for over port 53, and the answers."""
        if not one.is_of_names:
            return
        pid = process.member.pid
        for address, size in _payloads(pid, name, arguments, result):
            message = dns.parse(ptrace.read(pid, address, min(size, _DATAGRAM)))
            if message is None:
                continue
            key = (pid, message.id, message.name, message.type)
            asked = self._asked.get(key)
            if message.answer and asked is not None:
                del self._asked[key]
                event = _answer(asked, message.rcode)
                self._send(event)
            elif not message.answer and asked is None and one.peer is not None:
                self._asked[key] = Dns(
                    **self._base(process),  # type: ignore[arg-type]
                    name=message.name,
                    query=message.type,
                    resolver=one.peer.address,
                )


def _answer(asked: Dns, rcode: str) -> Dns:
    took_s = (time.time_ns() - asked.time_ns) / 1e9
    return dataclasses.replace(asked, rcode=rcode, duration_s=took_s)


def _payloads(
    pid: int, name: str, arguments: tuple[int, ...], result: int
) -> list[tuple[int, int]]:
    """Where what was sent or received lies: addresses and sizes."""
    if name in _SENDS:
        return [(arguments[1], arguments[2])]
    if name in _RECEIVES:
        return [(arguments[1], result)]
    if name in ("sendmsg", "recvmsg"):
        return _of_message(pid, arguments[1])
    if name == "sendmmsg":
        return [
            pair
            for at in range(min(result, 4))
            for pair in _of_message(pid, arguments[1] + 64 * at)
        ]
    return []


def _of_message(pid: int, address: int) -> list[tuple[int, int]]:
    """The first piece of a struct msghdr."""
    head = ptrace.read(pid, address, 32)
    if len(head) < 32:
        return []
    vector = ptrace.read(pid, struct.unpack_from("=Q", head, 16)[0], 16)
    return [struct.unpack("=QQ", vector)] if len(vector) == 16 else []
