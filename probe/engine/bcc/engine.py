"""The engine: maps and attached programs from the compiler, records completed by looking."""

from __future__ import annotations

import contextlib
import ctypes
import os
import time

from probe import abi
from probe.coverage import SENSES, Coverage
from probe.engine import records
from probe.engine.bcc.compiler import compiled
from probe.engine.bcc.lookup import Lookup
from probe.engine.errors import EngineError, not_permitted
from probe.engine.kernel import KernelEngine
from probe.engine.libbpf import Libbpf, Map
from probe.engine.loader import settings
from probe.pidfd import pid_of

_INITIAL_PID_NS = 0xEFFFFFFC  # PROC_PID_INIT_INO
_CAP_SYS_ADMIN, _CAP_BPF = 21, 39  # capabilities(7)
_TICKS = os.sysconf("SC_CLK_TCK")

_SENSES = {
    **dict.fromkeys(SENSES, "full"),
    "seccomp": "partial: filters are not read, so which rule it was is not told, nor which call "
    "when a thread is killed among others, or before Linux 5.16 by any kill",
    "connect": "partial: sockets that another process made are not known, and what became of a "
    "connection that was not waited for is told only if the program asks",
    "dns": "partial: sockets that another process made are not known",
    "oom": "partial: the limit is looked up after the victim was chosen",
    "files": "partial: files that are not there are told of failed processes only, and of who "
    "failed fast the directory and the rights may be gone before they are looked up",
}


class BccEngine(KernelEngine):
    """Needs root in the initial pid namespace, libbcc and tracefs, but no BTF."""

    name = "bcc"

    def __init__(self, *, everyone: bool = False) -> None:
        """EngineError where this kernel, or this user, cannot have it."""
        if os.stat("/proc/self/ns/pid").st_ino != _INITIAL_PID_NS:
            raise EngineError(
                "bcc's programs know processes by their numbers in the initial pid namespace",
                "run probe agent outside of the container",
            )
        if not _may_load():  # so that nobody waits for a compiler in vain
            raise not_permitted()
        try:
            library = Libbpf()
        except OSError as error:
            raise EngineError(f"libbpf is missing ({error})", "apt-get install libbpf1") from error
        handed, self._attached = compiled()
        self._maps = {name: Map(library, fd) for name, fd in handed.items()}
        self._tasks, self._sockets = self._maps["tasks"], self._maps["sockets"]
        self._lookup = Lookup()
        self._nobody = records.NOBODYS_SPAN if everyone else 0
        self._configure(everyone)
        super().__init__(library, self._maps.__getitem__, Coverage(self.name, dict(_SENSES)))

    def _configure(self, everyone: bool) -> None:
        zero = ctypes.c_uint32(0)
        self._maps["fresh_task"].update(zero, _Task(span=self._nobody, filtered=1))
        self._maps["configured"].update(zero, settings(abi.machine(), everyone))

    def _receive(self, address: int, size: int) -> None:
        record = records.parse(ctypes.string_at(address, size))
        self._lookup.complete(record)
        if isinstance(record, records.ExecRecord):
            _close_up(record)
        elif isinstance(record, records.ExitRecord):
            self._lookup.forget(record.head.pid)
        self._decoder.take(record)

    def mark(self, pidfd: int, span: int) -> None:
        pid = pid_of(pidfd)
        key, task = ctypes.c_uint32(pid), _Task()
        known = self._tasks.lookup(key, task)
        if not span and not self._nobody:
            self._tasks.delete(key)
            return
        place = self._lookup.place(pid, fresh=True)
        if not known:
            task = _task(pid)
        task.span = span or self._nobody
        task.filtered = place is None or place.filtered
        self._tasks.update(key, task)
        if span:
            self._begin_counting(span)

    def span_of(self, pidfd: int) -> int:
        task = _Task()
        try:
            known = self._tasks.lookup(ctypes.c_uint32(pid_of(pidfd)), task)
        except ProcessLookupError:
            return 0
        return int(task.span) if known and task.span != records.NOBODYS_SPAN else 0

    def _consume(self) -> None:
        self._maps["unread"].update(ctypes.c_uint32(0), ctypes.c_uint64(0))
        super()._consume()

    def _unfold(self, span: int) -> None:
        super()._unfold(span)
        self._give_up_connections(span)

    def _give_up_connections(self, span: int) -> None:
        """Of processes that ended while a connection was being made."""
        socket = _Socket()
        for key in self._sockets.keys(_SocketKey):
            if not self._sockets.lookup(key, socket) or socket.head.span != span:
                continue
            if socket.started_ns and not os.path.exists(f"/proc/{socket.head.pid}"):
                self._sockets.delete(key)
                self._decoder.take(_abandoned(socket))

    def close(self) -> None:
        super().close()
        for fd in (*self._attached, *(found.fd for found in self._maps.values())):
            os.close(fd)


