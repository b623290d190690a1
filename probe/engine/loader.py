"""Brings the BPF object into the kernel: for each hook the first program that it accepts.

Kept apart from the engine and free of heavy imports, so that `probe run` can load
in a thread (libbpf works outside the interpreter's lock) while it imports the rest.
"""

from __future__ import annotations

import functools
import os
import re

from probe import abi
from probe.engine import calls, records
from probe.engine.errors import EngineError, not_permitted
from probe.engine.libbpf import BpfError, Libbpf, Object

TYPE_CHECKING = False  # not from typing, which takes two milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable

_OBJECTS = os.path.join(os.path.dirname(__file__), "objects")
_BTF = "/sys/kernel/btf/vmlinux"
_LEGACY = "-legacy"
_VARIANTS = ("", _LEGACY)  # of the object, best first (bpf/drift.h)


# Calls that the programs know by name.
_NUMBERED = (
    *("connect", "seccomp", "prctl", "write", "writev"),
    *("sendto", "sendmsg", "sendmmsg", "brk"),
)


class Hook:
    """One place to listen at: its programs, best first, and the senses that live on it.

    `without` is what is left of those senses where no program is accepted; a hook
    without which the engine is of no use has none. `lesser` says of a program that tells
    less than the first one which sense is partial then, and why.
    """

    def __init__(
        self,
        programs: tuple[str, ...],
        senses: tuple[str, ...],
        without: str | None = None,
        lesser: dict[str, tuple[str, str]] | None = None,
    ) -> None:
        self.programs, self.senses, self.without = programs, senses, without
        self.lesser = lesser or {}


HOOKS = (
    Hook(("sys_exit",), ("seccomp", "exec", "fork", "connect", "dns", "files")),
    Hook(("process_fork",), ("exec", "fork")),
    Hook(("process_exec",), ("exec",)),
    Hook(("process_exit",), ("exec",)),
    Hook(
        ("signal_with_mapping", "signal_alone"),
        ("seccomp",),
        without="partial",
        lesser={"signal_alone": ("oom", "the kernel does not tell which mapping a SIGBUS hit")},
    ),
    Hook(
        ("oom_victim_task", "oom_victim_pid"),
        ("oom",),
        without="none",
        lesser={"oom_victim_pid": ("oom", "the kernel tells a victim's number alone")},
    ),
    Hook(("sock_state",), ("connect",), without="partial"),
)


# Loaded with the others, attached when a filter asks for it (bpf/seccomp.h).
ENTERS = "sys_enter"


class Loaded:
    """The object, attached, and what the senses lack.

    `numbered`: the map of tasks goes by their numbers, not by pidfds.
    """

    def __init__(
        self, library: Libbpf, bpf: Object, lacking: dict[str, str], numbered: bool
    ) -> None:
        self.library, self.object, self.lacking = library, bpf, lacking
        self.numbered = numbered


def load(machine: str | None = None, *, everyone: bool = False) -> Loaded:
    """EngineError where this kernel, or this user, cannot have it.

    `everyone`: processes without a span are watched too.

    Only a trial load is evidence of what a kernel accepts, and libbpf loads an
    object as a whole: so each refusal costs one round more.
    """
    machine = machine or abi.machine()
    paths = {variant: os.path.join(_OBJECTS, f"{machine}{variant}.o") for variant in _VARIANTS}
    if not all(os.path.exists(path) for path in paths.values()):
        raise EngineError(
            f"no BPF object for {machine}", "install a wheel that was built with clang"
        )
    if not os.path.exists(_BTF):
        raise EngineError(
            f"the kernel shows no BTF at {_BTF}", "use one with CONFIG_DEBUG_INFO_BTF"
        )
    try:
        library = Libbpf()
    except OSError as error:
        raise EngineError(f"libbpf is missing ({error})", "apt-get install libbpf1") from error
    errors = []
    for variant, path in paths.items():
        attempt = functools.partial(_attached, library, path, settings(machine, everyone))
        try:
            bpf, chosen, refused = first_accepted(HOOKS, attempt)
        except EngineError as error:
            errors.append(error)
        else:
            return Loaded(library, bpf, _lacking(chosen, refused), variant == _LEGACY)
    raise errors[0]


