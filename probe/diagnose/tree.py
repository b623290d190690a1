"""The processes of a span, and how failure travelled upwards through them."""

from __future__ import annotations

import bisect
import os
import re
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from probe.diagnose import words
from probe.diagnose.products import SHELLS, products
from probe.events import Event, Exec, Exit, File, Seccomp, Signal
from probe.span import Span

_SECOND = 1_000_000_000
_NEVER = 1 << 63
# Programs whose success says nothing of whether an earlier failure mattered.
_IDLE = frozenset({"sleep", "true", "echo", "date", "cat", "rm", "tail", "kill"})
_ATTEMPTS = 3
_NEIGHBOURS = 8  # siblings that may have been one pipeline
_DEPTH = 64
_NEGLIGIBLE = 0.02
_SUFFERS, _MAKERS_LINK = 0.5, 0.9
_PIPE = "pipe:"
_MAKERS = 32  # that are compared with each other
TIMED_OUT = frozenset({124, 137})  # timeout(1), 137 when it had to kill
_WRITING = re.compile(r"mkdir|mknod|creat|^open|link|rename|copy_file|sendfile|write|truncate")
_NO_THING = re.compile(r"\.*|\d{1,3}|null")
_SETTLED = 20_000_000  # a pipeline's stages are created within so many nanoseconds
# Signals by which a program ends others in the course of its work.
_ROUTINE = frozenset({"SIGPIPE", "SIGTERM", "SIGKILL", "SIGINT", "SIGHUP"})


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

    def reads_from(self, other: Process) -> bool:
        """Through a pipe between their programs."""
        pipes = {one.stdout for one in other.programs if (one.stdout or "").startswith(_PIPE)}
        return any(one.stdin in pipes for one in self.programs)

    def is_twin(self, other: Process) -> bool:
        """Started with the same words, or forked by the same process without a program."""
        if self.programs and other.programs:
            return self.programs[-1].argv == other.programs[-1].argv
        return not self.programs and not other.programs and self.parent == other.parent

    @property
    def failed(self) -> bool:
        return self.exit is not None and self.exit.code != 0

    @property
    def status(self) -> int | None:
        """As a shell counts: 128+N after signal N; None while it runs."""
        if self.exit is None:
            return None
        if self.exit.signal:
            return 128 + _signal_number(self.exit.signal)
        return self.exit.code

    @property
    def is_init(self) -> bool:
        """Of a pid namespace inside the probe's."""
        return self.exit is not None and self.exit.inner_pid == 1 != self.pid

    @property
    def is_shell(self) -> bool:
        return self.name in SHELLS

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

    def program_at(self, time_ns: int) -> Exec | None:
        """The program that ran at that time, if it was started inside the span."""
        started = [program for program in self.programs if program.time_ns <= time_ns]
        return started[-1] if started else None


def _things(programs: Iterable[Exec]) -> frozenset[str]:
    """What their command lines name: files and ports, but no options and small numbers."""
    words: list[str] = []
    for program in programs:
        # A program of the work's own may be what another was to make.
        own = program.argv[:1] if program.path.startswith(".") else ()
        words += [*own, *program.argv[1:]]
    names = {os.path.basename(word.rstrip("/")) for word in words if not word.startswith("-")}
    return frozenset(name for name in names if not _NO_THING.fullmatch(name))


def _signal_number(name: str) -> int:
    """0 for a name that is none: reports may come from anywhere."""
    import signal

    if name in signal.Signals.__members__:
        return signal.Signals[name].value
    number = name.removeprefix("SIG")
    return int(number) if number.isdecimal() and number.isascii() else 0


def _is_hushed(parent: Process, child: Process) -> bool:
    """Whether its words alone were thrown away, not those of the whole."""
    by_child = child.exit is not None and child.exit.silenced is True
    return by_child and not (parent.exit is not None and parent.exit.silenced)


