"""The kernel, the distribution on top of it, and the machine below."""

from __future__ import annotations

import ctypes
import os
import platform
from dataclasses import dataclass

from probe import abi
from probe.doctor.section import Learner, Section, attempt, fact, passing, read

_READ_ALL = 3  # syslog(2), SYSLOG_ACTION_READ_ALL
_MARKS = {  # files that container engines leave in what they run
    "/.dockerenv": "docker",
    "/run/.containerenv": "podman",
    "/run/systemd/container": "systemd-nspawn",
}


@dataclass
class Kernel(Section):
    kind: str = fact(0.5, "`linux`, or `gVisor`, which answers syscalls itself")
    release: str = fact(0.3, "uname -r")
    machine: str = fact(0.9, "uname -m")
    distribution: str | None = fact(0.3, "PRETTY_NAME of os-release(5)")
    libc: str = fact(0.6, "the C library of this Python, with its version")
    container: str | None = fact(0.05, "the engine whose mark was found, if any")
    cpus: int = fact(0.2, "how many CPUs this process may run on")
    memory: int | None = fact(0.05, "bytes of memory of the whole machine")
    boot: str | None = passing("the kernel's boot_id")


def examine() -> Kernel:
    learner = Learner()
    return Kernel(
        kind="gVisor" if _is_gvisor() else "linux",
        release=os.uname().release,
        machine=abi.machine(),
        distribution=learner.learn("distribution", _distribution),
        libc=" ".join(platform.libc_ver()).strip() or _other_libc(),
        container=next((name for mark, name in _MARKS.items() if os.path.exists(mark)), None),
        cpus=len(os.sched_getaffinity(0)),
        memory=learner.learn("memory", _memory),
        boot=learner.learn("boot", lambda: read("/proc/sys/kernel/random/boot_id")),
        unknown=learner.unknown,
    )


def _is_gvisor() -> bool:
    """Its kernel log, which everybody may read there, begins with its name."""

    def search() -> int:
        log = ctypes.create_string_buffer(1 << 16)
        length = ctypes.CDLL(None).klogctl(_READ_ALL, log, len(log))
        return int(b"Starting gVisor" in log.raw[: max(0, length)])

    try:
        return bool(attempt(search))
    except OSError:
        return False


def _distribution() -> str:
    return platform.freedesktop_os_release()["PRETTY_NAME"]


def _other_libc() -> str:
    """musl writes no version where platform looks; its loader's name tells."""
    return "musl" if os.path.exists(f"/lib/ld-musl-{abi.machine()}.so.1") else "unknown"


def _memory() -> int:
    import psutil

    return int(psutil.virtual_memory().total)
