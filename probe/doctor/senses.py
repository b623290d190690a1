"""What the probe can see here: the engine that this kernel and user can have, and its senses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from probe.coverage import SENSES
from probe.doctor.section import Section, deadly, fact, passing
from probe.engine.errors import EngineError

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
    agent = _agent()
    if isinstance(engine, Exception):
        return Senses(
            engine="none",
            senses=dict.fromkeys(SENSES, f"none: {engine}"),
            mend=getattr(engine, "mend", None) or None,
            agent=agent,
            unknown={},
        )
    return Senses(
        engine=engine.coverage.engine,
        senses=dict(engine.coverage.senses),
        mend=None,
        agent=agent,
        unknown={},
    )


def _agent() -> bool:
    from probe import local

    client = None if deadly("socket") else local.connect()
    if client is None:
        return False
    client.close()
    return True


def start() -> CoreEngine | Exception:
    """The engine, or why there is none; whatever that is, the examination goes on."""
    fatal = [call for call in ("bpf", "perf_event_open") if deadly(call)]
    if fatal:
        return EngineError(f"whoever calls {' or '.join(fatal)} is killed here", "allow the call")
    try:
        from probe.engine.core import CoreEngine

        return CoreEngine()
    except Exception as error:
        return error
