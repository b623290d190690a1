"""Making a sandbox for one command, as a profile describes it.

Everything is a prefix of the command line, so a sandbox can be put around any
command, watched from inside or outside, and needs no daemon: bubblewrap for
namespaces and seccomp, cgroup files for limits, unshare(1) for a network of its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import errno
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from probe.problem import Problem

_CGROUPS = Path("/sys/fs/cgroup")
_ACTIONS = {
    "ALLOW": 0x7FFF0000,
    "LOG": 0x7FFC0000,
    "TRACE": 0x7FF00000,
    "USER_NOTIF": 0x7FC00000,
    "TRAP": 0x00030000,
    "KILL_PROCESS": 0x80000000,
    "KILL_THREAD": 0x00000000,
}
_ERRNO = 0x00050000
_REMOVAL_S = 5.0


@dataclass(frozen=True)
class Profile:
    """What a sandbox allows. Memory in bytes; `seccomp` maps syscalls to an errno or an action."""

    seccomp: Mapping[str, str] = field(default_factory=dict)
    seccomp_default: str = "ALLOW"
    memory: int | None = None
    pids: int | None = None
    network: str = "host"  # host, none (no interface but lo), or loopback (lo, up)
    firewall: str | None = None  # an nftables ruleset for a network of its own
    nameserver: Sequence[str] | None = None  # a command that serves names on 127.0.0.1:53
    read_only: Sequence[str] = ()
    tmpfs: Mapping[str, int] = field(default_factory=dict)  # mount point: size
    user: int | None = None
    landlock: Sequence[str] | None = None  # the only directories that may be written


class Sandbox:
    """A profile in force. A context manager: its cgroups and files go with it."""

    def __init__(self, profile: Profile, name: str) -> None:
        self.profile = profile
        self.name = name
        self._cgroups: list[Path] = []
        self._folder = Path(tempfile.mkdtemp(prefix="sandbox-"))

    def __enter__(self) -> Sandbox:
        limits = (("memory", self.profile.memory), ("pids", self.profile.pids))
        for controller, limit in limits:
            if limit is not None:
                self._limit(controller, limit)
        return self

    def _limit(self, controller: str, limit: int) -> None:
        """Under v1 each controller has a cgroup of its own, under v2 they share one."""
        if (_CGROUPS / "cgroup.controllers").exists():
            folder, file = _CGROUPS / self.name, f"{controller}.max"
        else:
            folder = _CGROUPS / controller / self.name
            file = "memory.limit_in_bytes" if controller == "memory" else "pids.max"
        try:
            if folder not in self._cgroups:
                folder.mkdir()
                self._cgroups.append(folder)
            (folder / file).write_text(str(limit))
        except OSError as error:
            raise Problem(f"cannot limit {controller} in {folder}", error.strerror or "") from error

    def __exit__(self, *_: object) -> None:
        for cgroup in self._cgroups:
            _remove_cgroup(cgroup)
        shutil.rmtree(self._folder, ignore_errors=True)

    def command(self, argv: Sequence[str]) -> list[str]:
        """The command line that runs `argv` in this sandbox."""
        inner = [*self._in_bubblewrap(), *self._in_landlock(), *argv]
        return [*self._in_cgroups(), *self._in_network(), *(self.profile.nameserver or ()), *inner]

    def _in_cgroups(self) -> list[str]:
        if not self._cgroups:
            return []
        joins = "; ".join(f"echo $$ > {cgroup}/cgroup.procs" for cgroup in self._cgroups)
        return ["sh", "-c", f'{joins}; exec "$@"', "sandbox"]

    def _in_network(self) -> list[str]:
        own = self.profile.firewall is not None or self.profile.nameserver is not None
        if self.profile.network == "host" and not own:
            return []
        if self.profile.network == "none":
            return ["unshare", "--net"]
        steps = ["ip link set lo up"]
        if self.profile.firewall is not None:
            rules = self._folder / "firewall.nft"
            rules.write_text(self.profile.firewall)
            steps.append(f"nft -f {rules}")
        if self.profile.nameserver is not None:
            resolver = self._folder / "resolv.conf"
            resolver.write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
            steps.append(f"mount --bind {resolver} /etc/resolv.conf")
        namespaces = ["unshare", "--net", "--mount"]
        return [*namespaces, "sh", "-c", f'{" && ".join(steps)} && exec "$@"', "sandbox"]

    def _in_landlock(self) -> list[str]:
        if self.profile.landlock is None:
            return []
        module = str(Path(__file__).with_name("landlock.py"))
        return [sys.executable, module, *self.profile.landlock, "--"]

    def _in_bubblewrap(self) -> list[str]:
        profile = self.profile
        if not (profile.seccomp or profile.read_only or profile.tmpfs or profile.user is not None):
            return []
        prefix = ["bwrap", "--dev-bind", "/", "/"]
        for path in profile.read_only:
            prefix += ["--ro-bind", path, path]
        for path, size in profile.tmpfs.items():
            prefix += ["--size", str(size), "--tmpfs", path]
        if profile.user is not None:
            prefix += ["--unshare-user", "--uid", str(profile.user)]
        if not profile.seccomp:
            return prefix
        program = self._folder / "seccomp.bpf"
        program.write_bytes(compile_filter(profile.seccomp, profile.seccomp_default))
        # bubblewrap reads the program from a descriptor.
        opened = f'exec "$@" 9< {program}'
        return ["bash", "-c", opened, "sandbox", *prefix, "--seccomp", "9"]


def _remove_cgroup(folder: Path) -> None:
    """Ends what a command has left running in it; those take a moment to go."""
    end = time.monotonic() + _REMOVAL_S
    while True:
        for line in (folder / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(line), signal.SIGKILL)
        try:
            folder.rmdir()
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > end:
                raise Problem(f"cannot remove {folder}", error.strerror or "") from error
            time.sleep(0.01)
        else:
            return


def action_value(name: str) -> int:
    """SECCOMP_RET_* of an action's name, or SECCOMP_RET_ERRNO of an errno's."""
    if name in _ACTIONS:
        return _ACTIONS[name]
    number = 0 if name == "ERRNO(0)" else getattr(errno, name, None)
    if number is None:
        raise Problem(f"unknown seccomp action {name!r}", f"use an errno or {', '.join(_ACTIONS)}")
    return _ERRNO + int(number)


def compile_filter(rules: Mapping[str, str], default: str = "ALLOW") -> bytes:
    """A seccomp program for bubblewrap, by the system's libseccomp."""
    library = ctypes.CDLL(ctypes.util.find_library("seccomp") or "libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_init.argtypes = [ctypes.c_uint32]
    library.seccomp_rule_add.argtypes = [
        ctypes.c_void_p,
        ctypes.c_uint32,
        ctypes.c_int,
        ctypes.c_uint,
    ]
    library.seccomp_export_bpf.argtypes = [ctypes.c_void_p, ctypes.c_int]
    library.seccomp_release.argtypes = [ctypes.c_void_p]
    context = library.seccomp_init(action_value(default))
    try:
        for syscall, action in rules.items():
            number = library.seccomp_syscall_resolve_name(syscall.encode())
            if number == -1:
                raise Problem(f"unknown syscall {syscall!r}", "see syscalls(2)")
            library.seccomp_rule_add(context, action_value(action), number, 0)
        with tempfile.TemporaryFile() as file:
            if library.seccomp_export_bpf(context, file.fileno()) != 0:
                raise Problem("libseccomp could not write the filter")
            file.seek(0)
            return file.read()
    finally:
        library.seccomp_release(context)


def unique_name(stem: str) -> str:
    """A cgroup name that no other process uses."""
    return f"{stem}-{os.getpid()}"
