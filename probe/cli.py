"""The command line of the probe."""

from __future__ import annotations

import contextlib
import os
import sys


def main() -> None:
    """The console script `probe`."""
    arguments = sys.argv[1:]
    try:
        leave(_dispatch(arguments))
    except BrokenPipeError:
        # Whoever read our output has gone; nothing is left to say (signal(7), SIGPIPE).
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(141)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        from probe.problem import EXIT_STATUS, Problem
        from probe.terminal import Terminal

        if not isinstance(error, Problem):
            raise
        terminal = Terminal(sys.stderr)
        terminal.line(terminal.style(f"probe: {error}"))
        sys.exit(EXIT_STATUS)


def leave(status: int) -> None:
    """Ends the process without taking the interpreter apart, which takes milliseconds."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # it was closed before we began
            with contextlib.suppress(ValueError):  # closed by what has served on it
                stream.flush()
    os._exit(status)


def _dispatch(arguments: list[str]) -> int:
    from probe.commands import parse

    options = parse(arguments)
    command: int = options.command(options)
    return command


if __name__ == "__main__":
    main()
