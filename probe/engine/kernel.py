"""What the engines that listen with BPF have in common: a ring of records, and maps beside it."""

from __future__ import annotations

import ctypes

from probe import abi
from probe.coverage import Coverage, Losses
from probe.engine import calls, records
from probe.engine.decode import Decoder
from probe.engine.engine import Named, NamespaceSeen, SpanNamed
from probe.engine.libbpf import Libbpf, Map, RingBuffer
from probe.events import Event

TYPE_CHECKING = False  # not from typing, which takes two milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable


class KernelEngine:
    """See Engine. What a subclass adds is how the programs got there, and whose task is whose."""

    name: str

    def __init__(self, library: Libbpf, find: Callable[[str], Map], coverage: Coverage) -> None:
        """`find` gives a map by its name; the names are those of bpf/."""
        machine = abi.machine()
        self.coverage = coverage
        self._decoder = Decoder(machine)
        self._losses, self._folds = find("losses"), find("folds")
        self._before: dict[int, Losses] = {}  # losses without a span, at each begin
        find("calls").fill(calls.table(machine))
        self._ring = RingBuffer(library, find("ring"), self._receive)

    def _receive(self, address: int, size: int) -> None:
        self._decoder.take(records.parse(ctypes.string_at(address, size)))

    def tell_namespaces(self, seen: NamespaceSeen) -> None:
        self._decoder.namespace_seen = seen

    def tell_named(self, seen: SpanNamed) -> None:
        def begin(named: Named) -> None:
            self._before[named.key] = self._lost_by(0)
            seen(named)

        self._decoder.span_named = begin

    def fileno(self) -> int:
        return self._ring.fileno()

    def read(self) -> list[Event]:
        self._consume()
        return self._decoder.ready()

    def _consume(self) -> None:
        self._ring.consume()

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

    def _begin_counting(self, span: int) -> None:
        self._before[span] = self._lost_by(0)

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
