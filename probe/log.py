"""The log of a daemon: on stderr, for eyes on a terminal and as JSON lines elsewhere."""

from __future__ import annotations

import contextlib
import sys

import structlog
from structlog.typing import EventDict, WrappedLogger

from probe.terminal import escape


def configure() -> None:
    """Once, at the start of a command that logs."""
    tty = sys.stderr is not None and sys.stderr.isatty()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _escaped,
            structlog.dev.ConsoleRenderer() if tty else structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(_Stderr()),  # type: ignore[arg-type]
    )


class _Stderr:
    """A daemon does not end because nobody takes its log."""

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            sys.stderr.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            sys.stderr.flush()


def _escaped(_: WrappedLogger, __: str, record: EventDict) -> EventDict:
    """Names come from sandboxes and may hold control sequences."""
    return {
        name: escape(value) if isinstance(value, str) and name != "exception" else value
        for name, value in record.items()
    }
