"""The kernel log: who the OOM killer chose, and what a seccomp filter ended.

Only the kernel's own lines count: what user space writes there has another facility
(/dev/kmsg in Documentation/ABI/testing/dev-kmsg).
"""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass

_DEVICE = os.makedev(1, 11)
_RECORD_MAX = 8192
_OUT_OF_MEMORY = re.compile(
    r"(Memory cgroup out of memory|Out of memory[^:]*): "
    r"Killed process (\d+) \((.*)\) total-vm:(\d+)kB"
)
_CHOICE = re.compile(r"oom-kill:constraint=.*?oom_memcg=(.*),task_memcg=.*,pid=(\d+),uid=\d+$")
_USAGE = re.compile(r"memory: usage (\d+)kB, limit (\d+)kB")
_SECCOMP = re.compile(
    r"audit: type=1326 audit\((\d+)\.(\d+):\d+\): .*? ?pid=(\d+) comm=.* "
    r"sig=(\d+) arch=([0-9a-f]+) syscall=(\d+) compat=\d ip=0x[0-9a-f]+ code=0x([0-9a-f]+)$"
)


@dataclass(frozen=True, slots=True)
class Choice:
    """Of the OOM killer. Sizes are bytes; `cgroup` is none where the machine had no memory."""

    pid: int
    virtual: int
    of_cgroup: bool
    cgroup: str | None = None
    usage: int | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Audit:
    """A filter's answer that the kernel wrote down. `code` is SECCOMP_RET_ACTION_FULL's part."""

    time_ns: int
    pid: int
    signal: int
    arch: int
    syscall: int
    code: int


def message(record: bytes) -> str | None:
    """The text of one record of /dev/kmsg; None where it is not the kernel's own."""
    prefix, found, text = record.partition(b";")
    number = prefix.split(b",")[0]
    if not found or not number.isdigit() or int(number) >> 3:
        return None
    return text.split(b"\n")[0].decode(errors="backslashreplace")


class Reader:
    """From lines to what they tell; an OOM kill is told in several."""

    def __init__(self) -> None:
        self._usage: tuple[int, int] | None = None
        self._chosen: tuple[int, str] | None = None

    def take(self, text: str) -> Choice | Audit | None:
        if text.startswith("audit: type=1326 "):
            return _audit(text)
        usage = _USAGE.match(text)
        if usage is not None:
            self._usage = int(usage[1]) << 10, int(usage[2]) << 10
            return None
        chosen = _CHOICE.match(text)
        if chosen is not None:
            self._chosen = int(chosen[2]), chosen[1]
            return None
        killed = _OUT_OF_MEMORY.match(text)
        return self._choice(killed) if killed is not None else None

    def _choice(self, killed: re.Match[str]) -> Choice:
        of_cgroup, pid = killed[1].startswith("Memory cgroup"), int(killed[2])
        chosen, usage = self._chosen, self._usage
        self._chosen = self._usage = None
        known = of_cgroup and chosen is not None and chosen[0] == pid
        return Choice(
            pid,
            int(killed[4]) << 10,
            of_cgroup,
            cgroup=chosen[1] if known and chosen else None,
            usage=usage[0] if of_cgroup and usage else None,
            limit=usage[1] if of_cgroup and usage else None,
        )


def _audit(text: str) -> Audit | None:
    found = _SECCOMP.match(text)
    if found is None:
        return None
    return Audit(
        time_ns=int(found[1]) * 1_000_000_000 + int(found[2]) * 1_000_000,
        pid=int(found[3]),
        signal=int(found[4]),
        arch=int(found[5], 16),
        syscall=int(found[6]),
        code=int(found[7], 16),
    )


class KernelLog:
    """From now on. OSError where it may not be read."""

    def __init__(self) -> None:
        self._fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if os.fstat(self._fd).st_rdev != _DEVICE:
                raise OSError(errno.ENODEV, "it is another file here")
            os.lseek(self._fd, 0, os.SEEK_END)
        except OSError:
            os.close(self._fd)
            raise
        self._reader = Reader()
        self.overruns = 0  # how often lines were overwritten before they were read

    def fileno(self) -> int:
        return self._fd

    def read(self, most: int) -> list[Choice | Audit]:
        """What came since the last call, of at most so many lines."""
        found: list[Choice | Audit] = []
        for _ in range(most):
            try:
                record = os.read(self._fd, _RECORD_MAX)
            except BlockingIOError:
                break
            except OSError:  # EPIPE
                self.overruns += 1
                continue
            if not record:
                break
            text = message(record)
            told = self._reader.take(text) if text is not None else None
            if told is not None:
                found.append(told)
        return found

    def close(self) -> None:
        os.close(self._fd)
