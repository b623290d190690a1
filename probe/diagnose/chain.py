"""How failure travelled through the processes of a span: upwards, and with what they make."""

from __future__ import annotations

import bisect
import itertools
from collections import Counter, defaultdict, deque

from probe.diagnose import words
from probe.diagnose.flows import Flows
from probe.diagnose.tree import SUFFERED, Process, Tree
from probe.events import Signal

_SECOND = 1_000_000_000
# Programs whose success says nothing of whether an earlier failure mattered.
_IDLE = frozenset({"sleep", "true", "echo", "date", "cat", "rm", "tail", "kill"})
_ATTEMPTS = 3
_NEIGHBOURS = 8  # siblings that may have been one pipeline
_NEGLIGIBLE = 0.02
_MAKERS_LINK = 0.9
_MAKERS = 32  # that are compared with each other
TIMED_OUT = frozenset({124, 137})  # timeout(1), 137 when it had to kill
_SETTLED = 20_000_000  # a pipeline's stages are created within so many nanoseconds
# Signals by which a program ends others in the course of its work.
_ROUTINE = frozenset({"SIGPIPE", "SIGTERM", "SIGKILL", "SIGINT", "SIGHUP"})


def _is_hushed(parent: Process, child: Process) -> bool:
    """Whether its words alone were thrown away, not those of the whole."""
    by_child = child.exit is not None and child.exit.silenced is True
    return by_child and not (parent.exit is not None and parent.exit.silenced)


class After:
    """What became of a child's siblings after it: taken in from the last to the first."""

    def __init__(self, parent: Process, siblings: list[Process]) -> None:
        said = parent.last_words
        self.told = words.statuses(said) & {one.status for one in siblings if one.failed}
        self.failures = 0
        self._births: list[int] = []  # of those that ended well and did some work
        self.statuses: set[int | None] = set()
        self._next: deque[Process] = deque(maxlen=_NEIGHBOURS)
        self._outcomes: dict[str, Counter[int | None]] = defaultdict(Counter)
        for sibling in siblings:
            self._outcomes[sibling.name][sibling.status] += 1

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


class Chain:
    """Gives each process of a tree its weight in the span's failure."""

    def __init__(self, tree: Tree, flows: Flows) -> None:
        self._tree = tree
        self._flows = flows

    def weigh(self) -> None:
        self._weigh(self._tree.root, 1.0)
        self._weigh_makers()
        self._weigh_captured()

    def _weigh(self, pid: int, weight: float) -> None:
        waiting = [(pid, weight)]
        while waiting:
            pid, weight = waiting.pop()
            parent = self._tree.process(pid)
            if weight <= parent.weight or weight < _NEGLIGIBLE:
                continue
            parent.weight = weight
            children = self._tree.children(pid)
            if not children:
                continue
            after = After(parent, children)
            for child in reversed(children):
                if child.failed:
                    waiting.append((child.pid, weight * self._link(parent, child, after)))
                if not self._tree.only_reports(child):
                    after.add(child)

    def _weigh_makers(self) -> None:
        """Who failed and was to make what somebody else failed for the want of."""
        failed = self._tree.failed
        makers = (one for one in failed if self._flows.products(one))
        sufferers = [one for one in failed if one.suffers][:_MAKERS]
        for maker in itertools.islice(makers, _MAKERS):
            for other in sufferers:
                if (
                    other is not maker
                    and other.end_ns > maker.end_ns
                    and self._flows.wanted(maker, other)
                ):
                    maker.missed = True
                    self._weigh(maker.pid, _MAKERS_LINK * other.weight)

    def _weigh_captured(self) -> None:
        """Who failed in a pipeline whose output, of which nothing came, a shell took for itself."""
        for process in self._tree.failed[:_MAKERS]:
            if process.weight >= SUFFERED or (process.exit and process.exit.last_output):
                continue
            taker = self._taker(process)
            if taker is not None:
                self._weigh(process.pid, taker.weight * self._patience(taker, process))

    def _taker(self, process: Process) -> Process | None:
        """The shell that failed, of those above, where its output ended."""
        asks = process.is_shell or process.name == "which"  # whether there is a program
        if asks or not self._flows.is_captured(process):
            return None
        above = self._tree.ancestors(process.pid)[1:]
        taker = next((one for one in above if one.was_shell(process.end_ns)), None)
        if taker is None or not taker.is_shell or taker.weight < SUFFERED:
            return None  # it has become another program, or nobody missed it
        return taker

    def _patience(self, taker: Process, process: Process) -> float:
        """The less likely, the more the shell did afterwards."""
        later = [one for one in self._tree.children(taker.pid) if one.born_ns >= process.end_ns]
        if any(one.failed and not self._tree.only_reports(one) for one in later):
            return 0.2
        return 0.6 * 0.7 ** min(3, sum(one.name not in _IDLE for one in later))

    def _link(self, parent: Process, child: Process, after: After) -> float:
        """How likely it is that the parent failed because the child did."""
        if parent.programs and parent.programs[-1].time_ns > child.end_ns:
            return 0.03  # it became another program, which failed for its own reasons
        if after.told and child.status not in after.told:
            return 0.03  # the parent says whose failure it fails for, and it is another's
        signal = child.exit.signal if child.exit else None
        if signal == "SIGPIPE":
            return 0.05
        kill = self._tree.killer(child.pid)
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
            common = child.status == 1  # any other number tells whose it is
            return 0.97 if nothing_later else 0.85 * patience * (heard if common else 1.0)
        if after.failures:
            return 0.35 * heard
        lag = parent.end_ns - child.end_ns
        return (0.8 if nothing_later or lag < _SECOND else 0.4) * patience

    def _told_its_end(self, parent: Process, child: Process) -> bool:
        """The first process of a sandbox is put away once it has told what became of the one
        below it."""
        return child.is_init and any(
            one.failed and one.status == parent.status for one in self._tree.children(child.pid)
        )

    def _limits_time(self, pid: int) -> bool:
        process = self._tree.process(pid)
        said = process.last_words
        return process.status in TIMED_OUT or words.timed_out(said)

    def _from_above(self, kill: Signal, child: Process) -> bool:
        """A program's signal to what it started; the OOM killer's comes from the kernel."""
        above = (process.pid for process in self._tree.ancestors(child.pid)[1:])
        return kill.sender == "process" and kill.pid in above