def _may_load() -> bool:
    """Whether one of the capabilities is effective that bpf(2) asks for."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        effective = next((line.split()[1] for line in file if line.startswith("CapEff:")), "0")
    return any(int(effective, 16) >> number & 1 for number in (_CAP_SYS_ADMIN, _CAP_BPF))


class _Task(ctypes.Structure):
    """struct task of bpf/bcc/task.h."""

    _fields_ = [
        ("span", ctypes.c_uint64),
        ("started_ns", ctypes.c_uint64),
        ("connecting_ns", ctypes.c_uint64),
        ("calls", ctypes.c_uint64),
        ("args", ctypes.c_uint64 * 6),
        ("ip", ctypes.c_uint64),
        ("next", records.FollowUp * records.FOLLOW_UPS),
        *(
            (name, ctypes.c_uint32)
            for name in (
                *("tgid", "creator", "serial", "followed", "entered", "enters", "refused"),
                *("executed", "together", "together_first", "silenced", "null_fd"),
                *("strict", "filtered", "leaving", "copy"),
            )
        ),
    ]


class _SocketKey(ctypes.Structure):
    _fields_ = [("fd", ctypes.c_uint32), ("tgid", ctypes.c_uint32)]


class _Socket(ctypes.Structure):
    """struct socket of bpf/bcc/task.h."""

    _fields_ = [
        ("head", records.Record),
        ("started_ns", ctypes.c_uint64),
        ("type", ctypes.c_uint16),
        ("family", ctypes.c_uint16),
        ("port", ctypes.c_uint16),
        ("pad", ctypes.c_uint16),
        ("address", ctypes.c_uint8 * 16),
    ]


def _task(pid: int) -> _Task:
    """Of a process that begins a span: what the programs would have seen had they been there."""
    links = ["", ""]
    for fd in (1, 2):
        with contextlib.suppress(OSError):
            links[fd - 1] = os.readlink(f"/proc/{pid}/fd/{fd}")
    together = links[0] == links[1] != ""
    return _Task(
        tgid=pid,
        executed=1,
        started_ns=_started_ns(pid),
        together=together,
        together_first=together,
        silenced=links[1] == "/dev/null",
    )


def _started_ns(pid: int) -> int:
    """The 22nd field of /proc/PID/stat, in ticks since the machine started (proc(5))."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[19]) * 1_000_000_000 // _TICKS
    except (OSError, ValueError, IndexError):
        return 0


def _close_up(record: records.ExecRecord) -> None:
    """The programs put each argument in a slot of its own; the record has no gaps."""
    raw = bytes(memoryview(record).cast("B"))[records.ExecRecord.argv.offset :]
    slots = (
        raw[at : at + records.ARG_SIZE] for at in range(0, records.ARGV_SIZE, records.ARG_SIZE)
    )
    words = [slot.split(b"\0")[0] for slot in slots][: record.argc]
    argv = b"\0".join(words) + b"\0" if words else b""
    record.argv_size = len(argv)
    ctypes.memmove(ctypes.addressof(record) + records.ExecRecord.argv.offset, argv, len(argv))


def _abandoned(socket: _Socket) -> records.ConnectRecord:
    head = records.Record.from_buffer_copy(socket.head)
    return records.ConnectRecord(
        head=head,
        duration_ns=time.clock_gettime_ns(time.CLOCK_BOOTTIME) - socket.started_ns,
        family=socket.family,
        port=socket.port,
        type=socket.type,
        stage=records.CONNECT_PENDING,
        abandoned=1,
        address=socket.address,
    )
