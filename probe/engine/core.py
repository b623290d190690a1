"""The default engine: CO-RE programs, compiled at build time, loaded by the system's libbpf."""

from __future__ import annotations

import ctypes

from probe import abi
from probe.coverage import Coverage, Losses
from probe.engine import calls, records
from probe.engine.decode import Decoder
from probe.engine.libbpf import BpfError, RingBuffer
from probe.engine.loader import Hook, Loaded, load
from probe.events import Event

_ALWAYS = {
    "dns": "none: answers to name queries are not read yet",
    "files": "partial: files that are not there are told of failed processes only",
}


class CoreEngine:
    """See Engine. Needs root or CAP_BPF and CAP_PERFMON, kernel BTF and libbpf 1.0."""

    name = "core"

    def __init__(self, loaded: Loaded | None = None) -> None:
        machine = abi.machine()
        loaded = loaded or load(machine)
        self._object = loaded.object
        self.coverage = Coverage(self.name, _senses(loaded.refused))
        self._decoder = Decoder(machine)
        self._tasks = self._object.map("tasks")
        self._losses = self._object.map("losses")
        table = self._object.map("calls")
        for number, call in calls.table(machine).items():
            table.update(ctypes.c_uint32(number), call)
        self._ring = RingBuffer(loaded.library, self._object.map("ring"), self._receive)

    def _receive(self, address: int, size: int) -> None:
        self._decoder.feed(ctypes.string_at(address, size))

    def fileno(self) -> int:
        return self._ring.fileno()

    def read(self) -> list[Event]:
        self._ring.consume()
        return self._decoder.ready()

    def flush(self) -> list[Event]:
        self._ring.consume()
        return self._decoder.ready(everything=True)

    def mark(self, pidfd: int, span: int) -> None:
        state = _TaskState(span=span)
        try:
            self._tasks.update(ctypes.c_int(pidfd), state)
        except BpfError as error:
            raise ProcessLookupError(error.errno, "the process is gone") from error

    def losses(self, span: int) -> Losses:
        by_sense: dict[str, int] = {}
        for key in self._losses.keys(records.LossKey):
            count = ctypes.c_uint64()
            # A record without a span may have been anybody's.
            if key.span in (span, 0) and self._losses.lookup(key, count):
                sense = records.SENSE.get(key.kind, "exec")
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
        ("pad", ctypes.c_uint32),
    ]


def _senses(refused: dict[Hook, str]) -> dict[str, str]:
    senses = dict.fromkeys(("seccomp", "exec", "fork", "connect", "dns", "oom", "files"), "full")
    senses.update(_ALWAYS)
    for hook, reason in refused.items():
        for sense in hook.senses:
            senses[sense] = f"{hook.without}: {reason}"
    return senses
