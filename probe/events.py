"""What the probe heard, one immutable class a kind.

This is the one definition of each kind: the report's JSON, its schema, the wire
message and the table in docs/events.md follow from the fields declared here.
Sizes are bytes, durations seconds, times nanoseconds since the epoch (UTC) inside
and ISO 8601 with microseconds in JSON, errnos and signals names.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
from dataclasses import dataclass
from typing import Any, ClassVar

JsonObject = dict[str, Any]
UNKNOWN_CALL = "unknown"  # the name of a syscall that the engine could not see


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What every event carries. `span` is the kernel's number for the span, 0 for none.

    Process numbers are those of the probe's pid namespace; `inner_pid` is the process's in
    the innermost one, where it differs. `session` is the leader of its session (setsid(2)).
    """

    kind: ClassVar[str] = ""
    is_trouble: ClassVar[bool] = False  # whatever it says

    sequence: int
    time_ns: int
    pid: int
    tid: int = 0
    ppid: int = 0
    uid: int = 0
    comm: str = ""
    exe: str = ""
    count: int = 1
    span: int = 0
    mnt_ns: int = 0
    inner_pid: int = 0
    session: int = 0

    @property
    def id(self) -> str:
        return f"e{self.sequence}"

    @property
    def is_failure(self) -> bool:
        """Whether something went wrong, which is worth more than what went well."""
        return self.is_trouble or getattr(self, "errno", None) is not None

    def as_json(self) -> JsonObject:
        """The event as the report shows it; fields without a value are left out."""
        shown: JsonObject = {
            "id": self.id,
            "time": time_text(self.time_ns),
            "kind": self.kind,
            "pid": self.pid,
            "tid": self.tid or self.pid,
            "ppid": self.ppid,
            "comm": self.comm,
            "exe": self.exe,
            "count": self.count,
            "session": self.session,
        }
        if self.inner_pid not in (0, self.pid):
            shown["inner_pid"] = self.inner_pid
        for name in detail_fields(type(self)):
            value = getattr(self, name)
            if value is not None and value != ():
                shown[name] = list(value) if isinstance(value, tuple) else value
        return shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Seccomp(Event):
    """A syscall that a seccomp filter did not let through."""

    kind: ClassVar[str] = "seccomp"
    is_trouble: ClassVar[bool] = True

    syscall: str
    args: tuple[int, ...] = ()
    detail: str | None = None  # the arguments in words: flags, families
    path: str | None = None
    action: str = "errno"  # errno, kill_process, kill_thread, trap, trace, user_notif, strict
    errno: str | None = None
    filter: str | None = None  # which filter and rule answered
    next: tuple[str, ...] = ()  # the thread's next calls, "write=45" or "clone=-EPERM"
    calls_after: int | None = None  # how many calls the thread made after it, once it ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Syscall(Event):
    """A syscall that the kernel itself refused (not a filter), outside the other kinds."""

    kind: ClassVar[str] = "syscall"

    syscall: str
    args: tuple[int, ...] = ()
    detail: str | None = None  # the arguments in words
    errno: str
    path: str | None = None
    port: int | None = None  # that bind(2) asked for
    limit: int | None = None  # the resource limit behind the errno, none if unlimited
    usage: int | None = None  # what of it was used: the address space of ENOMEM
    capabilities: int | None = None  # effective, a bit each (capabilities(7))
    user_ns: int | None = None  # how deep its user namespace is nested; none: the initial one


@dataclass(frozen=True, slots=True, kw_only=True)
class Exec(Event):
    """A program started (`errno` none), or one that could not be."""

    kind: ClassVar[str] = "exec"

    path: str
    argv: tuple[str, ...] = ()
    cwd: str | None = None
    errno: str | None = None
    reason: str | None = None  # what stands behind the errno: a cause id of the exec family
    detail: str | None = None  # the missing interpreter, the mode, the mount ...
    searched: tuple[str, ...] = ()  # the directories tried, when the name was looked up on PATH
    found: str | None = None  # where that search found it in the end
    size: int | None = None  # of arguments and environment, when they were too long
    limit: int | None = None  # on them
    stdin: str | None = None  # of what started: the last part of a file's path, or pipe:NUMBER
    stdout: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork(Event):
    """A process or thread that could not be created."""

    kind: ClassVar[str] = "fork"

    syscall: str
    errno: str
    cgroup: str | None = None  # the pids cgroup that stands at its limit
    pids_max: int | None = None
    pids_current: int | None = None
    nproc_limit: int | None = None  # RLIMIT_NPROC
    tasks_of_user: int | None = None  # processes and threads of this user then
    tasks: int | None = None  # of all users
    threads_max: int | None = None  # kernel.threads-max
    pid_max: int | None = None  # kernel.pid_max
    without_init: bool | None = None  # the first process of the pid namespace has ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit(Event):
    """The end of a process: `code`, or the `signal` that ended it."""

    kind: ClassVar[str] = "exit"

    code: int | None = None
    signal: str | None = None
    core: bool | None = None  # it dumped core
    duration_s: float | None = None
    reaper: int | None = None  # who was to collect the status
    silenced: bool | None = None  # its stderr went to /dev/null
    last_words: str | None = None  # what it wrote to stderr last, when it failed
    last_output: str | None = None  # the same of stdout
    missing: tuple[str, ...] = ()  # paths it looked for and did not find last, when it failed
    gone: tuple[str, ...] = ()  # of these the ones that had been made before, and by whom

    @property
    def is_failure(self) -> bool:
        return self.code != 0


