"""Which application and which domain a test belongs to."""

from __future__ import annotations

import re

from collector.run import Test
from probe.terminal import escape, shorten

NO_APPLICATION = "tests"
_LIMIT = 40  # characters
_END = re.compile(r"/|::|\.")


def application(test: Test) -> str:
    """As the test's span is labelled."""
    return _label(test, "application") or NO_APPLICATION


def domain(test: Test) -> str:
    """As the test's span is labelled; else the first part of the test's id."""
    return _label(test, "domain") or _first_part(test.id)


def _label(test: Test, name: str) -> str:
    seen = test.deciding
    return _text(seen.span.labels.get(name, "")) if seen is not None else ""


def _first_part(test: str) -> str:
    return _text(_END.split(test.removeprefix("./"), maxsplit=1)[0]) or NO_APPLICATION


def _text(text: str) -> str:
    return shorten(escape(text.strip()), _LIMIT)
