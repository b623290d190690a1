"""The processes of a span: who started whom, with what, and how each ended."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from probe.diagnose.crashes import signal_number
from probe.diagnose.products import SHELLS
from probe.events import Event, Exec, Exit, File, Seccomp, Signal
from probe.span import Span

_SECOND = 1_000_000_000
_NEVER = 1 << 63
SUFFERED = 0.5  # the weight of a process whose failure surely became the span's
_DEPTH = 64
PIPE = "pipe:"
MAKING = r"mkdir|mknod|creat|^open|link|rename|copy_file|sendfile"  # syscalls
_WRITING = re.compile(f"{MAKING}|write|truncate")
_REMOVERS = frozenset({"rm", "rmdir", "unlink", "shred"})
_RUNTIMES = re.compile(r"(python|node|ruby|perl|php|java|lua|deno|bun|Rscript)[\d.]*$")
_INSTALLED = ("/usr/", "/bin/", "/sbin/", "/opt/", "/lib")
_FILE_NAME = re.compile(r"[\w./-]*\w\.[a-z]\w{0,4}\b")  # in a script: it has an extension
_NO_THING = re.compile(r"\.*|\d{1,3}|null")


@dataclass(slots=True, eq=False)
class Process:
    """One process. `weight` is how surely its failure became the span's: 1 certain, 0 not."""

    pid: int
    parent: int = 0
    comm: str = ""
    programs: list[Exec] = field(default_factory=list)
    exit: Exit | None = None
    first_ns: int = 0
    refused: list[Exec] = field(default_factory=list)  # programs that it could not start
    weight: float = 0.0
    missed: bool = False  # somebody failed for the want of what it was to make
    unmade: set[str] = field(default_factory=set)  # names of files that it was kept from writing

    @property
    def born_ns(self) -> int:
        """When it was created, as far as is known."""
        if self.exit is not None and self.exit.duration_s is not None:
            return self.exit.time_ns - int(self.exit.duration_s * _SECOND)
        return self.first_ns

    @property
    def end_ns(self) -> int:
        return self.exit.time_ns if self.exit is not None else _NEVER

    @property
    def only_tried_to_start(self) -> bool:
        """The child of a spawn whose program could not be started: its caller's own error."""
        return not self.programs and bool(self.refused)

    def is_twin(self, other: Process) -> bool:
        """Started with the same words, or forked by the same process without a program."""
        if self.programs and other.programs:
            return self.programs[-1].argv == other.programs[-1].argv
        return not self.programs and not other.programs and self.parent == other.parent

    @property
    def failed(self) -> bool:
        return self.exit is not None and self.exit.code != 0

    @property
    def suffers(self) -> bool:
        """Its failure surely became the span's."""
        return self.failed and self.weight >= SUFFERED

    @property
    def last_words(self) -> str:
        """What it said last on stderr; empty where nobody heard it end."""
        return (self.exit.last_words or "") if self.exit is not None else ""

    @property
    def status(self) -> int | None:
        """As a shell counts: 128+N after signal N; None while it runs."""
        if self.exit is None:
            return None
        if self.exit.signal:
            return 128 + signal_number(self.exit.signal)
        return self.exit.code

    @property
    def is_scripted(self) -> bool:
        """A program of the work's own: a script for a runtime, or one that no image brings."""
        if not self.programs:
            return False
        return bool(_RUNTIMES.match(self.name)) or not self.programs[-1].path.startswith(_INSTALLED)

    @property
    def is_init(self) -> bool:
        """Of a pid namespace inside the probe's."""
        return self.exit is not None and self.exit.inner_pid == 1 != self.pid

    @property
    def removes(self) -> bool:
        """It takes files away, and does nothing else."""
        return self.name in _REMOVERS

    @property
    def is_shell(self) -> bool:
        return self.name in SHELLS

    def was_shell(self, time_ns: int) -> bool:
        """Whether it was one at that time, with a script or without."""
        program = self.program_at(time_ns)
        return program is not None and os.path.basename((*program.argv, "")[0]) in SHELLS

    @property
    def name(self) -> str:
        if self.programs:
            return os.path.basename(self.programs[-1].path) or self.comm
        return self.comm

    @property
    def things(self) -> frozenset[str]:
        return _things((*self.programs, *self.refused))

    def wanted_after(self, time_ns: int) -> frozenset[str]:
        """The names of what it was given when it was started since, or looked for in vain."""
        missing = self.exit.missing if self.exit is not None else ()
        later = [one for one in (*self.programs, *self.refused) if one.time_ns >= time_ns]
        names = {os.path.basename(path.rstrip("/")) for path in missing}
        return _things(later) | names | {one.stdin for one in later if one.stdin}

    def wants(self, names: frozenset[str], since_ns: int) -> bool:
        return not names.isdisjoint(self.wanted_after(since_ns))

    def program_at(self, time_ns: int) -> Exec | None:
        """The program that ran at that time, if it was started inside the span."""
        started = [program for program in self.programs if program.time_ns <= time_ns]
        return started[-1] if started else None


