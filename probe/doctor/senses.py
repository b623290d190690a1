"""What the probe can see here: the engine that this kernel and user can have, and its senses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from probe.coverage import SENSES
from probe.doctor.section import Section, deadly, fact, passing

if TYPE_CHECKING:
    from probe.engine.core import CoreEngine


@dataclass
class Senses(Section):
    engine: str = fact(0.15, "`core`, or `none` where no engine can be had")
    senses: dict[str, str] = fact(0.15, "each `full`, `partial: why` or `none: why`")
    mend: str | None = passing("what would give it an engine")
    agent: bool = passing("whether an agent serves this user")


def examine(engine: CoreEngine | Exception) -> Senses:
    """Of the engine that could be started, or of what kept it from starting."""
    if isinstance(engine, Exception):
        return blind(engine)
    coverage = engine.coverage
    return Senses(coverage.engine, dict(coverage.senses), None, _agent(), unknown={})


def blind(error: Exception) -> Senses:
    """Where no engine can be had."""
    senses = dict.fromkeys(SENSES, f"none: {error}")
    return Senses("none", senses, getattr(error, "mend", None) or None, _agent(), unknown={})


def _agent() -> bool:
    from probe import local

    client = None if deadly("socket") or deadly("connect") else local.connect()
    if client is None:
        return False
    client.close()
    return True


def start() -> CoreEngine | Exception:
    """The engine, or why there is none; whatever that is, the examination goes on."""
    try:
        from probe.engine.core import CoreEngine

        return CoreEngine()
    except Exception as error:
        return error
