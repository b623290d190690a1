"""Fields of JSON that a stranger wrote: what is not of the type that was hoped for is None."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from typing import Any

from collector.outcomes import outcome as kinds

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_HIGHEST_NS = (1 << 63) - 1


def mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def text(value: Any) -> str | None:
    """A string with something in it."""
    return value if isinstance(value, str) and value.strip() else None


def number(value: Any) -> float | None:
    """Finite, and no truth value."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def duration_s(value: Any, unit_s: float = 1.0) -> float | None:
    found = number(value)
    return None if found is None or found < 0 else found * unit_s


def moment_ns(value: Any, unit_ns: int = 1_000_000_000) -> int | None:
    """Since the epoch, from a number of units or from ISO 8601 with a zone (else UTC)."""
    if isinstance(value, str):
        return _parsed_ns(value)
    if number(value) is None or not 0 <= value * unit_ns <= _HIGHEST_NS:
        return None
    return int(value * unit_ns)


def _parsed_ns(value: str) -> int | None:
    try:
        moment = datetime.datetime.fromisoformat(value.replace("Z", "+00:00"))
        aware = moment if moment.tzinfo else moment.replace(tzinfo=datetime.timezone.utc)
        since = aware - _EPOCH
    except (ValueError, OverflowError):
        return None
    found = (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1000
    return found if 0 <= found <= _HIGHEST_NS else None


def kind(value: Any, others: Mapping[str, str] | None = None) -> str | None:
    """One of our outcomes, by our word for it or one of `others`."""
    if not isinstance(value, str):
        return None
    word = value.lower()
    return word if word in kinds.OUTCOMES else (others or {}).get(word)