@functools.lru_cache(maxsize=1024)
def _writes(syscall: str) -> bool:
    return _WRITING.search(syscall) is not None


def _things(programs: Iterable[Exec]) -> frozenset[str]:
    """What their command lines name: files and ports, but no options and small numbers."""
    words: list[str] = []
    for program in programs:
        # A program of the work's own may be what another was to make.
        own = program.argv[:1] if program.path.startswith(".") else ()
        words += [*own, *program.argv[1:]]
    scripts = [word for word in words if " " in word or "\n" in word]
    words += [name for script in scripts for name in _FILE_NAME.findall(script)]
    names = {os.path.basename(word.rstrip("/")) for word in words if not word.startswith("-")}
    return frozenset(name for name in names if not _NO_THING.fullmatch(name))


class Tree:
    """The span's processes by pid."""

    def __init__(self, span: Span, events: Iterable[Event]) -> None:
        self.root = span.pid
        self._span = span
        self.processes: dict[int, Process] = {}
        self._signals: dict[int, list[Signal]] = {}
        self.readers: dict[str, Process] = {}  # by pipe
        self.feeders: dict[str, Process] = {}
        for event in events:
            self._take(event)
        self.process(self.root)
        self._children = self._by_parent()
        self._lines: dict[int, list[Process]] = {}  # that were asked for

    def process(self, pid: int) -> Process:
        try:
            return self.processes[pid]
        except KeyError:
            return self.processes.setdefault(pid, Process(pid))

    def _take(self, event: Event) -> None:
        process = self.process(event.pid)
        process.parent = process.parent or event.ppid
        process.comm = event.comm or process.comm
        process.first_ns = process.first_ns or event.time_ns
        if isinstance(event, Exec):
            (process.refused if event.errno else process.programs).append(event)
            if event.stdin and event.stdin.startswith(PIPE):
                self.readers[event.stdin] = process
            if event.stdout and event.stdout.startswith(PIPE):
                self.feeders[event.stdout] = process
        elif isinstance(event, Exit):
            # Two last threads may each take themselves for the last one; the first has the words.
            if process.exit is None or event.last_words:
                process.exit = event
        elif isinstance(event, (File, Seccomp)):
            if event.errno and event.path and _writes(event.syscall):
                process.unmade.add(os.path.basename(event.path.rstrip("/")))
        elif isinstance(event, Signal):
            self._signals.setdefault(event.target, []).append(event)

    def _by_parent(self) -> dict[int, list[Process]]:
        families: dict[int, list[Process]] = {}
        for process in self.processes.values():
            if process.exit is not None and process.parent != process.pid:
                families.setdefault(self._answerable(process), []).append(process)
        for children in families.values():
            children.sort(key=lambda process: process.end_ns)
        return families

    def _answerable(self, process: Process) -> int:
        """Its parent; where that ended well before it (a daemon), the next one above."""
        pid = process.parent
        for _ in range(_DEPTH):
            above = self.processes.get(pid)
            if above is None or pid == self.root or above.failed:
                break
            if above.end_ns >= process.end_ns:
                break
            pid = above.parent
        return pid if pid in self.processes else process.parent

    @functools.cached_property
    def failed(self) -> list[Process]:
        return [process for process in self.processes.values() if process.failed]

    def children(self, pid: int) -> list[Process]:
        """Those that ended, in the order of their ends."""
        return self._children.get(pid, [])

    def ancestors(self, pid: int) -> list[Process]:
        """The process itself and upwards to the root."""
        if pid not in self.processes:
            return []
        if pid not in self._lines:
            self._lines[pid] = self._line(pid)
        return self._lines[pid]

    def _line(self, pid: int) -> list[Process]:
        line: dict[int, Process] = {}
        while pid in self.processes and pid not in line and len(line) < _DEPTH:
            line[pid] = self.processes[pid]
            if pid == self.root:
                break
            pid = self._answerable(line[pid])
        return list(line.values())

    def killer(self, pid: int) -> Signal | None:
        """The signal that ended the process, where another one sent it."""
        ended = self.process(pid).exit
        if ended is None or ended.signal is None:
            return None
        sent = [
            signal
            for signal in self._signals.get(pid, [])
            if signal.signal == ended.signal
            and signal.pid != pid
            and signal.time_ns <= ended.time_ns
        ]
        return sent[-1] if sent else None

    def end_ns(self, pid: int) -> int:
        """When the process ended, or the span where it did not."""
        process = self.processes.get(pid)
        if process is not None and process.exit is not None:
            return process.exit.time_ns
        return self._span.ended_ns or 0

    def ended_between(self, start_ns: int, end_ns: int) -> list[Process]:
        """Those that failed in this time."""
        return [
            process
            for process in self.processes.values()
            if process.failed and start_ns <= process.end_ns <= end_ns
        ]

    def only_reports(self, child: Process) -> bool:
        """A subshell that started nothing: it tells of a failure and hands a status on."""
        return child.failed and not (child.programs or child.refused or self.children(child.pid))
