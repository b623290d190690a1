"""Cgroups that limit what joins them; either version."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import time
from pathlib import Path

from probe.problem import Problem

_CGROUPS = Path("/sys/fs/cgroup")
_REMOVAL_S = 5.0


def limit(name: str, memory: int | None, pids: int | None) -> list[Path]:
    """Makes what is needed for the limits (bytes, tasks). Problem where it may not."""
    made: list[Path] = []
    for controller, value in (("memory", memory), ("pids", pids)):
        if value is not None:
            _limit(name, controller, value, made)
    return made


def _limit(name: str, controller: str, value: int, made: list[Path]) -> None:
    """Under v1 each controller has a cgroup of its own, under v2 they share one."""
    if (_CGROUPS / "cgroup.controllers").exists():
        folder, file = _CGROUPS / name, f"{controller}.max"
    else:
        folder = _CGROUPS / controller / name
        file = "memory.limit_in_bytes" if controller == "memory" else "pids.max"
    try:
        if folder not in made:
            folder.mkdir()
            made.append(folder)
        (folder / file).write_text(str(value))
    except OSError as error:
        raise Problem(f"cannot limit {controller} in {folder}", error.strerror or "") from error


def remove(folder: Path) -> None:
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
