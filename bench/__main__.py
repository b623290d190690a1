"""The command line: `python -m bench [--only NAME] [--rounds N] [--json FILE]`, as root."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from bench import (
    accuracy,
    engines,
    explain,
    ingest,
    memory,
    overhead,
    pace,
    startup,
    storm,
    syscall,
)
from bench.testbed import Testbed
from probe.terminal import Terminal

BENCHES = {
    "engines": engines.measure,
    "overhead": overhead.measure,
    "syscall": syscall.measure,
    "startup": startup.measure,
    "memory": memory.measure,
    "storm": storm.measure,
    "pace": pace.measure,
    "ingest": ingest.measure,
    "explain": explain.measure,
    "accuracy": accuracy.measure,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", choices=tuple(BENCHES), action="append", help="may be repeated")
    parser.add_argument("--rounds", type=int, metavar="N", help="each bench has its own default")
    parser.add_argument("--json", type=Path, metavar="FILE", help="every sample, for programs")
    options = parser.parse_args()
    if os.geteuid():
        parser.error("watching the kernel takes root")
    terminal = Terminal(sys.stdout)
    samples: dict[str, object] = {}
    with Testbed() as bed:
        for name in options.only or BENCHES:
            table = BENCHES[name](bed, options.rounds)
            table.show(terminal)
            samples[name] = table.as_json()
    if options.json:
        options.json.write_text(json.dumps(samples, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
