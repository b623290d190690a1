"""The default engine: CO-RE programs, compiled at build time, loaded by the system's libbpf."""

from __future__ import annotations

import ctypes

from probe import abi
from probe.coverage import SENSES, Coverage, Losses
from probe.engine import calls, records
from probe.engine.decode import Decoder
from probe.engine.engine import Named, NamespaceSeen, SpanNamed
from probe.engine.filters import Filters
from probe.engine.libbpf import BpfError, RingBuffer
from probe.engine.loader import ENTERS, Loaded, load
from probe.events import Event
from probe.pidfd import pid_of

_ALWAYS = {
    "files": "partial: files that are not there are told of failed processes only",
}


class CoreEngine:
    """See Engine. Needs root or CAP_BPF and CAP_PERFMON, kernel BTF and libbpf 1.0."""

    name = "core"

    def __init__(self, loaded: Loaded | None = None) -> None:
        machine = abi.machine()
        loaded = loaded or load(machine)
        self._object = loaded.object
        self._numbered = loaded.numbered
        self.coverage = Coverage(self.name, _senses(loaded.lacking))
        self._decoder = Decoder(machine)
        self._tasks = self._object.map("tasks")
        self._losses = self._object.map("losses")
        self._folds = self._object.map("folds")
        self._watches_enters = False
        self._before: dict[int, Losses] = {}  # losses without a span, at each begin
        table = self._object.map("calls")
        for number, call in calls.table(machine).items():
            table.update(ctypes.c_uint32(number), call)
        self._ring = RingBuffer(loaded.library, self._object.map("ring"), self._receive)

    def _receive(self, address: int, size: int) -> None:
        self._decoder.feed(ctypes.string_at(address, size))

    def tell_namespaces(self, seen: NamespaceSeen) -> None:
        self._decoder.namespace_seen = seen

    def tell_named(self, seen: SpanNamed) -> None:
        def begin(named: Named) -> None:
            self._before[named.key] = self._lost_by(0)
            seen(named)

        self._decoder.span_named = begin

    @property
    def filters(self) -> Filters:
        """The seccomp programs that were copied out of the kernel so far."""
        return self._decoder.filters

    def fileno(self) -> int:
        return self._ring.fileno()

    def read(self) -> list[Event]:
        self._consume()
        return self._decoder.ready()

    def _consume(self) -> None:
        self._ring.consume()
        if self._decoder.filters.ambiguous and not self._watches_enters:
            self._watches_enters = True
            self._object.attach(ENTERS)
            self._object.map(".data.control").update(ctypes.c_uint32(0), ctypes.c_uint32(1))

    def flush(self, span: int) -> list[Event]:
        self._consume()
        self._unfold(span)
        self._decoder.unanswered(span)
        return self._decoder.ready(everything=True)

    def unfold(self, span: int) -> list[Event]:
        self._consume()
        self._unfold(span)
        return self._decoder.ready()

    def _unfold(self, span: int) -> None:
        """Tells what the kernel only counted, and makes room in its map."""
        fold = records.Fold()
        for key in self._folds.keys(records.FoldKey):
            if key.span == span and self._folds.lookup(key, fold):
                self._folds.delete(key)
                if fold.hidden:
                    self._decoder.folded(key, fold.hidden)

    def mark(self, pidfd: int, span: int) -> None:
        state = _TaskState(span=span)
        try:
            self._tasks.update(self._task(pidfd), state)
        except BpfError as error:
            raise ProcessLookupError(error.errno, "the process is gone") from error
        if span:
            self._before[span] = self._lost_by(0)

    def span_of(self, pidfd: int) -> int:
        state = _TaskState()
        known = self._tasks.lookup(self._task(pidfd), state)
        return int(state.span) if known else 0

    def _task(self, pidfd: int) -> ctypes.c_int:
        """The key of a process in the map of tasks."""
        return ctypes.c_int(pid_of(pidfd) if self._numbered else pidfd)

    def losses(self, span: int) -> Losses:
        # A record without a span may have been anybody's, so it counts for all.
        unattributed = self._lost_by(0).since(self._before.pop(span, Losses()))
        return self._lost_by(span).plus(unattributed)

    def _lost_by(self, span: int) -> Losses:
        by_sense: dict[str, int] = {}
        count = ctypes.c_uint64()
        for kind, sense in records.SENSE.items():
            if self._losses.lookup(records.LossKey(span=span, kind=kind), count):
                by_sense[sense] = by_sense.get(sense, 0) + count.value
        return Losses(by_sense)

    def close(self) -> None:
        self._ring.close()
        self._object.close()


class _TaskState(ctypes.Structure):
    """struct task_state of bpf/task.h."""

    _fields_ = [
        ("span", ctypes.c_uint64),
        ("calls", ctypes.c_uint64),
        ("next", records.FollowUp * records.FOLLOW_UPS),
        ("creator", ctypes.c_uint32),
        ("serial", ctypes.c_uint32),
        ("followed", ctypes.c_uint32),
        ("entered", ctypes.c_uint32),
        ("enters", ctypes.c_uint32),
        ("pad", ctypes.c_uint32),
    ]


def _senses(lacking: dict[str, str]) -> dict[str, str]:
    return {**dict.fromkeys(SENSES, "full"), **_ALWAYS, **lacking}
