"""What a running agent is asked: why did that fail, what happened lately, what happens now.

Who asks sees what its own user did, and what happened in its own session; root and the
members of the agent's group see everything.
"""

from __future__ import annotations

import dataclasses
import os
import socket
import struct
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from probe import identity, report
from probe.diagnose import Case, explain, make_case
from probe.events import KINDS, Event, JsonObject
from probe.job import Job, jobs
from probe.span import TEST_MAX, Span
from probe.watch import Watch

REPORTS_MAX = 20
EVENTS_MAX = 1000  # of one answer
_CASES = 50  # of failed spans
_CASE_EVENTS = 2000
_GROUPS = 256
_SO_PEERGROUPS = 59  # unix(7); Python's socket does not name it
_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid
_ANCESTORS = 32


class RefusedError(ValueError):
    """A request that the client must not, or cannot, have answered."""


@dataclass(frozen=True, slots=True)
class Asker:
    """Who is at the other end of a connection. `pid` is 0 where we cannot see it."""

    pid: int
    uid: int
    session: int = 0
    since_ns: int | None = None  # when its session began; None where that is not its own
    sees_all: bool = False

    @property
    def ancestors(self) -> list[int]:
        """Its processes upwards, the shell among them; what made the session is not."""
        found: list[int] = []
        pid = self.pid
        while pid and len(found) < _ANCESTORS and _session(pid) == self.session:
            found.append(pid)
            pid = _parent(pid)
        return found

    def sees(self, event: Event) -> bool:
        """Its own session's, whoever it became in it (sudo); of others, its own user's."""
        return self.sees_all or event.uid == self.uid or self._is_own_session(event)

    def _is_own_session(self, event: Event) -> bool:
        """A session's number may have been another's before."""
        return (
            self.since_ns is not None
            and event.session == self.session
            and event.time_ns >= self.since_ns
        )

    def sees_job(self, job: Job) -> bool:
        """Not in part: an explanation rests on all of it."""
        return self.sees_all or all(map(self.sees, job.events))


def asker(connection: socket.socket, group: int | None) -> Asker:
    """From the credentials that the kernel knows (unix(7)). `group`: whose members see all."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, gid = _CREDENTIALS.unpack(raw)
    try:
        listed = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, 4 * _GROUPS)
    except OSError:
        listed = b""
    groups = (gid, *struct.unpack(f"{len(listed) // 4}I", listed))
    session = _session(pid) if pid else 0
    since_ns = _began_ns(session, uid) if session else None
    return Asker(pid, uid, session, since_ns, uid == 0 or group in groups)


def _session(pid: int) -> int:
    """0 where it is gone."""
    try:
        return os.getsid(pid)
    except OSError:
        return 0


def _began_ns(session: int, uid: int) -> int | None:
    """By the wall clock, from its leader; None where that is gone or another user's."""
    try:
        if os.stat(f"/proc/{session}").st_uid != uid:
            return None
        ticks = int(_stat(session)[19])  # starttime, proc_pid_stat(5)
    except (OSError, IndexError, ValueError):
        return None
    booted_ns = time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    return booted_ns + (ticks - 1) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def _parent(pid: int) -> int:
    try:
        return int(_stat(pid)[1])
    except (OSError, IndexError, ValueError):
        return 0


