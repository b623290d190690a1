"""A root of a container's own: the host's files, and over them what is written there."""

from __future__ import annotations

import subprocess
from pathlib import Path

from probe.problem import Problem


class Overlay:
    """What is written lies in memory, and goes with it."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self._layers = folder / "layers"
        for path in (self.root, self._layers):
            path.mkdir()
        _mount("-t", "tmpfs", "none", self._layers)
        upper, work = self._layers / "upper", self._layers / "work"
        upper.mkdir()
        work.mkdir()
        layers = f"lowerdir=/,upperdir={upper},workdir={work}"
        try:
            _mount("-t", "overlay", "-o", layers, "overlay", self.root)
        except Problem:
            _unmount(self._layers)
            raise

    def close(self) -> None:
        _unmount(self.root)
        _unmount(self._layers)


def _mount(*arguments: str | Path) -> None:
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Problem(f"cannot mount {arguments[-1]}: {done.stderr.strip()}", "run it as root")


def _unmount(path: Path) -> None:
    """Lazily: what a command has left running there may hold it a moment longer."""
    subprocess.run(["umount", "-l", path], check=False)
