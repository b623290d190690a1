"""JSON that a stranger wrote, taken apart within bounds of memory."""

from __future__ import annotations

import json
from typing import Any

from probe.problem import Problem

VALUES = 5_000_000  # of a document: each takes some hundred bytes of memory once it is parsed
_BLANKS = b"\xef\xbb\xbf \t\r\n"


def recognises(content: bytes) -> bool:
    """Whether it is meant to be JSON."""
    return content[:64].lstrip(_BLANKS)[:1] in (b"{", b"[")


def check_size(content: bytes, *separators: bytes) -> None:
    """Problem where it holds more values than anybody reports."""
    values = sum(content.count(separator) for separator in separators)
    if values > VALUES:
        raise Problem(f"more than {VALUES:,} values", "import it in smaller files")


def load(content: bytes) -> Any:
    """Problem where it is not JSON, or more of it than we take; RecursionError where too deep."""
    check_size(content, b",", b"[", b"{")
    try:
        return json.loads(content.lstrip(_BLANKS))
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise Problem(f"broken JSON ({error.msg}: {where})", "the file may be cut off") from None
    except ValueError as error:  # not UTF-8, or a number of thousands of digits
        what = "not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error).split(";")[0]
        raise Problem(f"broken JSON ({what})", "have the test runner write it again") from None
