"""From the kernel's records to events."""

from __future__ import annotations

import dataclasses
import errno
import os
import socket
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

from probe import abi
from probe.abi.arguments import describe
from probe.engine import dns, records
from probe.engine.engine import Named, NamespaceSeen, SpanNamed
from probe.engine.filters import Filters, seccomp_data
from probe.events import (
    UNKNOWN_CALL,
    Connect,
    Dns,
    Event,
    Exec,
    Exit,
    File,
    Fork,
    Oom,
    Seccomp,
    Signal,
    Syscall,
    is_local,
)

HOLD_S = 1.0  # how long a denial waits to learn what its thread did next
_HELD_MAX = 1024
OUTPUT_MAX = 1024  # characters of stdout that are kept of a failed process
_LAST_MAX = 8192
_ASKED_MAX = 4096
_COMM = 15  # bytes of a name that the kernel keeps
_PAGE = os.sysconf("SC_PAGE_SIZE")
_AT_FDCWD = -100
_UNLIMITED = 1 << 62
_CORE = 0x80  # of a wait status (wait(2))
# execve(2), "Limits on size of arguments and environment".
_STRING_MAX = 32 * _PAGE
_STRINGS_MIN, _STRINGS_MAX = 128 << 10, 6 << 20
_ACTIONS = {
    records.ACTION_KILL: "kill_process",
    records.ACTION_TRAP: "trap",
    records.ACTION_KILL_THREAD: "kill_thread",
    records.ACTION_STRICT: "strict",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Recent:
    """What a process said on stderr and looked for in vain, the last of it."""

    words: str = ""
    output: str = ""
    missing: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    silenced: bool = False  # the words went to /dev/null


def recent_from(record: records.Recent) -> Recent:
    """Unrolls the rings, oldest first; the same path in a row once."""
    first = max(0, record.missing_total - records.MISSING_COUNT)
    slots = (i % records.MISSING_COUNT for i in range(first, record.missing_total))
    paths = [text(record.missing[slot].path) for slot in slots]
    return Recent(
        words_from(record.errors),
        words_from(record.output),
        tuple(dict.fromkeys(paths)),
        silenced=bool(record.silenced),
    )


def _gone(record: records.RecentRecord) -> tuple[str, ...]:
    """ "PATH: made by sh (pid 12) 1.5 s before in another mount namespace"."""
    told = []
    for slot, writer in zip(record.gone_slots[: record.gone], record.writers, strict=False):
        path = text(record.recent.missing[slot % records.MISSING_COUNT].path)
        age = max(0, record.head.time_ns - writer.time_ns) / 1e9
        where = "" if writer.mnt_ns == record.head.mnt_ns else " in another mount namespace"
        told.append(
            f"{path}: made by {text(writer.comm)} (pid {writer.pid}) {age:.1f} s before{where}"
        )
    return tuple(told)


def words_from(record: records.Words) -> str:
    """The first slot, and of the others those that were filled last."""
    ring = records.WORDS_COUNT - 1
    last = range(max(1, record.total + 1 - ring), record.total + 1)
    slots = [0, *(1 + (number - 1) % ring for number in last)]
    raw = ctypes_bytes(record, "text")
    pieces = [raw[slot * records.WORDS_SIZE :][: record.size[slot]] for slot in slots]
    gap = b"\n...\n" if record.total > ring else b""
    return text(pieces[0] + gap + b"".join(pieces[1:])).replace("\0", "")


def text(raw: bytes) -> str:
    """Bytes of a workload as text; what is not UTF-8 survives as escapes."""
    return raw.decode(errors="backslashreplace")


def _span(number: int) -> int:
    """0 for what is part of none."""
    return 0 if number == records.NOBODYS_SPAN else number


class Decoder:
    """Turns records into events, in the order in which the kernel made them.

    A denial is held until its thread's next calls are known, so that it leaves
    complete; `ready` gives what needs no more waiting.
    """

    def __init__(self, machine: str) -> None:
        self._machine = machine
        self.namespace_seen: NamespaceSeen = lambda number, pid, span: None
        self.span_named: SpanNamed = lambda named: None
        self.filters = Filters()
        self._programs: OrderedDict[int, str] = OrderedDict()
        self._held: OrderedDict[int, Seccomp] = OrderedDict()
        self._recents: dict[int, Recent] = {}
        self._last: OrderedDict[tuple[int, int, int, str], Event] = OrderedDict()
        self._asked: OrderedDict[tuple[int, int, str, str], Dns] = OrderedDict()
        self._denied: deque[int] = deque(maxlen=256)
        self._ended: deque[tuple[int, int]] = deque(maxlen=256)
        self._next_sequence = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self._boot_offset = 0
        self._ready: list[Event] = []
        self._handlers: dict[type, Callable[..., Event | None]] = {
            records.FilterRecord: self._filter,
            records.SeccompRecord: self._seccomp,
            records.FollowRecord: self._follow,
            records.ExecRecord: self._exec,
            records.ExecFailedRecord: self._exec_failed,
            records.ForkFailedRecord: self._fork_failed,
            records.ExitRecord: self._exit,
            records.ConnectRecord: self._connect,
            records.OomRecord: self._oom,
            records.SignalRecord: self._signal,
            records.FileRecord: self._file,
            records.NamespaceRecord: self._namespace,
            records.NamedRecord: self._named,
            records.RecentRecord: self._recent,
            records.CallRecord: self._call_failed,
            records.DnsRecord: self._dns,
        }

    def feed(self, raw: bytes) -> None:
        """Takes one record, as it left the kernel."""
        self.take(records.parse(raw))

    def take(self, record: Any) -> None:
        """Takes one record."""
        head = record.head
        if head.serial in self._denied and type(record) not in (
            records.SeccompRecord,
            records.FollowRecord,
        ):
            return  # the filter's answer, not the kernel's own
        event = self._handlers[type(record)](record)
        if event is not None:
            self._ready.append(event)
            self._remember(head.kind, event)

    def ready(self, everything: bool = False) -> list[Event]:
        """Events in the order of their time; `everything` empties the held ones too."""
        now = time.time_ns()
        self._boot_offset = now - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        for serial, held in list(self._held.items()):
            if everything or held.time_ns < now - HOLD_S * 1e9 or len(self._held) > _HELD_MAX:
                self._ready.append(self._held.pop(serial))
            else:
                break
        ready, self._ready = self._ready, []
        ready.sort(key=lambda event: event.time_ns)
        return ready

    def folded(self, key: records.FoldKey, hidden: int) -> None:
        """Takes what a storm left untold: so many more like the last one that was told."""
        name = (_span(key.span), key.pid, key.kind, abi.errno_name(key.error))
        last = self._last.get(name)
        if last is not None:
            self._next_sequence += 1
            again = dataclasses.replace(last, sequence=self._next_sequence, count=hidden)
            self._ready.append(again)

    def _remember(self, kind: int, event: Event) -> None:
        """The last of each kind that storms are made of."""
        error = getattr(event, "errno", None)
        if error is not None:
            self._last[(event.span, event.pid, kind, error)] = event
            if len(self._last) > _LAST_MAX:
                self._last.popitem(last=False)

    def _base(self, head: records.Record) -> dict[str, object]:
        if not self._boot_offset:
            self._boot_offset = time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self._next_sequence += 1
        return {
            "sequence": self._next_sequence,
            "time_ns": head.time_ns + self._boot_offset,
            "pid": head.pid,
            "tid": head.tid,
            "ppid": head.ppid,
            "uid": head.uid,
            "comm": text(head.comm),
            "exe": self._program(head.pid, head.ppid),
            "count": head.count,
            "span": _span(head.span),
            "mnt_ns": head.mnt_ns,
            "inner_pid": head.inner_pid,
            "session": head.session,
        }

    def _program(self, pid: int, ppid: int) -> str:
        known = self._programs.get(pid)
        if known is None:
            try:
                known = os.readlink(f"/proc/{pid}/exe")
            except OSError:
                known = self._programs.get(ppid, "")
            self._remember_program(pid, known)
        return known

    def _remember_program(self, pid: int, path: str) -> None:
        self._programs[pid] = path
        if len(self._programs) > 65536:
            self._programs.popitem(last=False)

    def _filter(self, record: records.FilterRecord) -> None:
        piece = [(i.code, i.jump_true, i.jump_false, i.k) for i in record.instructions]
        self.filters.add_piece(record.filter, record.previous, record.length, record.offset, piece)

    def _seccomp(self, record: records.SeccompRecord) -> Event | None:
        machine = abi.COMPAT[self._machine] if record.compat else self._machine
        args = tuple(record.args)
        data = seccomp_data(record.syscall, abi.AUDIT_ARCH[machine], record.ip, args)
        answer = self.filters.evaluate(
            record.filter, record.syscall, abi.AUDIT_ARCH[machine], record.ip, args
        )
        if record.action == records.ACTION_RESULT:
            # Without the filter's program a call that failed before it began was refused by it.
            unread = answer is None and record.entered == records.ENTERED_NO and record.ret < 0
            if not unread and (answer is None or not answer.refuses):
                return None
            action = answer.action if answer is not None else "errno"
            if record.ret >= 0 and action != "errno":
                return None  # a supervisor answered in the kernel's place
            error = abi.errno_name(-record.ret) if record.ret else None
            self._denied.append(record.head.serial)
        else:
            action, error = _ACTIONS.get(record.action, "kill_process"), None
            if answer is not None and answer.refuses:
                action = answer.action
        name = self._call_name(record.syscall | (records.COMPAT_CALL if record.compat else 0))
        rule = self.filters.rule(record.filter, answer, data) if answer else None
        event = Seccomp(
            **self._base(record.head),  # type: ignore[arg-type]
            syscall=name,
            args=args,
            action=action,
            errno=error,
            filter=rule,
            detail=describe(name, args),
            path=text(record.path) or None,
        )
        self._held[record.head.serial] = event
        self._remember(record.head.kind, event)
        return None

    def _follow(self, record: records.FollowRecord) -> Event | None:
        held = self._held.get(record.head.serial)
        if held is None:
            return None
        count = min(record.total, records.FOLLOW_UPS)
        calls = tuple(self._call(follow) for follow in record.calls[:count])
        after = record.total if record.ended else None
        complete = dataclasses.replace(held, next=calls, calls_after=after)
        if not record.ended:
            self._held[record.head.serial] = complete
            return None
        del self._held[record.head.serial]
        return complete

    def _call_name(self, number: int) -> str:
        compat = number & records.COMPAT_CALL
        machine = abi.COMPAT[self._machine] if compat else self._machine
        number &= ~records.COMPAT_CALL
        return UNKNOWN_CALL if number == records.UNKNOWN_CALL else abi.syscall_name(number, machine)

    def _call(self, follow: records.FollowUp) -> str:
        name = self._call_name(follow.syscall)
        ret = follow.ret
        return f"{name}=-{abi.errno_name(-ret)}" if -4096 < ret < 0 else f"{name}={ret}"

    def _exec(self, record: records.ExecRecord) -> Event:
        path = text(record.path)
        self._remember_program(record.head.pid, path)
        argv = ctypes_bytes(record, "argv")[: record.argv_size].split(b"\0")
        return Exec(
            **self._base(record.head),  # type: ignore[arg-type]
            path=path,
            argv=tuple(text(argument) for argument in argv[: record.argc]),
            stdin=_stream(record.streams[0]),
            stdout=_stream(record.streams[1]),
        )

    def _exec_failed(self, record: records.ExecFailedRecord) -> Event:
        return Exec(
            **self._base(record.head),  # type: ignore[arg-type]
            path=text(record.path),
            argv=tuple(text(argument.value) for argument in record.argv[: record.argc]),
            cwd=text(record.cwd) or None,
            errno=abi.errno_name(record.error),
            **_too_long(record),  # type: ignore[arg-type]
        )

    def _fork_failed(self, record: records.ForkFailedRecord) -> Event:
        full = record.pids.limit > 0
        return Fork(
            **self._base(record.head),  # type: ignore[arg-type]
            syscall=self._call_name(record.syscall),
            errno=abi.errno_name(record.error),
            cgroup=cgroup_path(record.pids) if full else None,
            pids_max=record.pids.limit if full else None,
            pids_current=record.pids.usage if full else None,
            nproc_limit=_bounded(record.nproc_limit),
            without_init=True if record.without_init else None,
        )

    def _recent(self, record: records.RecentRecord) -> None:
        recent = dataclasses.replace(recent_from(record.recent), gone=_gone(record))
        own = self._recents.get(record.head.pid, Recent())
        if record.of_creator:
            missing = tuple(dict.fromkeys((*recent.missing, *own.missing)))
            recent = dataclasses.replace(own, missing=missing, gone=(*recent.gone, *own.gone))
        self._recents[record.head.pid] = recent

    def _exit(self, record: records.ExitRecord) -> Event | None:
        # Threads that end at the same moment may each take themselves for the last one.
        process = record.head.pid, record.started_ns
        if process in self._ended:
            return None
        self._ended.append(process)
        base = self._base(record.head)
        recent = self._recents.pop(record.head.pid, Recent())
        self._programs.pop(record.head.pid, None)
        signal = record.status & 0x7F
        return Exit(
            **base,  # type: ignore[arg-type]
            code=None if signal else record.status >> 8 & 0xFF,
            signal=abi.signal_name(signal) if signal else None,
            core=True if record.status & _CORE else None,
            duration_s=(record.head.time_ns - record.started_ns) / 1e9,
            reaper=record.real_ppid,
            silenced=True if record.silenced or recent.silenced else None,
            last_words=recent.words or None,
            last_output=recent.output[-OUTPUT_MAX:] or None,
            missing=recent.missing,
            gone=recent.gone,
        )

    def _connect(self, record: records.ConnectRecord) -> Event:
        if record.stage == records.CONNECT_BOUND:
            return self._bind(record)
        family = abi.FAMILIES.get(record.family, f"family_{record.family}")
        address, port = self._peer(record)
        pending = record.stage == records.CONNECT_PENDING
        protocol = abi.SOCKET_TYPES.get(record.type, f"type_{record.type}")
        served = may_be_served(family, address, protocol)
        return Connect(
            **self._base(record.head),  # type: ignore[arg-type]
            family=family,
            address=address,
            port=port,
            protocol=protocol,
            errno=abi.errno_name(record.error) if record.error else None,
            abandoned=True if record.abandoned else None,
            duration_s=record.duration_ns / 1e9 if pending else None,
            in_use=True if record.stage == records.CONNECT_IN_USE else None,
            server=record.server if served and record.server else None,
        )

    def _bind(self, record: records.ConnectRecord) -> Event:
        """A socket in the file system is a file that could not be made."""
        address, port = self._peer(record)
        told: dict[str, Any] = {
            **self._base(record.head),
            "syscall": "bind",
            "errno": abi.errno_name(record.error),
            "capabilities": _known(record.capabilities),
        }
        if record.family == socket.AF_UNIX:
            return File(**told, path=address)
        host = f"[{address}]" if ":" in address else address
        return Syscall(**told, detail=f"{host}:{port}", port=port)

    @staticmethod
    def _peer(record: records.ConnectRecord) -> tuple[str, int | None]:
        if record.family in (socket.AF_INET, socket.AF_INET6):
            return address_text(record.family, bytes(record.address)), record.port
        path = ctypes_bytes(record, "path")
        if path[:1] == b"\0":
            name = path[1:].rstrip(b"\0")
            return ("@" + text(name) if name else ""), None
        return text(path.split(b"\0")[0]), None

    def _namespace(self, record: records.NamespaceRecord) -> None:
        self.namespace_seen(record.head.mnt_ns, record.head.pid, record.head.span)

    def _named(self, record: records.NamedRecord) -> None:
        head = record.head
        test, run = text(record.test), text(record.run)
        self.span_named(Named(head.span, head.pid, head.uid, test, run))

    def _call_failed(self, record: records.CallRecord) -> Event:
        name = self._call_name(record.syscall)
        return Syscall(
            **self._base(record.head),  # type: ignore[arg-type]
            syscall=name,
            args=tuple(record.args),
            errno=abi.errno_name(record.error),
            path=text(record.path) or None,
            detail=describe(name, tuple(record.args)),
            limit=_bounded(record.limit),
            usage=record.usage * _PAGE or None if record.error == errno.ENOMEM else None,
            capabilities=_known(record.capabilities),
            user_ns=record.user_ns_level or None,
        )

    def _dns(self, record: records.DnsRecord) -> Event | None:
        """A query waits for its answer; the two are one event."""
        message = dns.parse(bytes(record.data[: record.size]))
        if message is None:
            return None
        key = (record.head.pid, message.id, message.name, message.type)
        asked = self._asked.get(key)
        if record.answer and message.answer and asked is not None:
            del self._asked[key]
            took = record.head.time_ns + self._boot_offset - asked.time_ns
            return dataclasses.replace(asked, rcode=message.rcode, duration_s=max(0.0, took / 1e9))
        if not record.answer and not message.answer:
            if asked is None:
                resolver = address_text(record.family, bytes(record.address))
                base = self._base(record.head)
                asked = Dns(**base, name=message.name, query=message.type, resolver=resolver)  # type: ignore[arg-type]
            else:
                asked = dataclasses.replace(asked, count=asked.count + 1)
            self._asked[key] = asked
            if len(self._asked) > _ASKED_MAX:
                self._ready.append(self._asked.popitem(last=False)[1])
        return None

    def unanswered(self, span: int) -> None:
        """Tells a span's queries that had no answer until now."""
        for key, asked in list(self._asked.items()):
            if asked.span == span:
                self._ready.append(self._asked.pop(key))

    def _oom(self, record: records.OomRecord) -> Event:
        bounded = record.memory.limit > 0
        base = self._base(record.head)
        # Before 6.10 the kernel tells a victim's number alone.
        base["comm"] = base["comm"] or os.path.basename(str(base["exe"]))[:_COMM]
        return Oom(
            **base,  # type: ignore[arg-type]
            scope="cgroup" if bounded else "system",
            cgroup=cgroup_path(record.memory) if bounded else None,
            limit=record.memory.limit * _PAGE if bounded else None,
            usage=record.memory.usage * _PAGE if bounded else None,
            virtual=record.total_vm_pages * _PAGE,
            trigger=record.trigger_pid or None,
        )

    def _signal(self, record: records.SignalRecord) -> Event:
        base = self._base(record.head)
        base["span"] = record.target_span
        return Signal(
            **base,  # type: ignore[arg-type]
            signal=abi.signal_name(record.signal),
            target=record.target_pid,
            target_comm=text(record.target_comm),
            sender="kernel" if record.from_kernel else "process",
            inside=record.head.span == record.target_span,
            limit=_bounded(record.limit),
            address=record.address or None,
            mapping=text(record.mapping) or None,
            offset=record.offset if record.mapping else None,
            file_size=record.file_size if record.mapping else None,
        )

    def _file(self, record: records.FileRecord) -> Event:
        name = self._call_name(record.syscall)
        return File(
            **self._base(record.head),  # type: ignore[arg-type]
            syscall=name,
            detail=describe(name, tuple(record.args)),
            path=text(record.path) or text(record.cwd),
            errno=abi.errno_name(record.error),
            cwd=text(record.cwd) or None,
            limit=_bounded(record.limit),
            capabilities=_known(record.capabilities),
            user_ns=record.user_ns_level or None,
        )


def _bounded(limit: int) -> int | None:
    """None where there is no limit, or none was looked up."""
    return limit if 0 < limit < _UNLIMITED else None


def _known(capabilities: int) -> int | None:
    return capabilities if capabilities != records.UNKNOWN_CAPABILITIES else None


def _stream(stream: records.Stream) -> str | None:
    if stream.pipe:
        return f"pipe:{stream.pipe}"
    return text(stream.file) or None


def _too_long(record: records.ExecFailedRecord) -> dict[str, object]:
    """Which limit of execve(2) the arguments and the environment exceed."""
    if record.error != errno.E2BIG or not record.strings:
        return {}
    if record.longest > _STRING_MAX:
        words = f"one argument of at least {record.longest - 1} bytes"
        return {"size": record.size, "limit": _STRING_MAX, "detail": words}
    limit = max(_STRINGS_MIN, min(_STRINGS_MAX, record.stack_limit // 4))
    words = "all arguments and the environment, with a pointer to each"
    return {"size": record.size, "limit": limit, "detail": words}


def address_text(family: int, raw: bytes) -> str:
    """An IPv4 or IPv6 address, the way people write it."""
    size = 4 if family == socket.AF_INET else 16
    return socket.inet_ntop(family, raw[:size]).removeprefix("::ffff:")  # IPv4 over an IPv6 socket


def may_be_served(family: str, address: str, protocol: str) -> bool:
    """Whether it may be known who listens there: by the port, which elsewhere is another's."""
    return is_local(family, address) and (family == "unix" or protocol == "stream")


def ctypes_bytes(record: object, field: str) -> bytes:
    """A char array whole; ctypes itself stops at the first NUL."""
    descriptor = getattr(type(record), field)
    start = descriptor.offset
    return bytes(memoryview(record).cast("B")[start : start + descriptor.size])  # type: ignore[arg-type]


def cgroup_path(limit: records.CgroupLimit) -> str:
    """The names from the top; at most CGROUP_DEPTH of them are known."""
    names = [text(bytes(name.value)) for name in limit.name]
    known = [name for name in names if name and name != "/"]
    return "/" + "/".join(reversed(known))
