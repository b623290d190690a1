"""The portable engine: see Engine. It needs /proc and nothing else, and sees what that allows."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from probe import abi
from probe.coverage import Coverage, Losses
from probe.engine.engine import NamespaceSeen, SpanNamed
from probe.engine.errors import EngineError
from probe.engine.portable import connector as told
from probe.engine.portable import processes, senses
from probe.engine.portable.cgroups import Hierarchies
from probe.engine.portable.connector import Connector, Message
from probe.engine.portable.counters import MEMORY, Counters, Rise
from probe.engine.portable.endings import Endings
from probe.engine.portable.family import Family, Member, text
from probe.engine.portable.kernel_log import Audit, Choice, KernelLog
from probe.engine.portable.space import Full, full
from probe.engine.portable.waiting import Outcome, Waiting
from probe.events import Connect, Event, Exec, Exit, Fork, Limit, Oom, Seccomp
from probe.pidfd import pid_of

LOOK_S = 0.002  # between two looks at a young span's processes
_LOOK_MOST_S = 0.25
_SURVEY_S = 0.05  # between two looks at its sockets and counters
_SURVEY_MOST_S = 1.0
_IDLE = 50  # times as long as a look took, nothing is looked at: 2 % of one CPU
_PATIENCE = 0.02  # of a span's age may pass between two looks
_MESSAGES = 4096  # that are taken in at once
_EVENTS_MAX = 65_536  # that wait to be read
_URGENT = 1024  # of them
_KEPT_DESCRIPTORS = 256
_SAME_BIRTH_NS = 30_000_000  # /proc counts in hundredths of a second
_AUDIT_S = 0.1  # kauditd writes what a filter ended a moment after the end
_GENERATIONS = 32  # of processes that are found in one look
_CORE, _SIGKILL, _SIGSYS = 0x80, int(signal.SIGKILL), int(signal.SIGSYS)
_ACTIONS = {
    0x80000000: "kill_process",
    0x00000000: "kill_thread",
    0x00030000: "trap",
    0x00050000: "errno",
    0x7FF00000: "trace",
    0x7FC00000: "user_notif",
}
_INITIAL_PID_NAMESPACE = 0xEFFFFFFC  # PROC_PID_INIT_INO


class _Span:
    """What is known of an open span beside its processes."""

    def __init__(self, root: int, losses: Losses) -> None:
        self.root, self.losses = root, losses
        self.began = self.changed = time.monotonic()
        self.full_before = full()
        self.told_full: set[Full] = set()
        self.killed: list[tuple[Member, int]] = []  # by SIGKILL, and the time
        self.deaths: list[Rise] = []  # OOM kills whose victims are not known yet
        self.refused: list[tuple[Rise, int]] = []  # forks, by nobody yet, and the time
        self.unheard: set[int] = set()  # ended by SIGSYS, and the log has not said by which call


class PortableEngine:
    """One thread looks and listens; whoever reads takes what it has found."""

    name = "portable"

    def __init__(self, everyone: bool = False) -> None:
        if processes.stat_of(os.getpid()) is None:
            raise EngineError(
                "no process can be seen in /proc", "mount it: mount -t proc proc /proc"
            )
        self._everyone = everyone
        self._lock = threading.RLock()
        self._connector, self._silence = _opened(Connector)
        self._log, unread = _opened(KernelLog)
        if self._log is not None and not _is_initial():
            self._log.close()  # its numbers are those of other processes
            self._log, unread = None, "this is a pid namespace of its own"
        hierarchies = Hierarchies()
        self.coverage = Coverage(
            self.name,
            senses.states(self._silence, unread, hierarchies.of(os.getpid()), LOOK_S),
            "time" if self._connector is None else "exact",
        )
        self._family, self._children = Family(), processes.Children()
        self._endings = Endings(_KEPT_DESCRIPTORS)
        self._counters, self._waiting = Counters(hierarchies), Waiting()
        self._spans: dict[int, _Span] = {}
        self._namespace_seen: NamespaceSeen = lambda number, pid, span: None
        self._next_sequence = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self._ready: list[Event] = []
        self._unkept = 0  # events for which there was no room
        self._look_cost = self._survey_cost = 0.0
        self._looked = self._surveyed = 0.0
        self._readable, self._tell = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._woken, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._closing = False
        self._offset = 0
        self._thread: threading.Thread | None = None
        self._handlers: dict[int, Callable[[Message], None]] = {
            told.FORK: self._forked,
            told.EXEC: self._executed,
            told.EXIT: self._exited,
            told.COMM: self._renamed,
            told.UID: self._changed_user,
            told.SID: self._began_session,
        }
        if everyone and self._connector is not None:
            self._take_everybody()
            self._start()
        elif everyone:
            self.coverage.senses["exec"] += "; whoever belongs to no span is not followed"

    # --- for whoever uses it ---------------------------------------------------

    def tell_namespaces(self, seen: NamespaceSeen) -> None:
        self._namespace_seen = seen

    def tell_named(self, seen: SpanNamed) -> None:
        """Nobody is told: an environment is read too late to begin a span with."""

    def fileno(self) -> int:
        return self._readable

    def read(self) -> list[Event]:
        with self._lock:
            with contextlib.suppress(BlockingIOError):
                os.read(self._readable, 4096)
            ready, self._ready = self._ready, []
            return sorted(ready, key=lambda event: event.time_ns)

    def flush(self, span: int) -> list[Event]:
        with self._lock:
            self._take_in()
            if span in self._spans:
                if self._connector is None:
                    self._look()
                self._survey()
                self._hear_of_kills(self._spans[span])
                self._conclude(span)
        return self.read()

    def unfold(self, span: int) -> list[Event]:
        return self.read()

    def mark(self, pidfd: int, span: int) -> None:
        with self._lock:
            self._take_in()
            pid = pid_of(pidfd)
            member = self._family.get(pid) or self._known(pid)
            if member is None:
                raise ProcessLookupError(f"process {pid} is gone")
            member.span = span
            if span:
                member.cgroups = self._counters.note(span, pid)
                self._endings.watch(pid)
                self._spans[span] = _Span(pid, self._lost())
        self._start()
        os.write(self._wake, b"w")

    def span_of(self, pidfd: int) -> int:
        with self._lock:
            self._take_in()
            member = self._family.get(pid_of(pidfd))
            return member.span if member is not None else 0

    def losses(self, span: int) -> Losses:
        with self._lock:
            known = self._spans.pop(span, None)
            self._counters.forget(span)
            if span:
                self._family.leave(span, keep=self._everyone)
            return self._lost().since(known.losses) if known is not None else self._lost()

    def close(self) -> None:
        with self._lock:
            self._closing = True
        if self._thread is not None:
            os.write(self._wake, b"w")
            self._thread.join()
        for fd in (self._readable, self._tell, self._woken, self._wake):
            os.close(fd)
        self._endings.close()
        for listener in (self._connector, self._log):
            if listener is not None:
                listener.close()

    # --- the thread --------------------------------------------------------------

    def _start(self) -> None:
        """All signals stay those of the threads that were there before."""
        if self._thread is not None:
            return
        self._thread = threading.Thread(target=self._listen, name="portable", daemon=True)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._thread.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _listen(self) -> None:
        poll = select.poll()
        for listener in (self._connector, self._log, self._woken):
            if listener is not None:
                poll.register(listener, select.POLLIN)
        while True:
            with self._lock:
                wait_s = self._wait_s()
            poll.poll(None if wait_s is None else max(1.0, wait_s * 1000))
            with self._lock:
                if self._closing:
                    return
                with contextlib.suppress(BlockingIOError):
                    os.read(self._woken, 4096)
                self._take_in()
                self._look_around()

    def _wait_s(self) -> float | None:
        """Until the next look; None where there is nothing to look at."""
        if not self._spans:
            return None
        now = time.monotonic()
        waits = [self._surveyed + self._survey_every() - now]
        if self._connector is None:
            waits.append(self._looked + self._look_every() - now)
        return max(0.0, min(waits))

    def _look_every(self) -> float:
        """Often while a span is young or has just changed, never so often that it is felt."""
        age = time.monotonic() - max(span.changed for span in self._spans.values())
        return max(LOOK_S, _IDLE * self._look_cost, min(_LOOK_MOST_S, _PATIENCE * age))

    def _survey_every(self) -> float:
        age = time.monotonic() - max(span.began for span in self._spans.values())
        return max(_SURVEY_S, _IDLE * self._survey_cost, min(_SURVEY_MOST_S, _PATIENCE * age))

    def _look_around(self) -> None:
        if not self._spans:
            return
        now = time.monotonic()
        if self._connector is None and now - self._looked >= self._look_every():
            self._look_cost = _cost(self._look)
            self._looked = time.monotonic()
        if now - self._surveyed >= self._survey_every():
            self._survey_cost = _cost(self._survey)
            self._surveyed = time.monotonic()

    def _take_in(self) -> None:
        """What the kernel has told. The log comes first: it says why somebody ends."""
        if self._log is not None:
            for entry in self._log.read(_MESSAGES):
                self._heard(entry)
        if self._connector is None:
            return
        before = self._connector.overruns
        messages = self._connector.read(_MESSAGES)
        offset = time.time_ns() - time.monotonic_ns()
        for message in messages:
            self._offset = offset
            self._handlers[message.what](message)
        if self._connector.overruns != before:
            self._find_those_missed()

    # --- what the connector tells ------------------------------------------------

    def _forked(self, message: Message) -> None:
        _, parent, child, group = message.numbers
        if child != group:
            member = self._family.get(group)
            if member is not None:
                member.threads.add(child)
            return
        above = self._family.get(parent)
        if above is None and self._everyone:
            above = self._known(parent)
        if above is not None:
            self._family.born(child, above, message.time_ns + self._offset)

    def _member(self, pid: int) -> Member | None:
        member = self._family.get(pid)
        return self._known(pid) if member is None and self._everyone else member

    def _executed(self, message: Message) -> None:
        member = self._member(message.numbers[1])
        if member is None:
            return
        member.threads = {member.pid}
        time_ns = message.time_ns + self._offset
        exe, argv = member.program()  # at once: many programs are gone in a millisecond
        if member.look(_boot_ns()):
            self._started(member, exe or member.comm, argv, time_ns)
            return
        # It has gone, and nobody knows any more which program it was.
        member.comm = member.exe = ""
        member.argv = ()
        self._add(Exec(**self._base(member, time_ns), path=""))  # type: ignore[arg-type]

    def _started(self, member: Member, exe: str, argv: tuple[str, ...], time_ns: int) -> None:
        if (exe, argv) == member.told:
            return  # it has become yet another one since, of which we have told already
        member.exe, member.argv = member.told = exe, argv
        if member.span:
            member.cgroups = self._counters.note(member.span, member.pid)
            self._namespace_seen(member.mnt_ns, member.pid, member.span)
        self._add(Exec(**self._base(member, time_ns), path=member.exe, argv=member.argv))  # type: ignore[arg-type]

    def _exited(self, message: Message) -> None:
        """Of one thread; the process ends with its last one."""
        thread, pid, status, _ = message.numbers[:4]
        member = self._family.get(pid)
        if member is None:
            return
        member.threads.discard(thread)
        if not member.threads:
            self._ended(member, status, message.time_ns + self._offset)

    def _renamed(self, message: Message) -> None:
        thread, pid = message.numbers
        member = self._family.get(pid)
        if member is not None and thread == pid:
            member.comm = text(message.comm)

    def _changed_user(self, message: Message) -> None:
        member = self._family.get(message.numbers[1])
        if member is not None:
            member.uid = message.numbers[3]

    def _began_session(self, message: Message) -> None:
        member = self._family.get(message.numbers[1])
        if member is not None:
            member.session = member.pid

    def _find_those_missed(self) -> None:
        """After an overrun: who has gone is dropped, who came is found by looking."""
        for member in list(self._family.members.values()):
            stat = processes.stat_of(member.pid)
            if stat is None or stat.state in "ZX":
                self._family.end(member)
        self._find_children()

    # --- what looking finds --------------------------------------------------------

    def _take_everybody(self) -> None:
        for pid in processes.everybody():
            self._known(pid)

    def _known(self, pid: int) -> Member | None:
        """Somebody who was there before us; None where he has gone, or there is no room."""
        member = Member(pid, threads=processes.threads(pid) or {pid})
        if not member.look(_boot_ns()) or not self._family.add(member):
            return None
        member.exe, member.argv = member.program()
        return member

    def _find_children(self) -> list[Member]:
        found: list[Member] = []
        searched = self._family.of_spans()
        for _ in range(_GENERATIONS):
            born = []
            for pid, parent in self._children.of([member.pid for member in searched]):
                above = self._family.get(parent)
                if pid in self._family.members or above is None or self._has_ended(pid):
                    continue
                child = self._family.born(pid, above, 0)
                if child is not None and child.look(_boot_ns()):
                    self._endings.watch(pid)
                    born.append(child)
            found += born
            searched = born
            if not born:
                break
        return found

    def _has_ended(self, pid: int) -> bool:
        """Whether it is a zombie that was told of, and no other process by the same number."""
        ended, stat = self._family.ended.get(pid), processes.stat_of(pid)
        if ended is None or stat is None:
            return ended is not None
        return abs(_boot_ns() + stat.started_s * 1e9 - ended.born_ns) < _SAME_BIRTH_NS

    def _look(self) -> None:
        """Who has come, who has become another program, and who has gone."""
        for member in self._find_children():
            self._spans_changed(member)
        gone = []
        for member in self._family.of_spans():
            stat = processes.stat_of(member.pid)
            if stat is None or stat.state in "ZX":
                gone.append((member, stat))
                continue
            exe, argv = member.program()
            if argv and (exe, argv) != (member.exe, member.argv):
                member.look(_boot_ns())
                self._started(member, exe, argv, time.time_ns())
                self._spans_changed(member)
        # Of those that are found ended in one look, the children have ended first.
        for member, stat in reversed(gone):
            self._has_gone(member, stat)

    def _spans_changed(self, member: Member) -> None:
        span = self._spans.get(member.span)
        if span is not None:
            span.changed = time.monotonic()

    def _has_gone(self, member: Member, stat: processes.Stat | None) -> None:
        """A zombie shows its status to its own user, but 0 may stand for nothing there."""
        status = (stat.status or None) if stat is not None else self._endings.status(member.pid)
        if stat is not None and status is None:
            return  # its status may be told when it is reaped
        self._spans_changed(member)
        self._ended(member, status, time.time_ns())

    def _survey(self) -> None:
        now_ns = time.time_ns()
        members = self._family.of_spans()
        for outcome in self._waiting.look(members, now_ns):
            self._connected(outcome)
        for span in list(self._spans):
            self._count(span)

    # --- what comes of it ------------------------------------------------------------

    def _ended(self, member: Member, status: int | None, time_ns: int) -> None:
        """`status` is a wait status, None where nobody tells it: then nothing is said of it."""
        self._family.end(member)
        self._endings.forget(member.pid)
        for outcome in self._waiting.ended(member, time_ns):
            self._connected(outcome)
        span = self._spans.get(member.span)
        if status is None:
            return
        number = status & 0x7F
        if span is not None and status:
            if number == _SIGKILL:
                span.killed.append((member, time_ns))
            elif number == _SIGSYS:
                span.unheard.add(member.pid)
            self._count(member.span)
            self._blame_forks(span, member)
            self._fill(member, span, time_ns)
        self._add(
            Exit(
                **self._base(member, time_ns),  # type: ignore[arg-type]
                code=None if number else status >> 8 & 0xFF,
                signal=abi.signal_name(number) if number else None,
                core=True if status & _CORE else None,
                duration_s=(time_ns - member.born_ns) / 1e9 if member.born_ns else None,
                reaper=member.parent,
            )
        )

    def _connected(self, outcome: Outcome) -> None:
        entry = outcome.entry
        self._add(
            Connect(
                **self._base(outcome.member, outcome.ended_ns),  # type: ignore[arg-type]
                family=entry.family,
                address=entry.address,
                port=entry.port,
                abandoned=True if outcome.abandoned else None,
                duration_s=(outcome.ended_ns - outcome.began_ns) / 1e9,
            )
        )

    def _fill(self, member: Member, span: _Span, time_ns: int) -> None:
        """Where somebody failed, file systems that are full and were not when the span began."""
        for found in full() - span.full_before - span.told_full:
            span.told_full.add(found)
            named = f"{found.of} of {found.mount}"
            self._add(Limit(**self._base(member, time_ns), limit=named, value=found.size))  # type: ignore[arg-type]

    def _count(self, number: int) -> None:
        """Whether cgroups have counted something since the last look."""
        span = self._spans[number]
        for rise in self._counters.rises(number):
            if rise.cgroup.controller != MEMORY:
                if self._is_alone(number, rise):
                    span.refused.append((rise, time.time_ns()))
            elif self._log is None:
                span.deaths.append(rise)
        for rise in list(span.deaths):
            victims = [pair for pair in span.killed if rise.cgroup in pair[0].cgroups]
            for victim, time_ns in victims[: rise.by]:
                span.killed.remove((victim, time_ns))
                self._killed_for_memory(victim, time_ns, rise)
            if victims:
                span.deaths.remove(rise)

    def _is_alone(self, span: int, rise: Rise) -> bool:
        """Whether nobody but the span's processes, and who waits for them, is in the cgroup."""
        there = rise.cgroup.members()
        waiting = {os.getpid(), *_above(os.getpid())}
        return there is not None and all(pid in waiting or self._is_of(span, pid) for pid in there)

    def _is_of(self, span: int, pid: int) -> bool:
        """By its own number or that of a process above it; it may be too new to be known.

        0 stands for somebody outside of our pid namespace.
        """
        if pid == 0:
            return False
        line = [pid, *_above(pid)]
        known = next(filter(None, map(self._family.living_or_ended, line)), None)
        return known.span == span if known is not None else len(line) == 1

    def _blame_forks(self, span: _Span, member: Member) -> None:
        """Who fails in a cgroup that refused a process is taken for whom it was refused to."""
        for pair in list(span.refused):
            if pair[0].cgroup in member.cgroups:
                span.refused.remove(pair)
                self._refused(member, *pair)

    def _refused(self, member: Member, rise: Rise, time_ns: int) -> None:
        limit = rise.limited.limit
        if limit is None:
            return
        self._add(
            Fork(
                **self._base(member, time_ns),  # type: ignore[arg-type]
                syscall="fork",
                errno="EAGAIN",
                cgroup=rise.limited.name,
                pids_max=limit,
                pids_current=rise.limited.usage,
            )
        )

    def _killed_for_memory(self, victim: Member, time_ns: int, rise: Rise) -> None:
        self._add(
            Oom(
                **self._base(victim, time_ns - 1),  # type: ignore[arg-type]
                scope="cgroup",
                cgroup=rise.limited.name,
                limit=rise.limited.limit,
                usage=rise.limited.usage,
            )
        )

    def _conclude(self, number: int) -> None:
        """What is left open when a span ends."""
        span = self._spans[number]
        root = self._family.living_or_ended(span.root)
        for pair in span.refused:
            if root is not None:
                self._refused(root, *pair)
        span.refused.clear()

    # --- what the kernel log tells -----------------------------------------------------

    def _heard(self, entry: Choice | Audit) -> None:
        member = self._family.living_or_ended(entry.pid)
        if member is None:
            return
        if isinstance(entry, Choice):
            self._add(
                Oom(
                    **self._base(member, time.time_ns()),  # type: ignore[arg-type]
                    scope="cgroup" if entry.of_cgroup else "system",
                    cgroup=entry.cgroup,
                    limit=entry.limit,
                    usage=entry.usage,
                    virtual=entry.virtual,
                )
            )
            return
        span = self._spans.get(member.span)
        if span is not None:
            span.unheard.discard(entry.pid)
        machine = next((name for name, arch in abi.AUDIT_ARCH.items() if arch == entry.arch), None)
        self._add(
            Seccomp(
                **self._base(member, entry.time_ns),  # type: ignore[arg-type]
                syscall=abi.syscall_name(entry.syscall, machine),
                action=_ACTIONS.get(entry.code & 0xFFFF0000, "kill_process"),
            )
        )

    def _hear_of_kills(self, span: _Span) -> None:
        """Waits a moment for the log, where a filter has ended somebody."""
        end = time.monotonic() + _AUDIT_S
        while self._log is not None and span.unheard and time.monotonic() < end:
            poll = select.poll()
            poll.register(self._log, select.POLLIN)
            poll.poll(10)
            self._take_in()

    # --- events ----------------------------------------------------------------------------

    def _base(self, member: Member, time_ns: int) -> dict[str, object]:
        self._next_sequence += 1
        return {
            "sequence": self._next_sequence,
            "time_ns": time_ns,
            "pid": member.pid,
            "tid": member.pid,
            "ppid": member.parent,
            "uid": member.uid,
            "comm": member.comm,
            "exe": member.exe,
            "span": member.span,
            "mnt_ns": member.mnt_ns,
            "inner_pid": member.inner_pid,
            "session": member.session,
        }

    def _add(self, event: Event) -> None:
        if not event.span and not self._everyone:
            return
        if len(self._ready) >= _EVENTS_MAX:
            self._unkept += 1
            return
        self._ready.append(event)
        if len(self._ready) == _URGENT:  # else whoever reads comes by soon enough
            with contextlib.suppress(BlockingIOError):
                os.write(self._tell, b"e")

    def _lost(self) -> Losses:
        """Since the engine was opened; whose it was cannot be told."""
        overruns = self._connector.overruns if self._connector is not None else 0
        counted = {
            "exec": overruns + self._unkept,
            "fork": self._family.refused,
            "oom": self._log.overruns if self._log is not None else 0,
        }
        return Losses({sense: count for sense, count in counted.items() if count})


def _above(pid: int) -> list[int]:
    """Its parent, and so on upwards; empty where it has gone."""
    line: list[int] = []
    for _ in range(_GENERATIONS):
        stat = processes.stat_of(pid)
        if stat is None or not stat.parent:
            break
        pid = stat.parent
        line.append(pid)
    return line


def _cost(look: Callable[[], None]) -> float:
    """Seconds of CPU."""
    before = time.thread_time()
    look()
    return time.thread_time() - before


def _boot_ns() -> int:
    """When this machine started, by the clock that the epoch goes by."""
    return time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def _is_initial() -> bool:
    """Whether the kernel log numbers processes as we do."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino == _INITIAL_PID_NAMESPACE
    except OSError:
        return False


Listener = TypeVar("Listener")


def _opened(make: Callable[[], Listener]) -> tuple[Listener | None, str]:
    """What is made, or why it is not to be had."""
    try:
        return make(), ""
    except (TimeoutError, ConnectionRefusedError):
        return None, "the kernel tells nothing in this namespace"
    except OSError as error:
        return None, error.strerror or str(error)