def _lacking(chosen: dict[Hook, str], refused: dict[Hook, str]) -> dict[str, str]:
    """The state of the senses that are not full."""
    lacking = {}
    for hook, program in chosen.items():
        if program in hook.lesser:
            sense, why = hook.lesser[program]
            lacking[sense] = f"partial: {why}"
    for hook, reason in refused.items():
        for sense in hook.senses:
            lacking[sense] = f"{hook.without}: {reason}"
    return lacking


def first_accepted(
    hooks: tuple[Hook, ...], attempt: Callable[[set[str]], Object]
) -> tuple[Object, dict[Hook, str], dict[Hook, str]]:
    """Attempts with the best program of each hook, then the next where one is refused.

    The object, the program of each hook, and why the kernel refused those of the others.
    """
    choice = dict.fromkeys(hooks, 0)
    refused: dict[Hook, str] = {}
    while True:
        chosen = {hook: hook.programs[choice[hook]] for hook in hooks if hook not in refused}
        try:
            return attempt(set(chosen.values())), chosen, refused
        except Refusal as refusal:
            hook = next(hook for hook, program in chosen.items() if program == refusal.program)
            choice[hook] += 1
            if choice[hook] == len(hook.programs):
                if hook.without is None:
                    raise EngineError(refusal.reason) from refusal
                refused[hook] = refusal.reason


def _attached(library: Libbpf, path: str, settings: records.Settings, programs: set[str]) -> Object:
    try:
        bpf = Object(library, path)
    except BpfError as error:
        raise EngineError(f"{path} cannot be read: {error}") from error
    try:
        for program in {program for hook in HOOKS for program in hook.programs} - programs:
            bpf.leave_out(program)
        bpf.set_initial(".rodata.settings", settings)
        try:
            bpf.load()
        except BpfError as error:
            raise _refusal(error) from error
        for program in sorted(programs):
            try:
                bpf.attach(program)
            except BpfError as error:
                raise Refusal(program, f"{program} cannot be attached: {error}") from error
    except BaseException:
        bpf.close()
        raise
    return bpf


class Refusal(Exception):
    """The kernel did not take one program."""

    def __init__(self, program: str, reason: str) -> None:
        super().__init__(reason)
        self.program, self.reason = program, reason


_FAILED = re.compile(r"prog '(\w+)': BPF program load failed: (.*)")


def _refusal(error: BpfError) -> Refusal | EngineError:
    """Which program was refused; an EngineError where it was not about one."""
    failed = _FAILED.search(error.log)
    if error.errno in (1, 13) and (failed is None or "BEGIN PROG LOAD LOG" not in error.log):
        return not_permitted()
    if failed is None:
        return EngineError(f"the BPF object cannot be loaded: {error}")
    return Refusal(failed[1], f"the kernel refused {failed[1]}: {failed[2]}")


def settings(machine: str, everyone: bool) -> records.Settings:
    """What the programs are told before they run."""
    numbers = abi.syscall_numbers(machine)
    compat = abi.syscall_numbers(abi.COMPAT[machine])
    return records.Settings(
        pid_ns=os.stat("/proc/self/ns/pid").st_ino,
        self_tgid=os.getpid(),
        mnt_ns=os.stat("/proc/self/ns/mnt").st_ino,
        everyone=everyone,
        **{f"{name}_nr": numbers[name] for name in _NUMBERED},
        socketcall_nr=compat.get("socketcall", -1),
        compat_seccomp_nr=compat["seccomp"],
        compat_prctl_nr=compat["prctl"],
        successes=calls.successes(machine),
        call_errnos=calls.call_errnos(),
        file_errnos=calls.file_errnos(),
    )
