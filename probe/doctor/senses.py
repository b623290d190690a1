"""What the probe can see here: the engine that this kernel and user can have, and its senses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from probe.coverage import SENSES
from probe.doctor.section import Section, deadly, fact, passing

if TYPE_CHECKING:
    from probe.engine.choice import Choice


@dataclass
class Senses(Section):
    engine: str = fact(0.15, "the best that can be had here, or `none`")
    senses: dict[str, str] = fact(0.15, "each `full`, `partial: why` or `none: why`")
    mend: str | None = passing("what would give it a better one")
    agent: bool = passing("whether an agent serves this user")


def examine(choice: Choice | Exception) -> Senses:
    """Of the engine that could be started, or of what kept any from starting."""
    if isinstance(choice, Exception):
        return blind(choice)
    coverage = choice.engine.coverage
    mends = [error.mend for error in choice.refused.values() if error.mend]
    mend = mends[0] if mends else None
    return Senses(coverage.engine, dict(coverage.senses), mend, _agent(), unknown={})


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


def start() -> Choice | Exception:
    """The engine, or why there is none; whatever that is, the examination goes on."""
    try:
        from probe.engine.choice import open_engine

        return open_engine()
    except Exception as error:
        return error