def is_local(family: str, address: str) -> bool:
    """Whether the address is one of the sandbox itself."""
    return family == "unix" or address.startswith("127.") or address == "::1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Connect(Event):
    """An attempt to reach a peer; `errno` none when it was reached."""

    kind: ClassVar[str] = "connect"

    family: str
    address: str
    port: int | None = None
    protocol: str = "stream"
    errno: str | None = None
    in_use: bool | None = None  # the error came over a connection that had been made before
    abandoned: bool | None = None  # closed by its owner before an answer came
    duration_s: float | None = None
    route: str | None = None  # what the routing table says of the address
    server: int | None = None  # the process that listens there, in the same sandbox

    @property
    def is_failure(self) -> bool:
        return self.errno is not None or bool(self.abandoned)

    @property
    def is_local(self) -> bool:
        """Whether the peer is in the sandbox itself."""
        return is_local(self.family, self.address)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dns(Event):
    """A name looked up; `count` queries were sent for it."""

    kind: ClassVar[str] = "dns"

    name: str
    query: str
    resolver: str
    rcode: str | None = None  # none: unanswered
    duration_s: float | None = None

    @property
    def is_failure(self) -> bool:
        return self.rcode != "NOERROR"


@dataclass(frozen=True, slots=True, kw_only=True)
class Oom(Event):
    """The OOM killer chose this process."""

    kind: ClassVar[str] = "oom"
    is_trouble: ClassVar[bool] = True

    scope: str  # cgroup or system
    cgroup: str | None = None
    limit: int | None = None
    usage: int | None = None
    virtual: int | None = None  # the victim's address space
    trigger: int | None = None  # the process whose allocation found no memory
    biggest: tuple[str, ...] = ()  # who else held memory there a moment later, the most first
    pressure: float | None = None  # percent of the last 10 s that tasks there waited for memory


@dataclass(frozen=True, slots=True, kw_only=True)
class File(Event):
    """A file call that failed for a reason that a sandbox can give."""

    kind: ClassVar[str] = "file"

    syscall: str
    path: str
    errno: str
    detail: str | None = None  # the arguments in words: flags
    cwd: str | None = None
    mode: str | None = None  # of what stood in the way, "0644 0:0" (mode, owner, group)
    obstacle: str | None = None  # what that is, where it is not the path itself
    mount: str | None = None  # where the file system is mounted
    fstype: str | None = None
    size: int | None = None  # of the file system
    free: int | None = None
    free_inodes: int | None = None
    mount_flags: str | None = None  # "ro,noexec"
    limit: int | None = None  # the resource limit behind the errno
    capabilities: int | None = None  # effective, a bit each (capabilities(7))
    user_ns: int | None = None  # how deep its user namespace is nested; none: the initial one
    reason: str | None = None  # what stands behind EACCES and EPERM: a cause id


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal(Event):
    """A signal that ends processes, from `pid` to `target`."""

    kind: ClassVar[str] = "signal"
    is_trouble: ClassVar[bool] = True

    signal: str
    target: int
    target_comm: str = ""
    sender: str = "process"  # process, kernel
    inside: bool | None = None  # the sender is part of the same span
    limit: int | None = None  # the resource limit behind it: seconds of CPU, bytes of a file
    address: int | None = None  # that could not be accessed
    mapping: str | None = None  # the file that is mapped there
    offset: int | None = None  # of the address in that file
    file_size: int | None = None
    detail: str | None = None  # what stands behind SIGBUS: a full file system


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit(Event):
    """A limit that was reached outside the other kinds."""

    kind: ClassVar[str] = "limit"
    is_trouble: ClassVar[bool] = True

    limit: str
    value: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss(Event):
    """Events that could not be delivered: `count` of them, of one sense."""

    kind: ClassVar[str] = "loss"
    is_trouble: ClassVar[bool] = True

    sense: str
    where: str = "ring"  # ring (of the kernel), queue, spool


KINDS: dict[str, type[Event]] = {
    kind.kind: kind
    for kind in (
        Seccomp,
        Syscall,
        Exec,
        Fork,
        Exit,
        Connect,
        Dns,
        Oom,
        File,
        Signal,
        Limit,
        Loss,
    )
}

_COMMON = frozenset(f.name for f in dataclasses.fields(Event))
_DETAILS: dict[type[Event], tuple[str, ...]] = {
    kind: tuple(f.name for f in dataclasses.fields(kind) if f.name not in _COMMON)
    for kind in KINDS.values()
}


def detail_fields(kind: type[Event]) -> tuple[str, ...]:
    """The names of the fields that only this kind has."""
    return _DETAILS[kind]


def from_json(value: JsonObject) -> Event:
    """The event that `as_json` showed. KeyError or TypeError where it is not one."""
    kind = KINDS[value["kind"]]
    fields: JsonObject = {name: value[name] for name in _COMMON & value.keys()}
    for name in _DETAILS[kind]:
        if name in value:
            given = value[name]
            fields[name] = tuple(given) if isinstance(given, list) else given
    return kind(sequence=int(value["id"][1:]), time_ns=time_from_text(value["time"]), **fields)


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def time_text(time_ns: int) -> str:
    """UTC with microseconds: 2026-01-01T00:00:00.000000Z."""
    seconds, rest = divmod(time_ns, 1_000_000_000)
    return f"{_second_text(seconds)}.{rest // 1000:06}Z"


@functools.lru_cache(1024)
def _second_text(seconds: int) -> str:
    """Remembered: many events share a second, and strftime takes longer than all else of them."""
    return (_EPOCH + datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")


def time_from_text(text: str) -> int:
    """The inverse of time_text, in nanoseconds."""
    moment = datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ")
    since = moment.replace(tzinfo=datetime.timezone.utc) - _EPOCH
    return (since.days * 86_400_000_000 + since.seconds * 1_000_000 + since.microseconds) * 1000


__all__ = ["KINDS", "Event", "detail_fields", "from_json", "time_from_text", "time_text"]
