"""The processes of a span, and how failure travelled upwards through them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field

from probe.events import Event, Exec, Exit, Signal
from probe.span import Span

_SECOND = 1_000_000_000
# Signals by which a program ends others in the course of its work.
_ROUTINE = frozenset({"SIGPIPE", "SIGTERM", "SIGKILL", "SIGINT", "SIGHUP"})


@dataclass(slots=True)
class Process:
    """One process. `weight` is how surely its failure became the span's: 1 certain, 0 not."""

    pid: int
    parent: int = 0
    comm: str = ""
    programs: list[Exec] = field(default_factory=list)
    exit: Exit | None = None
    first_ns: int = 0
    weight: float = 0.0

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
    def name(self) -> str:
        if self.programs:
            return os.path.basename(self.programs[-1].path) or self.comm
        return self.comm

    def program_at(self, time_ns: int) -> Exec | None:
        """The program that ran at that time, if it was started inside the span."""
        started = [program for program in self.programs if program.time_ns <= time_ns]
        return started[-1] if started else None


def _signal_number(name: str) -> int:
    import signal

    try:
        return signal.Signals[name].value
    except KeyError:
        return int(name.removeprefix("SIG"))


class Tree:
    """The span's processes by pid, with the weight of each in the span's failure."""

    def __init__(self, span: Span, events: Iterable[Event]) -> None:
        self.root = span.pid
        self._span = span
        self.processes: dict[int, Process] = {}
        self._kills: dict[int, Signal] = {}
        for event in events:
            self._take(event)
        self.process(self.root)
        if not span.passed:
            self._weigh(self.root, 1.0)

    def process(self, pid: int) -> Process:
        return self.processes.setdefault(pid, Process(pid))

    def _take(self, event: Event) -> None:
        process = self.process(event.pid)
        process.parent = process.parent or event.ppid
        process.comm = event.comm or process.comm
        process.first_ns = process.first_ns or event.time_ns
        if isinstance(event, Exec) and event.errno is None:
            process.programs.append(event)
        elif isinstance(event, Exit):
            process.exit = event
        elif isinstance(event, Signal):
            self._kills[event.target] = event

    def children(self, pid: int) -> list[Process]:
        """Those that ended, in the order of their ends."""
        ended = [p for p in self.processes.values() if p.parent == pid and p.exit and p.pid != pid]
        return sorted(ended, key=lambda p: p.exit.time_ns if p.exit else 0)

    def ancestors(self, pid: int) -> list[Process]:
        """The process itself and upwards to the root."""
        line: list[Process] = []
        while pid in self.processes and len(line) < 64:
            process = self.processes[pid]
            if process in line:
                break
            line.append(process)
            if pid == self.root:
                break
            pid = process.parent
        return line

    def killer(self, pid: int) -> Signal | None:
        """The last ending signal that was sent to the process, where one was seen."""
        return self._kills.get(pid)

    def end_ns(self, pid: int) -> int:
        """When the process ended, or the span where it did not."""
        process = self.processes.get(pid)
        if process is not None and process.exit is not None:
            return process.exit.time_ns
        return self._span.ended_ns or 0

    def _weigh(self, pid: int, weight: float) -> None:
        parent = self.process(pid)
        if weight <= parent.weight or weight < 0.02:
            return
        parent.weight = weight
        children = self.children(pid)
        for number, child in enumerate(children):
            if child.failed:
                link = self._link(parent, child, children[number + 1 :])
                self._weigh(child.pid, weight * link)

    def _link(self, parent: Process, child: Process, later: list[Process]) -> float:
        """How likely it is that the parent failed because the child did."""
        signal = child.exit.signal if child.exit else None
        kill = self.killer(child.pid)
        if signal == "SIGPIPE" or (
            signal in _ROUTINE and kill is not None and self._from_inside(kill)
        ):
            return 0.05
        later_failures = [other for other in later if other.failed]
        lag = self.end_ns(parent.pid) - self.end_ns(child.pid)
        if parent.exit is None:  # a test in a process that lives on
            return 0.85 if not later_failures else 0.6
        if parent.status == child.status:
            same_later = any(other.status == child.status for other in later_failures)
            return 0.5 if same_later else (0.97 if not later else 0.85)
        if later_failures:
            return 0.35
        return 0.8 if not later or lag < _SECOND else 0.4

    def _from_inside(self, kill: Signal) -> bool:
        """A program's signal to another of this span; the OOM killer's comes from the kernel."""
        return kill.sender == "process" and kill.pid in self.processes