def _stat(pid: int) -> list[bytes]:
    """The fields of proc_pid_stat(5) from `state` on."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()


class Inquiry:
    """Answers from the recorder, and from the spans that have failed."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._cases: list[tuple[int, Case]] = []

    def keep(self, case: Case, uid: int) -> None:
        """A span that has ended, of a user. Who has the most of them makes room."""
        if case.span.passed:
            return
        short = dataclasses.replace(case, events=tuple(_bounded(case.events)))
        self._cases.append((uid, short))
        if len(self._cases) > _CASES:
            [(most, _)] = Counter(one for one, _ in self._cases).most_common(1)
            del self._cases[[one for one, _ in self._cases].index(most)]

    def why(self, who: Asker, request: JsonObject) -> JsonObject:
        """The reports of what failed last, the latest first; `reason` where there is none."""
        pid, count = _number(request, "pid"), _number(request, "last") or 1
        if count > REPORTS_MAX:
            raise RefusedError(f"at most {REPORTS_MAX} at a time")
        test = request.get("test")
        if test is not None:
            seen = [case for uid, case in self._cases if who.sees_all or who.uid == uid]
            cases = [case for case in seen if case.span.test == str(test)]
            missing = f"no failed test {test!r} is remembered"
        else:
            found = self._wanted(who, pid)
            cases = [self._case(job) for job in found[-count:]]
            missing = _nothing(pid, who)
        reports = [report.build(case, explain(case)) for case in reversed(cases[-count:])]
        return {"reports": reports, "reason": None if reports else missing}

    def recent(self, who: Asker, request: JsonObject) -> JsonObject:
        """The latest events, oldest first; `earlier` says how many more match."""
        wanted = wants(request)
        limit = min(_number(request, "limit") or 100, EVENTS_MAX)
        found = [event for event in self._watch.recorded() if who.sees(event) and wanted(event)]
        return {
            "events": [event.as_json() for event in found[-limit:]],
            "earlier": max(0, len(found) - limit),
            "coverage": self._watch.coverage.as_json(),
        }

    def _wanted(self, who: Asker, pid: int | None) -> list[Job]:
        """Failed jobs in order of their ends: of the asker's shell, else of its session, else of
        its user."""
        every = [job for job in jobs(self._watch.recorded()) if who.sees_job(job)]
        if pid is not None:
            return [job for job in every if pid in job.pids]
        failed = [job for job in every if job.failed and not _is_ours(job)]
        above, session = set(who.ancestors), who.session
        of_shell = [job for job in failed if any(top.above in above for top in job.tops)]
        of_session = [job for job in failed if session and session in job.sessions]
        of_user = [job for job in failed if who.uid in job.uids] or failed
        return of_shell or of_session or of_user

    def _case(self, job: Job) -> Case:
        """With the job's top as its root; of a pipeline that failed at several stages, what
        started them."""
        top, command = job.top, job.command
        failing = [one for one in job.tops if one.exit is not None and one.exit.is_failure]
        exit_event = top.exit
        assert exit_event is not None
        span = Span(
            key=0,
            run="",
            test=" ".join(command)[:TEST_MAX],
            command=command,
            sandbox=identity.sandbox_id(),
            boot=identity.boot_id(),
            pid=top.pid if len(failing) < 2 else top.above,
            started_ns=job.started_ns,
            ended_ns=job.ended_ns,
            exit_code=exit_event.code,
            signal=exit_event.signal,
            outcome="failed" if job.failed else "passed",
        )
        losses = self._watch.lost_since(job.started_ns)
        return make_case(span, _bounded(job.events), self._watch.coverage, losses)


def wants(request: JsonObject) -> Wanted:
    """The events that a request is about: `kinds`, `failed`. RefusedError for an unknown kind."""
    kinds = request.get("kinds") or []
    if not isinstance(kinds, list) or any(kind not in KINDS for kind in kinds):
        raise RefusedError(f"kinds are {', '.join(KINDS)}")
    return Wanted(frozenset(kinds), bool(request.get("failed")))


@dataclass(frozen=True, slots=True)
class Wanted:
    """`kinds`: none for all."""

    kinds: frozenset[str]
    failed: bool

    def __call__(self, event: Event) -> bool:
        return (not self.kinds or event.kind in self.kinds) and (
            event.is_failure or not self.failed
        )


def _bounded(events: Sequence[Event]) -> list[Event]:
    """What failed, and as much of the rest as there is room for."""
    if len(events) <= _CASE_EVENTS:
        return list(events)
    failures = [event for event in events if event.is_failure][-_CASE_EVENTS:]
    room = _CASE_EVENTS - len(failures)
    others = [event for event in events if not event.is_failure]
    return [*failures, *(others[-room:] if room else [])]


def _is_ours(job: Job) -> bool:
    """`probe why` that found nothing is nothing to be explained."""
    comm = job.top.events[-1].comm
    return comm == "probe" and "run" not in job.command[:4]


def _nothing(pid: int | None, who: Asker) -> str:
    if pid is not None:
        return f"nothing is remembered of process {pid}"
    return f"no failed command of uid {who.uid} is remembered"


def _number(request: JsonObject, name: str) -> int | None:
    value = request.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 1 << 31:
        raise RefusedError(f"{name} must be a number above 0")
    return value
