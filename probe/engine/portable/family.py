"""The processes that are followed, and the span that each belongs to."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from dataclasses import dataclass, field

from probe.engine.portable import processes
from probe.engine.portable.cgroups import Cgroup

MEMBERS_MAX = 16_384
_ENDED_MAX = 256


def text(raw: bytes) -> str:
    """Bytes of a workload as text; what is not UTF-8 survives as escapes."""
    return raw.decode(errors="backslashreplace")


@dataclass(slots=True, eq=False)
class Member:
    """One process. `argv` and `exe` are of the program that it is known to execute."""

    pid: int
    parent: int = 0
    span: int = 0
    born_ns: int = 0
    comm: str = ""
    exe: str = ""
    argv: tuple[str, ...] = ()
    told: tuple[str, tuple[str, ...]] | None = None  # the last program that an event told of
    uid: int = 0
    session: int = 0
    inner_pid: int = 0
    mnt_ns: int = 0
    threads: set[int] = field(default_factory=set)
    cgroups: list[Cgroup] = field(default_factory=list)

    def look(self, boot_ns: int) -> bool:
        """Takes in who it is, from /proc; False where it has gone. `boot_ns` is since the epoch."""
        stat = processes.stat_of(self.pid)
        if stat is None:
            return False
        self.comm, self.parent, self.session = text(stat.comm), stat.parent, stat.session
        self.born_ns = self.born_ns or boot_ns + int(stat.started_s * 1e9)
        status = processes.status_of(self.pid)
        self.uid, self.inner_pid = status.uid, status.inner_pid
        self.mnt_ns = processes.mount_namespace(self.pid)
        return True

    def program(self) -> tuple[str, tuple[str, ...]]:
        """The path and the words of what it executes now, as far as they are shown."""
        argv = tuple(text(word) for word in processes.command_line(self.pid))
        return processes.program(self.pid) or (argv[0] if argv else ""), argv


class Family:
    """Bounded: whoever comes when it is full is counted, and not followed."""

    def __init__(self) -> None:
        self.members: dict[int, Member] = {}
        self.ended: OrderedDict[int, Member] = OrderedDict()  # the last ones, for what comes late
        self.refused = 0

    def get(self, pid: int) -> Member | None:
        return self.members.get(pid)

    def living_or_ended(self, pid: int) -> Member | None:
        return self.members.get(pid) or self.ended.get(pid)

    def add(self, member: Member) -> bool:
        if len(self.members) >= MEMBERS_MAX:
            self.refused += 1
            return False
        self.members[member.pid] = member
        return True

    def born(self, pid: int, parent: Member, time_ns: int) -> Member | None:
        """A copy of its parent, until it becomes a program of its own; None where it is full."""
        child = dataclasses.replace(
            parent,
            pid=pid,
            parent=parent.pid,
            born_ns=time_ns,
            inner_pid=0,
            told=None,
            threads={pid},
        )
        return child if self.add(child) else None

    def end(self, member: Member) -> None:
        self.members.pop(member.pid, None)
        self.ended[member.pid] = member
        if len(self.ended) > _ENDED_MAX:
            self.ended.popitem(last=False)

    def of_spans(self) -> list[Member]:
        return [member for member in self.members.values() if member.span]

    def of(self, span: int) -> list[Member]:
        return [member for member in self.members.values() if member.span == span]

    def leave(self, span: int, keep: bool) -> None:
        """Lets go of the members of a span that is over; they stay as nobody's where wanted."""
        for member in self.of(span):
            member.span = 0
            if not keep:
                del self.members[member.pid]
