"""Where the benches work: a folder of their own, compiled helpers, agents and collectors."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from probe import local
from probe.engine.libbpf import SONAME, Libbpf, Object

SOURCES = Path(__file__).parent
PROBE = str(Path(sys.executable).with_name("probe"))
COLLECTOR = str(Path(sys.executable).with_name("collector"))
_PATIENCE_S = 20.0

T = TypeVar("T")


def loaded_programs() -> int:
    """How many BPF programs the kernel holds, whoever loaded them."""
    libbpf, count, number = ctypes.CDLL(SONAME), 0, ctypes.c_uint32(0)
    while not libbpf.bpf_prog_get_next_id(number, ctypes.byref(number)):
        count += 1
    return count


def _patiently(attempt: Callable[[], T | None]) -> T:
    """What `attempt` gives once it gives something. TimeoutError when it never does."""
    deadline = time.monotonic() + _PATIENCE_S
    while (result := attempt()) is None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"not ready after {_PATIENCE_S:.0f} s")
        time.sleep(0.01)
    return result


class Testbed:
    """A temporary folder, and what runs out of it; everything ends with it."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="bench-"))
        self.socket = self.folder / "agent.sock"

    def __enter__(self) -> Testbed:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder)

    def environment(self, *, agent: bool) -> dict[str, str]:
        """With our agent to be found by `probe run`, or none at all.

        Compiled modules may be kept, as they are where a package is installed.
        """
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("PROBE_") and name != "PYTHONDONTWRITEBYTECODE"
        }
        socket = str(self.socket) if agent else "/nonexistent"
        return {**kept, "PROBE_SOCKET": socket, "PROBE_SPOOL": str(self.folder / "spool")}

    def helper(self, name: str) -> str:
        """The path of a C program of this package, compiled."""
        program = self.folder / name
        if not program.exists():
            source = str(SOURCES / f"{name}.c")
            subprocess.run(["gcc", "-O2", "-Wall", "-o", str(program), source], check=True)
        return str(program)

    @contextlib.contextmanager
    def floor(self) -> Iterator[None]:
        """An empty BPF program at the exit of every system call, while this is open."""
        compiled = self.folder / "floor.bpf.o"
        source = str(SOURCES / "floor.bpf.c")
        flags = ["-O2", "-target", "bpf", "-c", source, "-o", str(compiled)]
        subprocess.run(["clang", *flags], check=True)
        bpf = Object(Libbpf(), str(compiled))
        try:
            bpf.load()
            bpf.attach("nothing")
            yield
        finally:
            bpf.close()

    @contextlib.contextmanager
    def agent(self, *options: str) -> Iterator[int]:
        """A `probe agent` that is ready; its pid."""
        command = [PROBE, "agent", "--socket", str(self.socket), *options]
        with self._process(command) as process:
            client = _patiently(lambda: local.connect(str(self.socket)))
            client.ask({"do": "status"})
            client.close()
            yield process.pid

    @contextlib.contextmanager
    def collector(
        self, url: str | None = None, number: int = 0, options: Sequence[str] = ()
    ) -> Iterator[str]:
        """A `collector serve` that is ready, on a database of its own or a given one; its address.

        Several at a time need numbers of their own.
        """
        socket = self.folder / f"collector-{number}.sock"
        database = url or str(self.folder / "collector.db")
        socket.unlink(missing_ok=True)
        command = [COLLECTOR, "serve", "--listen", f"unix:{socket}", "--db", database, *options]
        with self._process(command):
            _patiently(lambda: socket.exists() or None)
            yield f"unix:{socket}"

    @contextlib.contextmanager
    def _process(self, command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
        environment = self.environment(agent=False)
        quiet = subprocess.DEVNULL
        process = subprocess.Popen(command, env=environment, stdout=quiet, stderr=quiet)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(_PATIENCE_S)