class After:
    """What became of a child's siblings after it: taken in from the last to the first."""

    def __init__(self, siblings: list[Process]) -> None:
        self.failures = 0
        self._births: list[int] = []  # of those that ended well and did some work
        self.statuses: set[int | None] = set()
        self._next: deque[Process] = deque(maxlen=_NEIGHBOURS)
        self._outcomes: dict[str, Counter[int | None]] = {}
        for sibling in siblings:
            self._outcomes.setdefault(sibling.name, Counter())[sibling.status] += 1

    def add(self, sibling: Process) -> None:
        if sibling.failed:
            self.failures += 1
            self.statuses.add(sibling.status)
            self._next.appendleft(sibling)
        elif sibling.name not in _IDLE:
            bisect.insort(self._births, sibling.born_ns)

    def successes(self, child: Process) -> int:
        """Those that were started after the child had failed; what ran beside it says nothing."""
        return len(self._births) - bisect.bisect_left(self._births, child.end_ns)

    def gave(self, child: Process, status: int | None) -> bool:
        """Whether something that was begun after the child's end failed with this status."""
        return any(other.status == status and other.born_ns >= child.end_ns for other in self._next)

    def outlived(self, child: Process) -> bool:
        """Whether a failing sibling was created with the child and outlived it."""
        return any(
            abs(other.born_ns - child.born_ns) < _SETTLED and other.born_ns < child.end_ns
            for other in self._next
        )

    def was_about_the_same(self, child: Process) -> bool:
        """Whether a later failure was met over something that the child dealt with as well."""
        return any(not child.things.isdisjoint(other.things) for other in self._next)

    def tried_in_vain(self, child: Process) -> bool:
        """One program again and again, always with this status: it is needed."""
        outcomes = self._outcomes[child.name]
        return 0 not in outcomes and outcomes[child.status] >= _ATTEMPTS


