"""The one place where text for people leaves: escaped, coloured, wrapped.

Colour only on a terminal and without NO_COLOR (https://no-color.org). Text that
comes from a workload may hold escape sequences, so control characters are
always shown as escapes.
"""

from __future__ import annotations

import io
import os
import sys
from typing import TextIO

from probe.problem import Problem

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
MAX_WIDTH = 100


def escape(text: str) -> str:
    """Printable text as it is; control, bidirectional and unpaired characters as escapes."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def shorten(text: str, limit: int) -> str:
    """At most `limit` characters, with an ellipsis where some are left out."""
    return text if len(text) <= limit else text[: max(0, limit - 1)] + "…"


class Terminal:
    """Writes lines to one stream."""

    def __init__(self, stream: TextIO | None = None, *, needed: bool = False) -> None:
        """`needed`: what cannot be written is a Problem (or a BrokenPipeError)."""
        self._needed = needed
        self._stream = stream or sys.stderr or io.StringIO()  # stderr may be closed
        try:
            tty = self._stream.isatty()
        except ValueError:
            tty = False
        self._colour = tty and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self.width = _width(self._stream) if tty else MAX_WIDTH

    def style(self, text: str, *names: str) -> str:
        """Escaped text, in the named styles where colour is wanted."""
        safe = escape(text)
        if not self._colour:
            return safe
        return f"\x1b[{';'.join(_STYLES[name] for name in names)}m{safe}\x1b[0m"

    def line(self, *parts: str) -> None:
        """One line from parts that `style` or `escape` made safe."""
        text = "".join(parts) + "\n"
        try:
            self._stream.write(text)
            self._stream.flush()
        except UnicodeEncodeError:
            self._stream.write(text.encode("ascii", "backslashreplace").decode())
        except BrokenPipeError:
            if self._needed:
                raise
        except (OSError, ValueError) as error:
            if self._needed:
                raise Problem(f"cannot write: {error}", "mend what the output goes to") from error

    def text(self, text: str, indent: str = "", *styles: str) -> None:
        """A paragraph, wrapped at the width of the terminal."""
        import textwrap

        lines = textwrap.wrap(escape(text), max(20, self.width - len(indent))) or [""]
        for line in lines:
            self.line(indent, self.style(line, *styles) if styles else line)


def _width(stream: TextIO) -> int:
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        columns = 80
    return max(40, min(columns or 80, MAX_WIDTH))
