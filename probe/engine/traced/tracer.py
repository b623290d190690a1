"""The tracing process: from the stops of a command to events, which it writes to a pipe.

What is looked up of a process is looked up while it stands still, so nothing of it is missed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import pickle
import signal
import struct
import time
from collections import deque
from dataclasses import dataclass, field

from probe import abi
from probe.abi.arguments import describe
from probe.context.stream import stream
from probe.engine import calls
from probe.engine.decode import text
from probe.engine.portable.cgroups import MEMORY, PIDS, Hierarchies
from probe.engine.portable.counters import Counters
from probe.engine.portable.family import Member
from probe.engine.records import FOLLOW_UPS
from probe.engine.traced import ptrace
from probe.engine.traced.connections import Connections, address_of
from probe.engine.traced.process import Process, link
from probe.engine.traced.ptrace import Entry
from probe.events import Event, Exec, Exit, File, Fork, Oom, Seccomp, Signal, Syscall

HEAD = struct.Struct("=I")  # the size of the pickled event that follows
_HELD = 64  # denials of one thread
_PIECE = 2048  # of one write(2)
_CRASHES = frozenset(
    {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGSYS}
)
_STOPPERS = frozenset({signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU})
_ENDING = frozenset(
    {
        *("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGALRM", "SIGABRT", "SIGSEGV"),
        *("SIGBUS", "SIGFPE", "SIGILL", "SIGXCPU", "SIGXFSZ"),
    }
)
_RESTARTS = range(512, 517)  # ERESTARTSYS and the like: the call is not over
_SYS_SECCOMP = 1
_NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR})
_REFUSED = frozenset({errno.EPERM, errno.EACCES})
_ALL_RIGHTS = 0xF | 1 << 21  # over files (capabilities 0 to 3), and CAP_SYS_ADMIN
# Their EPERM says that it makes no sense, and needs no right: of a file that cannot be polled,
# of who leads a group already.
_NOT_PERMITTED = frozenset({"epoll_ctl", "setpgid", "setsid", "ioctl", "prctl", "fcntl"})
_TRIED = frozenset({"rseq"})  # by the C library in each process, which does without
_EXECS = {"execve": 0, "execveat": 1}


def _numbers(mask: tuple[int, ...]) -> frozenset[int]:
    return frozenset(
        64 * at + bit for at, word in enumerate(mask) for bit in range(64) if word >> bit & 1
    )


@dataclass(slots=True)
class _Denial:
    """What a filter refused, and what its thread did then."""

    event: Seccomp
    next: list[str] = field(default_factory=list)
    calls: int = 0

    def follow(self, name: str, result: int) -> None:
        self.calls += 1
        if len(self.next) < FOLLOW_UPS:
            failed = -4096 < result < 0
            self.next.append(f"{name}=-{abi.errno_name(-result)}" if failed else f"{name}={result}")

    def told(self, ended: bool) -> Seccomp:
        after = self.calls if ended else None
        return dataclasses.replace(self.event, next=tuple(self.next), calls_after=after)


class Tracer:
    """Follows one process and all that come of it. `out` is where events go."""

    def __init__(self, root: int, span: int, out: int) -> None:
        self._out, self._span, self._root = out, span, root
        machine = abi.machine()
        self._machine = machine
        self._names = {number: name for name, number in abi.syscall_numbers(machine).items()}
        self._table = calls.table(machine)
        self._file_errnos = _numbers(calls.file_errnos())
        self._call_errnos = _numbers(calls.call_errnos())
        self._stops = ptrace.Stops(machine)
        self._entries: dict[int, Entry] = {}  # of those in a call
        self._last: dict[int, Entry] = {}  # a filter's kill comes after the call's end
        self._to_start: dict[int, str] = {}
        self._processes: dict[int, Process] = {}
        self._of_thread: dict[int, Process] = {}
        self._connections = Connections(self._base, self._send)
        self._denials: dict[int, deque[_Denial]] = {}
        self._hierarchies = Hierarchies()
        self._counters = Counters(self._hierarchies)
        self._sequence = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self._boot_ns = time.time_ns() - self._sequence

    def run(self) -> None:
        """Until the last of them has ended. BrokenPipeError when nobody listens any more."""
        try:
            ptrace.seize(self._root)
        except OSError as error:
            self._send(error.strerror or str(error))
            return
        self._process(self._root)
        self._send("")  # it is ready
        while True:
            try:
                tid, status = os.waitpid(-1, 0x40000000)  # __WALL
            except ChildProcessError:
                return
            with contextlib.suppress(ProcessLookupError):
                if os.WIFSTOPPED(status):
                    self._stopped(tid, os.WSTOPSIG(status), status >> 16)
                else:
                    self._gone(tid, status)

    # --- stops ---------------------------------------------------------------------

    def _stopped(self, tid: int, number: int, event: int) -> None:
        inject = 0
        if number == ptrace.SYSCALL_STOP:
            self._at_syscall(tid)
        elif event == ptrace.STOP:
            if number in _STOPPERS:
                ptrace.stay(tid)
                return
        elif event == ptrace.EXEC:
            self._became(tid)
        elif event == ptrace.EXIT:
            self._ends(tid, ptrace.message(tid))
        elif event in (ptrace.FORK, ptrace.VFORK, ptrace.CLONE):
            self._born(ptrace.message(tid), tid)
        elif event == 0:
            inject = number
            self._signalled(tid, number)
            if self._crashes_for_ever(tid, number):
                self._let_die(tid, number)
                return
        ptrace.resume(tid, inject)

    def _at_syscall(self, tid: int) -> None:
        stop = self._stops.at(tid)
        if isinstance(stop, Entry):
            self._entries[tid] = self._last[tid] = stop
            if self._name(stop) in _EXECS:  # if it succeeds, its path is gone with the memory
                at = stop.arguments[_EXECS[self._name(stop)]]
                self._to_start[tid] = text(ptrace.read_string(tid, at))
        elif stop is not None:
            entry = self._entries.pop(tid, None)
            if entry is not None and -stop not in _RESTARTS:
                for denial in self._denials.get(tid, ()):
                    denial.follow(self._name(entry), stop)
                self._returned(self._owner(tid), tid, entry, stop)

    def _owner(self, tid: int) -> Process:
        return self._of_thread.get(tid) or self._process(tid)

    def _process(self, tid: int, above: Process | None = None) -> Process:
        """Whose thread it is; what was not known before is looked up."""
        pid = _group(tid)
        found = self._processes.get(pid)
        if found is None:
            # /proc tells of a birth in hundredths of a second only.
            member = Member(pid, span=self._span, born_ns=time.time_ns() if above else 0)
            member.look(self._boot_ns)
            above = above or self._processes.get(member.parent)
            found = self._processes[pid] = Process(member)
            found.filtered = _is_filtered(pid)
            if above is not None:
                found.sockets = dict(above.sockets)
                found.missing.extend(above.missing)
            member.exe, member.argv = member.program()
            member.cgroups = self._counters.note(self._span, pid)
        found.threads.add(tid)
        self._of_thread[tid] = found
        return found

    def _born(self, tid: int, parent: int) -> None:
        if tid not in self._of_thread:
            self._process(tid, self._owner(parent))

    def _became(self, tid: int) -> None:
        process = self._owner(tid)
        member = process.member
        former = ptrace.message(tid)  # another thread than the first has become it
        if former in self._to_start:
            self._to_start[tid] = self._to_start.pop(former)
        member.exe, member.argv = member.program()
        member.look(self._boot_ns)
        member.cgroups = self._counters.note(self._span, member.pid)
        process.missing.clear()
        process.silenced = process.together = None
        path = self._to_start.get(tid) or member.exe or member.comm
        self._send(
            Exec(
                **self._base(process),  # type: ignore[arg-type]
                path=path,
                argv=member.argv,
                stdin=stream(member.pid, 0),
                stdout=stream(member.pid, 1),
            )
        )

    def _signalled(self, tid: int, number: int) -> None:
        """A signal that is about to be delivered; SIGSYS of a filter that traps among them."""
        process = self._owner(tid)
        code, sender = _signal_origin(tid)
        name = abi.signal_name(number)
        if name == "SIGSYS" and code == _SYS_SECCOMP:
            entry = self._last.pop(tid, None)  # who has no handler ends by it, and was told of
            if entry is not None:
                self._refused_by_filter(process, entry, "trap")
        elif name in _ENDING:
            by_kernel = code > 0
            origin = {**self._base(process)}
            if not by_kernel:
                known = self._processes.get(sender)
                origin.update(pid=sender, tid=sender, comm=known.member.comm if known else "")
            self._send(
                Signal(
                    **origin,  # type: ignore[arg-type]
                    signal=name,
                    target=process.member.pid,
                    target_comm=process.member.comm,
                    sender="kernel" if by_kernel else "process",
                    inside=by_kernel or sender in self._processes,
                )
            )

    def _crashes_for_ever(self, tid: int, number: int) -> bool:
        """The kernel does not end a traced init of a pid namespace for its own crash: it would
        run into it again and again (force_sig_info_to_task)."""
        if number not in _CRASHES or self._owner(tid).member.inner_pid != 1:
            return False
        caught = int(_of_status(tid, "SigCgt:") or "0", 16)
        return _signal_origin(tid)[0] > 0 and not caught >> (number - 1) & 1

    def _let_die(self, tid: int, number: int) -> None:
        """Untraced it ends by it; nobody tells us of that any more."""
        process = self._owner(tid)
        self._ends(tid, number)
        ptrace.release(tid, number)
        if process.threads == {tid}:
            self._gone(process.member.pid, number)

    def _refused_by_filter(
        self,
        process: Process,
        entry: Entry,
        action: str,
        error: str | None = None,
        survivor: int | None = None,
    ) -> None:
        """`survivor`: the thread that goes on, whose next calls say what it made of it."""
        name = self._name(entry)
        event = Seccomp(
            **self._base(process),  # type: ignore[arg-type]
            syscall=name,
            args=entry.arguments,
            action=action,
            errno=error,
            detail=describe(name, entry.arguments),
            path=self._path(process, entry)[0] or None,
        )
        if survivor is None:
            self._send(event)
            return
        held = self._denials.setdefault(survivor, deque())
        held.append(_Denial(event))
        if len(held) > _HELD:
            self._send(held.popleft().told(ended=False))

    def _tell_denials(self, tid: int, *, ended: bool) -> None:
        for denial in self._denials.pop(tid, ()):
            self._send(denial.told(ended))

    # --- ends ------------------------------------------------------------------------

    def _ends(self, tid: int, status: int) -> None:
        """A thread is about to end; its process still has all its files."""
        process = self._owner(tid)
        self._tell_denials(tid, ended=True)
        if status & 0x7F == signal.SIGSYS and tid in self._last and process.filtered:
            self._refused_by_filter(process, self._last[tid], "kill_process")
        if process.silenced is None:
            process.look_at_streams()
        process.member.comm = text(_comm(process.member.pid)) or process.member.comm
        if process.threads == {tid}:
            self._connections.end(process)

    def _gone(self, tid: int, status: int) -> None:
        process = self._of_thread.pop(tid, None)
        for known in (self._entries, self._last, self._to_start):
            known.pop(tid, None)
        self._stops.forget(tid)
        if process is None:
            return
        process.threads.discard(tid)
        if tid != process.member.pid:
            return  # the leader's end is told last
        self._processes.pop(tid, None)
        self._connections.gone(tid)
        if status & 0x7F == signal.SIGKILL:
            self._killed_for_memory(process)
        if tid == self._root:  # what lives on is nobody's from here on
            for other in list(self._denials):
                self._tell_denials(other, ended=False)
        self._send(self._exit(process, status))

    def _killed_for_memory(self, process: Process) -> None:
        """By the counter of a cgroup that it was in, if that has risen."""
        for rise in self._counters.rises(self._span):
            if rise.cgroup.controller == MEMORY and rise.cgroup in process.member.cgroups:
                self._send(
                    Oom(
                        **self._base(process),  # type: ignore[arg-type]
                        scope="cgroup",
                        cgroup=rise.limited.name,
                        limit=rise.limited.limit,
                        usage=rise.limited.usage,
                    )
                )
                return

    def _exit(self, process: Process, status: int) -> Exit:
        number, failed = status & 0x7F, status != 0
        now = time.time_ns()
        return Exit(
            **self._base(process),  # type: ignore[arg-type]
            code=None if number else status >> 8 & 0xFF,
            signal=abi.signal_name(number) if number else None,
            core=True if status & 0x80 else None,
            duration_s=(now - process.member.born_ns) / 1e9,
            reaper=process.member.parent,
            silenced=True if process.silenced else None,
            last_words=(process.words or None) if failed else None,
            last_output=(text(process.output).replace("\0", "") or None) if failed else None,
            missing=tuple(dict.fromkeys(process.missing)) if failed else (),
        )

    # --- results of calls ----------------------------------------------------------------

    def _name(self, entry: Entry) -> str:
        return self._names.get(entry.number, f"syscall_{entry.number}")

    def _returned(self, process: Process, tid: int, entry: Entry, result: int) -> None:
        name = self._name(entry)
        error = -result if -4096 < result < 0 else 0
        self._connections.called(process, name, entry, result, error)
        if not error:
            if name in ("write", "writev"):
                self._said(process, name, entry, result)
            elif name in ("seccomp", "prctl") and not process.filtered:
                process.filtered = _is_filtered(process.member.pid)
            elif name == "close":
                closed = process.sockets.pop(entry.arguments[0], None)
                if closed is not None:
                    self._connections.give_up(process, closed)
            return
        call = self._table.get(entry.number) or self._table[calls._BEYOND]
        if process.filtered and _is_of_filter(name, call.sense, error, tid):
            self._refused_by_filter(process, entry, "errno", abi.errno_name(error), tid)
        elif call.sense in (calls.EXEC, calls.EXECAT):
            self._not_started(process, tid, entry, error, call.sense)
        elif call.sense == calls.FORK:
            self._not_forked(process, name, error)
        elif call.sense == calls.BIND:
            self._not_bound(process, entry, error)
        elif call.sense == calls.FILE and error in _NOT_THERE:
            path, cwd = self._path(process, entry)
            process.missing.append(path or cwd)
        elif call.sense == calls.FILE and _is_told(call, error) and error in self._file_errnos:
            path, cwd = self._path(process, entry)
            self._send(
                File(
                    **self._base(process),  # type: ignore[arg-type]
                    syscall=name,
                    detail=describe(name, entry.arguments),
                    path=path or cwd,
                    errno=abi.errno_name(error),
                    cwd=cwd or None,
                    capabilities=_capabilities(tid),
                )
            )
        elif (
            name not in _TRIED
            and call.sense != calls.CONNECT
            and (
                error in self._call_errnos or (call.sense == calls.PRIVILEGED and error in _REFUSED)
            )
        ):
            self._send(
                Syscall(
                    **self._base(process),  # type: ignore[arg-type]
                    syscall=name,
                    args=entry.arguments,
                    errno=abi.errno_name(error),
                    path=self._path(process, entry)[0] or None,
                    detail=describe(name, entry.arguments),
                    capabilities=_capabilities(tid),
                )
            )

    def _path(self, process: Process, entry: Entry) -> tuple[str, str]:
        """The path that a call names, and the directory (or the file) that it starts from."""
        call = self._table.get(entry.number)
        if call is None:
            return "", ""
        pid, arguments = process.member.pid, entry.arguments
        path = ""
        if call.path_arg != calls.NO_ARG:
            path = text(ptrace.read_string(pid, arguments[call.path_arg]))
        if path.startswith("/"):
            return path, ""
        start = "cwd"
        if call.dirfd_arg != calls.NO_ARG:
            fd = arguments[call.dirfd_arg] & 0xFFFFFFFF
            start = f"fd/{fd}" if fd < 1 << 31 else "cwd"
        return path, link(f"/proc/{pid}/{start}")

    def _not_started(
        self, process: Process, tid: int, entry: Entry, error: int, sense: int
    ) -> None:
        at = 1 if sense == calls.EXECAT else 0
        pid = process.member.pid
        path = ptrace.read_string(pid, entry.arguments[at])
        argv = ptrace.read_strings(pid, entry.arguments[at + 1])
        self._send(
            Exec(
                **self._base(process),  # type: ignore[arg-type]
                path=text(path),
                argv=tuple(map(text, argv)),
                cwd=link(f"/proc/{tid}/cwd") or None,
                errno=abi.errno_name(error),
            )
        )

    def _not_forked(self, process: Process, name: str, error: int) -> None:
        if error not in (errno.EAGAIN, errno.ENOMEM):
            return
        full = next(
            (
                cgroup
                for cgroup in self._hierarchies.of(process.member.pid)
                if cgroup.controller == PIDS
                and cgroup.limit is not None
                and (cgroup.usage or 0) >= cgroup.limit
            ),
            None,
        )
        self._send(
            Fork(
                **self._base(process),  # type: ignore[arg-type]
                syscall=name,
                errno=abi.errno_name(error),
                cgroup=full.name if full else None,
                pids_max=full.limit if full else None,
                pids_current=full.usage if full else None,
                nproc_limit=_process_limit(process.member.pid),
            )
        )

    def _not_bound(self, process: Process, entry: Entry, error: int) -> None:
        peer = address_of(process, entry.arguments[1], entry.arguments[2])
        if peer is None or error == errno.EADDRINUSE:
            return
        base = {**self._base(process), "syscall": "bind", "errno": abi.errno_name(error)}
        base["capabilities"] = _capabilities(process.member.pid)
        if peer.family == "unix":
            self._send(File(**base, path=peer.address))  # type: ignore[arg-type]
            return
        host = f"[{peer.address}]" if ":" in peer.address else peer.address
        self._send(Syscall(**base, detail=f"{host}:{peer.port}", port=peer.port))  # type: ignore[arg-type]

    def _said(self, process: Process, name: str, entry: Entry, result: int) -> None:
        fd, address, size = entry.arguments[0], entry.arguments[1], result
        if not process.speaks_by(fd):
            return
        pid = process.member.pid
        if process.together is None:
            process.look_at_streams()
        if name == "writev":
            vector = ptrace.read(pid, address, 16 * min(8, entry.arguments[2]))
            parts = [struct.unpack_from("=QQ", vector, at) for at in range(0, len(vector) - 15, 16)]
        else:
            parts = [(address, size)]
        for start, length in parts:
            process.hear(fd, ptrace.read(pid, start, min(length, _PIECE)))

    # --- events ---------------------------------------------------------------------------

    def _base(self, process: Process) -> dict[str, object]:
        member = process.member
        self._sequence += 1
        return {
            "sequence": self._sequence,
            "time_ns": time.time_ns(),
            "pid": member.pid,
            "tid": member.pid,
            "ppid": member.parent,
            "uid": member.uid,
            "comm": member.comm,
            "exe": member.exe,
            "span": self._span,
            "mnt_ns": member.mnt_ns,
            "inner_pid": member.inner_pid,
            "session": member.session,
        }

    def _send(self, event: Event | str) -> None:
        """An event; at first why there will be none, empty where there will."""
        data = pickle.dumps(event)
        data = HEAD.pack(len(data)) + data
        while data:
            data = data[os.write(self._out, data) :]


def _group(tid: int) -> int:
    """The process that a thread belongs to."""
    word = _of_status(tid, "Tgid:")
    return int(word) if word.isdecimal() else tid


def _capabilities(tid: int) -> int | None:
    """The effective ones, a bit each."""
    word = _of_status(tid, "CapEff:")
    return int(word, 16) if word else None


def _is_filtered(tid: int) -> bool:
    """Whether a seccomp filter is in force."""
    return _of_status(tid, "Seccomp:") == "2"


def _is_told(call: calls.Call, error: int) -> bool:
    """Where a folder may not be searched, it is most often stat(2) that finds out."""
    return bool(call.reported) or error == errno.EACCES


def _is_of_filter(name: str, sense: int, error: int, tid: int) -> bool:
    """Whether it is the filter's answer more likely than the kernel's.

    The kernel has the calls that programs use, and says EPERM to who lacks a right to a file
    or to a privileged operation; to who has all rights, and elsewhere, hardly ever.
    """
    if name in _TRIED:
        return False
    if error == errno.ENOSYS:
        return True
    has_all = error in _REFUSED and (_capabilities(tid) or 0) & _ALL_RIGHTS == _ALL_RIGHTS
    if sense == calls.PRIVILEGED:
        return has_all
    if error != errno.EPERM or name in _NOT_PERMITTED:
        return False
    return has_all if sense in (calls.FILE, calls.BIND) else sense != calls.CONNECT


def _of_status(tid: int, name: str) -> str:
    try:
        with open(f"/proc/{tid}/status", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith(name):
                    return line[len(name) :].strip()
    except OSError:
        pass
    return ""


def _process_limit(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/limits", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith("Max processes"):
                    word = line.split()[2]
                    return int(word) if word.isdecimal() else None
    except (OSError, IndexError):
        pass
    return None


def _comm(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            return file.read().rstrip(b"\n")
    except OSError:
        return b""


def _signal_origin(tid: int) -> tuple[int, int]:
    """si_code, and who sent it where somebody did; (0, 0) where it is not told."""
    try:
        _, _, code, _, pid = struct.unpack_from("=5i", ptrace.signal_information(tid))
    except OSError:
        return 0, 0
    return code, pid if code <= 0 else 0
