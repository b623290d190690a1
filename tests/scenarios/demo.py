"""The whole system in one go: a collector, an agent, and twenty tests at once.

The tests are those of the gallery that are marked `demo`. Ends with the table of
explained causes and one explanation in full; the exit status is 0 only when every
failing test has the cause that was put into it, and no passing one has any.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import gallery

BIN = Path(sys.executable).parent
RUN = "demo"
IN_FULL = "a wrapper turns the OOM kill into exit 1"
START_S = 15


@contextmanager
def daemon(*command: str | Path, ready: Path, log: Path) -> Iterator[None]:
    """Runs a daemon until the end of the block; it is up when `ready` exists."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stderr=output, stdout=output)
    try:
        end = time.monotonic() + START_S
        while not ready.exists():
            if process.poll() is not None or time.monotonic() > end:
                sys.exit(f"{command[0]} did not start:\n{log.read_text()}")
            time.sleep(0.02)
        yield
    finally:
        process.terminate()
        process.wait()


def collector(*arguments: str | Path) -> str:
    command = [BIN / "collector", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def run_all(scenarios: list[gallery.Scenario], folder: Path) -> None:
    def one(number: int) -> None:
        gallery.watch(scenarios[number], folder / str(number), "--run", RUN)

    with ThreadPoolExecutor(len(scenarios)) as pool:
        list(pool.map(one, range(len(scenarios))))


def wrong(scenarios: list[gallery.Scenario], database: Path) -> list[str]:
    """What the collector says against what was put in."""
    found = []
    for scenario in scenarios:
        text = collector("explain", "--db", database, "--run", RUN, "--json", scenario.name)
        cause = gallery.cause(json.loads(text))
        if cause != scenario.cause:
            found.append(f"{scenario.name}: {cause} instead of {scenario.cause}")
    return found


def main() -> None:
    scenarios = [s for s in gallery.load(Path(__file__).parent / "gallery.toml") if s.demo]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        database, address = folder / "collector.db", f"unix:{folder}/collector.sock"
        socket = folder / "agent.sock"
        os.environ["PROBE_SOCKET"] = str(socket)
        os.environ["PROBE_SPOOL"] = str(folder / "spool")
        serve = (BIN / "collector", "serve", "--listen", address, "--db", database)
        agent = (BIN / "probe", "agent", "--socket", socket, "--collector", address)
        with daemon(*serve, ready=folder / "collector.sock", log=folder / "collector.log"):
            began = time.monotonic()
            with daemon(*agent, ready=socket, log=folder / "agent.log"):
                print(f"running {len(scenarios)} tests at once, each in a sandbox of its own")
                run_all(scenarios, folder)
            print(f"done in {time.monotonic() - began:.1f} s\n")
            print(collector("explain", "--db", database, "--run", RUN))
            print(collector("explain", "--db", database, "--run", RUN, IN_FULL))
            mistakes = wrong(scenarios, database)
    for mistake in mistakes:
        print(f"WRONG  {mistake}")
    right = len(scenarios) - len(mistakes)
    print(f"{right} of {len(scenarios)} tests were explained as they should be")
    sys.exit(bool(mistakes))


if __name__ == "__main__":
    main()
