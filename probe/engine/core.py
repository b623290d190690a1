"""The default engine: CO-RE programs, compiled at build time, loaded by the system's libbpf."""

from __future__ import annotations

import ctypes
import os
import re
from dataclasses import dataclass

from probe import abi
from probe.coverage import Coverage, Losses
from probe.engine import EngineError, calls, records
from probe.engine.decode import Decoder
from probe.engine.libbpf import BpfError, Libbpf, Map, Object, RingBuffer
from probe.events import Event

_OBJECTS = os.path.join(os.path.dirname(__file__), "objects")
_BTF = "/sys/kernel/btf/vmlinux"


@dataclass(frozen=True, slots=True)
class Hook:
    """One place to listen at: its programs, best first, and the senses that live on it."""

    programs: tuple[str, ...]
    senses: tuple[str, ...]
    lost: str = "none"  # what is left of those senses without it: none or partial
    needed: bool = False  # without it the engine is of no use


HOOKS = (
    Hook(("sys_exit",), ("seccomp", "exec", "fork", "connect", "files"), needed=True),
    Hook(("process_fork",), ("exec", "fork"), needed=True),
    Hook(("process_exec",), ("exec",), needed=True),
    Hook(("process_exit",), ("exec",), needed=True),
    Hook(("signal_generate",), ("seccomp",), lost="partial"),
    Hook(("oom_victim_task", "oom_victim_pid"), ("oom",)),
    Hook(("sock_state",), ("connect",), lost="partial"),
)

_ALWAYS = {
    "dns": "none: answers to name queries are not read yet",
    "files": "partial: files that are not there are told of failed processes only",
}


class CoreEngine:
    """See Engine. Needs root or CAP_BPF and CAP_PERFMON, kernel BTF and libbpf 1.0."""

    name = "core"

    def __init__(self) -> None:
        machine = abi.machine()
        path = os.path.join(_OBJECTS, f"{machine}.o")
        if not os.path.exists(path):
            raise EngineError(f"no BPF object for {machine}")
        if not os.path.exists(_BTF):
            raise EngineError(
                f"the kernel has no BTF ({_BTF} is missing)",
                "use a kernel with CONFIG_DEBUG_INFO_BTF",
            )
        try:
            self._library = Libbpf()
        except OSError as error:
            raise EngineError(f"libbpf is missing ({error})", "apt-get install libbpf1") from error
        self._settings = _settings(machine)
        refused = self._load(path)
        self.coverage = Coverage(self.name, _senses(refused))
        self._decoder = Decoder(machine)
        self._tasks = self._object.map("tasks")
        self._losses = self._object.map("losses")
        table = self._object.map("calls")
        for number, call in calls.table(machine).items():
            table.update(ctypes.c_uint32(number), call)
        self._ring = RingBuffer(self._library, self._object.map("ring"), self._receive)

    def _load(self, path: str) -> dict[Hook, str]:
        """Loads and attaches, trying each hook's programs in turn; the hooks that had none.

        Only a trial load is evidence of what a kernel accepts, and libbpf loads
        an object as a whole: so each refusal costs one round more.
        """
        choice = dict.fromkeys(HOOKS, 0)
        refused: dict[Hook, str] = {}
        while True:
            chosen = {hook: hook.programs[choice[hook]] for hook in HOOKS if hook not in refused}
            try:
                self._open(path, set(chosen.values()))
                return refused
            except _Refusal as refusal:
                hook = next(hook for hook, program in chosen.items() if program == refusal.program)
                choice[hook] += 1
                if choice[hook] == len(hook.programs):
                    if hook.needed:
                        raise EngineError(refusal.reason, refusal.mend) from refusal
                    refused[hook] = refusal.reason

    def _open(self, path: str, programs: set[str]) -> None:
        try:
            self._object = Object(self._library, path)
        except BpfError as error:
            raise EngineError(f"{path} cannot be read: {error}") from error
        try:
            for hook in HOOKS:
                for program in hook.programs:
                    if program not in programs:
                        self._object.leave_out(program)
            self._object.set_initial(".rodata.settings", self._settings)
            try:
                self._object.load()
            except BpfError as error:
                raise _refusal(error) from error
            for program in sorted(programs):
                try:
                    self._object.attach(program)
                except BpfError as error:
                    raise _Refusal(program, f"{program} cannot be attached: {error}") from error
        except BaseException:
            self._object.close()
            raise

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


class _Refusal(Exception):
    """The kernel did not take one program."""

    def __init__(self, program: str, reason: str, mend: str = "") -> None:
        super().__init__(reason)
        self.program, self.reason, self.mend = program, reason, mend


_FAILED = re.compile(r"prog '(\w+)': BPF program load failed: (.*)")


def _refusal(error: BpfError) -> _Refusal | EngineError:
    """Which program was refused; an EngineError where it was not about one."""
    failed = _FAILED.search(error.log)
    if error.errno in (1, 13) and (failed is None or "BEGIN PROG LOAD LOG" not in error.log):
        return EngineError(
            "BPF is not permitted here", "run as root or grant CAP_BPF and CAP_PERFMON"
        )
    if failed is None:
        return EngineError(f"the BPF object cannot be loaded: {error}")
    return _Refusal(failed[1], f"the kernel refused {failed[1]}: {failed[2]}")


def _senses(refused: dict[Hook, str]) -> dict[str, str]:
    senses = dict.fromkeys(("seccomp", "exec", "fork", "connect", "dns", "oom", "files"), "full")
    senses.update(_ALWAYS)
    for hook, reason in refused.items():
        for sense in hook.senses:
            senses[sense] = f"{hook.lost}: {reason}"
    return senses


def _settings(machine: str) -> records.Settings:
    numbers = abi.syscall_numbers(machine)
    return records.Settings(
        pid_ns=os.stat("/proc/self/ns/pid").st_ino,
        self_tgid=os.getpid(),
        connect_nr=numbers["connect"],
        seccomp_nr=numbers["seccomp"],
        prctl_nr=numbers["prctl"],
        write_nr=numbers["write"],
        writev_nr=numbers["writev"],
        file_errnos=calls.file_errnos(),
    )


__all__ = ["HOOKS", "CoreEngine", "Hook", "Map"]
