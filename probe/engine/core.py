"""The default engine: CO-RE programs, compiled at build time, loaded by the system's libbpf."""

from __future__ import annotations

import ctypes

from probe.coverage import SENSES, Coverage
from probe.engine import records
from probe.engine.filters import Filters
from probe.engine.kernel import KernelEngine
from probe.engine.libbpf import BpfError
from probe.engine.loader import ENTERS, Loaded, load
from probe.pidfd import pid_of

_ALWAYS = {
    "files": "partial: files that are not there are told of failed processes only",
}


class CoreEngine(KernelEngine):
    """Needs root or CAP_BPF and CAP_PERFMON, kernel BTF and libbpf 1.0."""

    name = "core"

    def __init__(self, loaded: Loaded | None = None) -> None:
        loaded = loaded or load()
        self._object = loaded.object
        self._numbered = loaded.numbered
        self._tasks = self._object.map("tasks")
        self._watches_enters = False
        coverage = Coverage(self.name, _senses(loaded.lacking))
        super().__init__(loaded.library, self._object.map, coverage)

    @property
    def filters(self) -> Filters:
        """The seccomp programs that were copied out of the kernel so far."""
        return self._decoder.filters

    def _consume(self) -> None:
        super()._consume()
        if self._decoder.filters.ambiguous and not self._watches_enters:
            self._watches_enters = True
            self._object.attach(ENTERS)
            self._object.map(".data.control").update(ctypes.c_uint32(0), ctypes.c_uint32(1))

    def mark(self, pidfd: int, span: int) -> None:
        state = _TaskState(span=span)
        try:
            self._tasks.update(self._task(pidfd), state)
        except BpfError as error:
            raise ProcessLookupError(error.errno, "the process is gone") from error
        if span:
            self._begin_counting(span)

    def span_of(self, pidfd: int) -> int:
        state = _TaskState()
        known = self._tasks.lookup(self._task(pidfd), state)
        return int(state.span) if known else 0

    def _task(self, pidfd: int) -> ctypes.c_int:
        """The key of a process in the map of tasks."""
        return ctypes.c_int(pid_of(pidfd) if self._numbered else pidfd)

    def close(self) -> None:
        super().close()
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
