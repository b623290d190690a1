"""What /proc shows of a process, for records that the kernel's programs could not fill in.

It is looked up while the record is fresh, and kept: of a process that is gone already,
what is known of it or of its parent must do.
"""

from __future__ import annotations

import dataclasses
import errno
import os
import signal
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from probe.context import mount
from probe.context.cgroup import Cgroup, Level
from probe.context.stream import stream
from probe.engine import records

_KEPT = 8192
_PAGE = os.sysconf("SC_PAGE_SIZE")
_INITIAL_USER_NS = 0xEFFFFFFD  # PROC_USER_INIT_INO
# As /proc/PID/limits names them, by the errno or the signal that speaks of them.
_LIMITS = {
    errno.EMFILE: "Max open files",
    errno.EFBIG: "Max file size",
    errno.ENOMEM: "Max address space",
}
_LIMITS_OF_SIGNALS = {
    signal.SIGKILL: "Max cpu time",
    signal.SIGXCPU: "Max cpu time",
    signal.SIGXFSZ: "Max file size",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a process is, and what it may."""

    ppid: int
    mnt_ns: int
    inner_pid: int
    session: int
    capabilities: int
    nested: bool  # in a user namespace that is not the initial one
    filtered: bool  # seccomp filters are in force
    cwd: str
    cgroups: str
    limits: str


class Lookup:
    """Completes records. Its memory is bounded."""

    def __init__(self) -> None:
        self._places: OrderedDict[int, Place] = OrderedDict()
        self._completers: dict[type, Callable[[Any, Place], None]] = {
            records.ExecRecord: _complete_started,
            records.ExecFailedRecord: _complete_exec,
            records.ForkFailedRecord: _complete_fork,
            records.FileRecord: _complete_file,
            records.CallRecord: _complete_call,
            records.ConnectRecord: _complete_connect,
            records.SignalRecord: _complete_signal,
            records.OomRecord: _complete_oom,
        }

    def complete(self, record: Any) -> None:
        head = record.head
        place = self.place(head.pid, head.ppid, fresh=type(record) in self._completers)
        if place is None:
            return
        head.ppid = head.ppid or place.ppid
        head.mnt_ns, head.inner_pid, head.session = place.mnt_ns, place.inner_pid, place.session
        complete = self._completers.get(type(record))
        if isinstance(record, records.SignalRecord):
            place = self.place(record.target_pid, fresh=True) or place
        if complete is not None:
            complete(record, place)

    def place(self, pid: int, ppid: int = 0, *, fresh: bool = False) -> Place | None:
        """`fresh`: it may have changed since it was looked up last."""
        known = self._places.get(pid)
        if known is not None and not fresh:
            return known
        found = _look(pid) or _outdated(known) or self._inherited(ppid)
        if found is not None:
            self._places[pid] = found
            self._places.move_to_end(pid)
            if len(self._places) > _KEPT:
                self._places.popitem(last=False)
        return found

    def _inherited(self, ppid: int) -> Place | None:
        parent = _outdated(self._places.get(ppid))
        return dataclasses.replace(parent, ppid=ppid, inner_pid=0) if parent is not None else None

    def forget(self, pid: int) -> None:
        """Its number may be given to another one."""
        self._places.pop(pid, None)


def _outdated(place: Place | None) -> Place | None:
    """What may be hung on still: execve(2) and others change what a process may."""
    if place is None:
        return None
    return dataclasses.replace(place, capabilities=records.UNKNOWN_CAPABILITIES)


def _look(pid: int) -> Place | None:
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="replace") as file:
            cgroups = file.read()
        with open(f"/proc/{pid}/limits", encoding="ascii") as file:
            limits = file.read()
        return Place(
            ppid=int(status["PPid"]),
            mnt_ns=os.stat(f"/proc/{pid}/ns/mnt").st_ino,
            inner_pid=int(status["NSpid"].split()[-1]),
            session=int(status["NSsid"].split()[0]),
            capabilities=int(status["CapEff"], 16),
            nested=os.stat(f"/proc/{pid}/ns/user").st_ino != _INITIAL_USER_NS,
            filtered=status.get("Seccomp", "2") != "0",
            cwd=os.readlink(f"/proc/{pid}/cwd"),
            cgroups=cgroups,
            limits=limits,
        )
    except (OSError, KeyError, ValueError):
        return None  # it is gone, or going


def _base(record: Any, place: Place) -> bytes:
    """What a path that is not absolute starts from, as the process sees it."""
    if record.path[:1] == b"/":
        return b""
    proc = f"/proc/{record.head.pid}"
    try:
        link = os.readlink(f"{proc}/fd/{record.dirfd}" if record.dirfd >= 0 else f"{proc}/cwd")
    except OSError:  # what it was opened as, or went to last
        if record.cwd:
            link = os.path.join(place.cwd, os.fsdecode(record.cwd))
        else:
            link = place.cwd if record.dirfd < 0 else ""
    return os.fsencode(link)[: records.PATH_SIZE - 1]


def _limit(place: Place, of: str | None) -> int:
    """The soft one; 0 where there is none."""
    lines = [line for line in place.limits.splitlines() if of and line.startswith(of)]
    words = lines[0].removeprefix(of or "").split() if lines else []
    return int(words[0]) if words and words[0].isdecimal() else 0


def _complete_started(record: records.ExecRecord, _: Place) -> None:
    for descriptor, place in enumerate(record.streams):
        told = stream(record.head.pid, descriptor) or ""
        if told.startswith("pipe:"):
            place.pipe = int(told.removeprefix("pipe:"))
        else:
            place.file = os.fsencode(told)[: records.STREAM_NAME_SIZE - 1]


def _complete_exec(record: records.ExecFailedRecord, place: Place) -> None:
    record.cwd = _base(record, place)
    record.stack_limit = _limit(place, "Max stack size")


def _complete_file(record: records.FileRecord, place: Place) -> None:
    record.cwd = _base(record, place)
    record.limit = _limit(place, _LIMITS.get(record.error))
    record.capabilities, record.user_ns_level = place.capabilities, place.nested


def _complete_call(record: records.CallRecord, place: Place) -> None:
    record.limit = _limit(place, _LIMITS.get(record.error))
    record.capabilities, record.user_ns_level = place.capabilities, place.nested
    try:
        with open(f"/proc/{record.head.pid}/statm", encoding="ascii") as file:
            record.usage = int(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        record.usage = 0


def _complete_connect(record: records.ConnectRecord, place: Place) -> None:
    record.capabilities = place.capabilities


def _complete_signal(record: records.SignalRecord, target: Place) -> None:
    record.limit = _limit(target, _LIMITS_OF_SIGNALS.get(record.signal))


def _complete_fork(record: records.ForkFailedRecord, place: Place) -> None:
    record.nproc_limit = _limit(place, "Max processes")
    levels = _levels(place, "pids", ("pids.max",) * 2, ("pids.current",) * 2)
    full = [level for level in levels if level.usage >= level.limit]
    if not full and _has_refused(place):  # there is room again by now
        full = [dataclasses.replace(level, usage=level.limit) for level in levels[:1]]
    if full:
        _fill(record.pids, full[0], 1)


def _has_refused(place: Place) -> bool:
    """Whether the process's own pids cgroup has ever refused a fork."""
    try:
        return bool(_cgroup(place).event("pids", "pids.events", "pids.events", "max"))
    except (OSError, LookupError):
        return False


def _complete_oom(record: records.OomRecord, place: Place) -> None:
    """The strictest limit is the one that was reached; the victim's memory is free by now."""
    levels = _levels(
        place,
        "memory",
        ("memory.limit_in_bytes", "memory.max"),
        ("memory.usage_in_bytes", "memory.current"),
    )
    if levels:
        reached = min(levels, key=lambda level: level.limit)
        _fill(record.memory, dataclasses.replace(reached, usage=reached.limit), _PAGE)


def _levels(
    place: Place, controller: str, limit: tuple[str, str], usage: tuple[str, str]
) -> list[Level]:
    try:
        return _cgroup(place).limited(controller, limit, usage)
    except (OSError, LookupError):
        return []


def _cgroup(place: Place) -> Cgroup:
    return Cgroup(mount.entries(), place.cgroups)


def _fill(out: records.CgroupLimit, level: Level, unit: int) -> None:
    out.limit, out.usage = level.limit // unit, level.usage // unit
    names = [name for name in level.path.split("/") if name][::-1]
    for slot, name in enumerate(names[: records.CGROUP_DEPTH]):
        out.name[slot].value = os.fsencode(name)[: records.CGROUP_NAME_SIZE - 1]
