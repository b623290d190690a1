"""The process connector: a netlink socket on which the kernel tells of forks, execs and exits.

The layouts are those of linux/cn_proc.h. Root may listen in the initial namespaces, everybody
since Linux 6.6; in other user or pid namespaces the kernel keeps silent (cn_proc_mcast_ctl).
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from dataclasses import dataclass

FORK, EXEC, UID, SID, COMM, EXIT = 0x1, 0x2, 0x4, 0x80, 0x200, 0x80000000
_ACK = 0x0
_NETLINK_CONNECTOR = 11
_CN_IDX_PROC, _CN_VAL_PROC = 1, 1
_LISTEN = 1
_NLMSG_DONE = 3
_HEADS = struct.Struct("=IHHIIIIIIHH")  # struct nlmsghdr, then struct cn_msg
_EVENT = struct.Struct("=IIQ")  # what, cpu, timestamp_ns (CLOCK_MONOTONIC)
_NUMBERS = {FORK: 4, EXEC: 2, UID: 4, SID: 2, COMM: 2, EXIT: 4, _ACK: 1}
_COMM_SIZE = 16
_BUFFER = 8 << 20
_MESSAGE_MAX = 4096
_ANSWER_S = 0.02  # it comes while the request is being sent


@dataclass(frozen=True, slots=True)
class Message:
    """One event. `numbers` are the event's own, as linux/cn_proc.h orders them."""

    what: int
    time_ns: int
    numbers: tuple[int, ...]
    comm: bytes = b""


def parse(data: bytes) -> Message | None:
    """None where it is no event of the connector, or one that is of no interest."""
    start = _HEADS.size
    if len(data) < start + _EVENT.size:
        return None
    index, value = _HEADS.unpack_from(data)[5:7]
    what, _, time_ns = _EVENT.unpack_from(data, start)
    if (index, value) != (_CN_IDX_PROC, _CN_VAL_PROC) or what not in _NUMBERS:
        return None
    start += _EVENT.size
    count = _NUMBERS[what]
    if len(data) < start + 4 * count:
        return None
    numbers = struct.unpack_from(f"={count}I", data, start)
    start += 4 * count
    comm = data[start : start + _COMM_SIZE].split(b"\0")[0] if what == COMM else b""
    return Message(what, time_ns, numbers, comm)


def _acknowledged(data: bytes) -> int:
    number: int = _HEADS.unpack_from(data)[8]
    return number


class Connector:
    """Listens. OSError where the kernel does not let it, which it says at once."""

    def __init__(self) -> None:
        self._socket = socket.socket(
            socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC, _NETLINK_CONNECTOR
        )
        try:
            self._enlarge()
            self._socket.bind((0, _CN_IDX_PROC))
            self._ask()
        except OSError:
            self._socket.close()
            raise
        self._socket.setblocking(False)
        self.overruns = 0  # how often the kernel found no room for what it had to tell

    def _enlarge(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        force = getattr(socket, "SO_RCVBUFFORCE", 33)
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, force, _BUFFER)

    def _ask(self) -> None:
        """In a namespace where nobody is told, the request is taken and not answered.

        Answers go to everybody who listens: ours has our own number, and one more.
        """
        request = int.from_bytes(os.urandom(3), "little")
        body = struct.pack("=I", _LISTEN)
        size = _HEADS.size + len(body)
        heads = (size, _NLMSG_DONE, 0, 0, os.getpid(), _CN_IDX_PROC, _CN_VAL_PROC, 0, request)
        self._socket.send(_HEADS.pack(*heads, len(body), 0) + body)
        self._socket.settimeout(_ANSWER_S)
        end = time.monotonic() + _ANSWER_S
        while True:
            if time.monotonic() > end:
                raise TimeoutError("no answer")
            data = self._receive()
            message = parse(data)
            if message is not None and message.what == _ACK and _acknowledged(data) == request + 1:
                if message.numbers[0]:
                    raise OSError(message.numbers[0], os.strerror(message.numbers[0]))
                return

    def _receive(self) -> bytes:
        """Another process may send to a netlink socket too; only the kernel's port is 0."""
        while True:
            data, address = self._socket.recvfrom(_MESSAGE_MAX)
            if address[0] == 0:
                return bytes(data)

    def fileno(self) -> int:
        return self._socket.fileno()

    def read(self, most: int) -> list[Message]:
        """What was told since the last call, at most so many messages."""
        found: list[Message] = []
        for _ in range(most):
            try:
                message = parse(self._receive())
            except BlockingIOError:
                break
            except OSError:  # ENOBUFS
                self.overruns += 1
                continue
            if message is not None and message.what != _ACK:
                found.append(message)
        return found

    def close(self) -> None:
        self._socket.close()
