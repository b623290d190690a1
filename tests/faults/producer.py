"""A probe whose events are known: number N of them says N, in every field that can.

python producer.py ADDRESSES SANDBOX FOLDER [SPOOL_MIB]

Killed at any moment and started again it goes on after the last number in its
ledger. It ends, drained, once FOLDER/stop is there.
"""

from __future__ import annotations

import os
import select
import sys
from pathlib import Path

from probe import stream
from probe.access import Access
from probe.coverage import SENSES, Coverage, Losses
from probe.events import Event, Exec
from probe.span import Span
from probe.stream import Stream

KEY, RUN, BOOT = 7, "faults", "b1"
COVERAGE = Coverage("core", dict.fromkeys(SENSES, "full"))
SPAN_EVERY = 100
PAUSE_S = 0.001
DRAIN_S = 60.0


def event(number: int) -> Event:
    words = ("tool", f"--number={number}", "x" * (number % 200))
    return Exec(
        sequence=number, time_ns=number * 1000, pid=number, span=KEY, path="/tool", argv=words
    )


def span(sandbox: str, number: int) -> Span:
    """Of the numbers up to this one."""
    return Span(KEY + number, RUN, f"t{number}", ("tool",), sandbox, BOOT, number, number)


def ledger(folder: Path) -> int:
    """The last number that is known to have been put in."""
    try:
        lines = (folder / "ledger").read_bytes().split(b"\n")
    except FileNotFoundError:
        return 0
    return int(lines[-2]) if len(lines) > 1 else 0


def main() -> None:
    addresses, sandbox, folder = sys.argv[1].split(","), sys.argv[2], Path(sys.argv[3])
    stream.FIRST_DELAY_S, stream.MAX_DELAY_S = 0.01, 0.5
    client = Stream(
        Access(tuple(addresses)),
        sandbox=sandbox,
        boot=BOOT,
        coverage=COVERAGE,
        spool=folder / "spool",
        spool_bytes=int(sys.argv[4] if len(sys.argv) > 4 else 64) << 20,
        batch_items=50,
        linger_s=0.005,
    )
    written = os.open(folder / "ledger", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    number = ledger(folder)
    while not (folder / "stop").exists():
        number += 1
        client.put_event(event(number))
        if number % SPAN_EVERY == 0:
            client.put_span(span(sandbox, number), COVERAGE, Losses())
        os.write(written, b"%d\n" % number)
        select.select([], [], [], PAUSE_S)  # clock_nanosleep(2) fails before a faked epoch
    drained = client.drain(DRAIN_S)
    print(client.status(), file=sys.stderr)
    client.close()
    sys.exit(0 if drained else 1)


if __name__ == "__main__":
    main()