class Tree:
    """The span's processes by pid, with the weight of each in the span's failure."""

    def __init__(self, span: Span, events: Iterable[Event]) -> None:
        self.root = span.pid
        self._span = span
        self.processes: dict[int, Process] = {}
        self._signals: dict[int, list[Signal]] = {}
        self._products: dict[int, frozenset[str]] = {}
        for event in events:
            self._take(event)
        self.process(self.root)
        self._children = self._by_parent()
        if not span.passed:
            self._weigh(self.root, 1.0)
            self._weigh_makers()

    def process(self, pid: int) -> Process:
        found = self.processes.get(pid)
        if found is None:
            found = self.processes[pid] = Process(pid)
        return found

    def _take(self, event: Event) -> None:
        process = self.process(event.pid)
        process.parent = process.parent or event.ppid
        process.comm = event.comm or process.comm
        process.first_ns = process.first_ns or event.time_ns
        if isinstance(event, Exec):
            (process.refused if event.errno else process.programs).append(event)
        elif isinstance(event, Exit):
            # Two last threads may each take themselves for the last one; the first has the words.
            if process.exit is None or event.last_words:
                process.exit = event
        elif isinstance(event, (File, Seccomp)):
            if event.errno and event.path and _WRITING.search(event.syscall):
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

    def children(self, pid: int) -> list[Process]:
        """Those that ended, in the order of their ends."""
        return self._children.get(pid, [])

    def ancestors(self, pid: int) -> list[Process]:
        """The process itself and upwards to the root."""
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

    def _weigh(self, pid: int, weight: float) -> None:
        waiting = [(pid, weight)]
        while waiting:
            pid, weight = waiting.pop()
            parent = self.process(pid)
            if weight <= parent.weight or weight < _NEGLIGIBLE:
                continue
            parent.weight = weight
            after = After(self.children(pid))
            for child in reversed(self.children(pid)):
                if child.failed:
                    waiting.append((child.pid, weight * self._link(parent, child, after)))
                if not self.only_reports(child):
                    after.add(child)

    def _weigh_makers(self) -> None:
        """Who failed and was to make what somebody else failed for the want of."""
        makers = [one for one in self.processes.values() if one.failed and self.products(one)]
        sufferers = [
            one for one in self.processes.values() if one.failed and one.weight >= _SUFFERS
        ]
        for maker in makers[:_MAKERS]:
            for other in sufferers[:_MAKERS]:
                if other is not maker and other.end_ns > maker.end_ns and self.wanted(maker, other):
                    maker.missed = True
                    self._weigh(maker.pid, _MAKERS_LINK * other.weight)

    def wanted(self, maker: Process, other: Process) -> bool:
        """Whether one wanted what the other was to make: a file, or words through a pipe."""
        return other.reads_from(maker) or not self.products(maker).isdisjoint(
            other.wanted_after(maker.end_ns)
        )

    def products(self, maker: Process) -> frozenset[str]:
        """The names of what its command lines say that it makes, and what it could not make."""
        known = self._products.get(maker.pid)
        if known is None:
            lines = (program.argv for program in (*maker.programs, *maker.refused))
            told = (name for argv in lines for name in products(argv))
            into = (program.stdout for program in maker.programs if program.stdout)
            known = self._products[maker.pid] = frozenset(maker.unmade).union(told, into)
        return known

    def only_reports(self, child: Process) -> bool:
        """A subshell that started nothing: it tells of a failure and hands a status on."""
        return child.failed and not (child.programs or child.refused or self.children(child.pid))

    def _link(self, parent: Process, child: Process, after: After) -> float:
        """How likely it is that the parent failed because the child did."""
        if parent.programs and parent.programs[-1].time_ns > child.end_ns:
            return 0.03  # it became another program, which failed for its own reasons
        signal = child.exit.signal if child.exit else None
        if signal == "SIGPIPE":
            return 0.05
        kill = self.killer(child.pid)
        if signal in _ROUTINE and kill is not None and self._from_above(kill, child):
            # A time limit fails for what its command was waiting for.
            return 0.9 if self._told_its_end(parent, child) or self._limits_time(kill.pid) else 0.05
        if child.only_tried_to_start and not after.failures:
            return 0.85
        if after.tried_in_vain(child):
            return 0.8
        # Each later child that ended well makes it less likely that this one was needed.
        successes = after.successes(child)
        patience = 0.7 ** min(successes, 3)
        if parent.exit is None:  # a test in a process that lives on
            return (0.6 if after.failures else 0.85) * patience
        if after.outlived(child):
            return 0.8  # an earlier stage of a pipeline, whose last stage gives the status
        nothing_later = not successes and not after.failures
        # Of what is optional nobody wants to hear; here the work went on to fail at something else.
        hushed = _is_hushed(parent, child) and not after.was_about_the_same(child)
        heard = 0.3 if hushed else 1.0
        if parent.is_shell and after.gave(child, parent.status):
            return 0.2 * heard  # a shell's status is that of its last command
        if parent.status == child.status:
            if child.status in after.statuses:
                return 0.5 * heard
            return 0.97 if nothing_later else 0.85 * patience
        if after.failures:
            return 0.35 * heard
        lag = parent.end_ns - child.end_ns
        return (0.8 if nothing_later or lag < _SECOND else 0.4) * patience

    def _told_its_end(self, parent: Process, child: Process) -> bool:
        """The first process of a sandbox is put away once it has told what became of the one
        below it."""
        return child.is_init and any(
            one.failed and one.status == parent.status for one in self.children(child.pid)
        )

    def _limits_time(self, pid: int) -> bool:
        process = self.process(pid)
        said = process.exit.last_words or "" if process.exit else ""
        return process.status in TIMED_OUT or words.timed_out(said)

    def _from_above(self, kill: Signal, child: Process) -> bool:
        """A program's signal to what it started; the OOM killer's comes from the kernel."""
        above = (process.pid for process in self.ancestors(child.pid)[1:])
        return kill.sender == "process" and kill.pid in above
