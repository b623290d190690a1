"""The console script, which says what is missing where only the probe's needs are installed."""

from __future__ import annotations

import sys


def main() -> int:
    """The command `collector`."""
    try:
        from collector.cli import main as run
    except ModuleNotFoundError as error:
        if error.name and error.name.split(".")[0] in ("collector", "probe"):
            raise
        sys.stderr.write(
            f"collector: {error.name} is not installed: pip install 'sandbox-probe[collector]'\n"
        )
        return 2
    return run()
