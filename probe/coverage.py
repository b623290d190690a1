"""What could be seen: the senses of an engine, and what was lost on the way."""

from __future__ import annotations

from dataclasses import dataclass, field

# They look from time to time at what is left to be seen: most refusals go by them.
LOOKING = frozenset({"portable"})
SENSES = ("seccomp", "exec", "fork", "connect", "dns", "oom", "files")


@dataclass(frozen=True, slots=True)
class Coverage:
    """Each sense is "full", "partial: why" or "none: why"."""

    engine: str
    senses: dict[str, str]
    attribution: str = "exact"  # exact, cgroup or time

    def shut(self) -> dict[str, str]:
        """The senses that are not full, with the reason, always in the same order.

        What came over the wire has none.
        """
        order = [*SENSES, *sorted(self.senses.keys() - set(SENSES))]
        states = {sense: self.senses[sense] for sense in order if sense in self.senses}
        return {sense: state for sense, state in states.items() if state != "full"}

    @property
    def only_looks(self) -> bool:
        """Whether refused calls are not seen, and what was said is not heard."""
        return self.engine in LOOKING

    def unseen(self) -> dict[str, str]:
        """The senses through which a cause may have gone by unseen, with the reason."""
        return {
            sense: state
            for sense, state in self.shut().items()
            if self.only_looks or state.startswith("none")
        }

    def as_json(self) -> dict[str, object]:
        return {
            "engine": self.engine,
            "senses": dict(self.senses),
            "attribution": self.attribution,
        }


@dataclass(frozen=True, slots=True)
class Losses:
    """Events that were not delivered, by the sense they belonged to."""

    by_sense: dict[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return sum(self.by_sense.values())

    def plus(self, other: Losses) -> Losses:
        senses = {**self.by_sense, **other.by_sense}
        return Losses(
            {sense: self.by_sense.get(sense, 0) + other.by_sense.get(sense, 0) for sense in senses}
        )

    def since(self, before: Losses) -> Losses:
        """What was lost after `before` was counted."""
        more = {
            sense: count - before.by_sense.get(sense, 0) for sense, count in self.by_sense.items()
        }
        return Losses({sense: count for sense, count in more.items() if count > 0})

    def as_json(self) -> dict[str, object]:
        return {"total": self.total, "by_sense": dict(self.by_sense)}


def blind(reason: str) -> Coverage:
    """The coverage where no engine runs."""
    return Coverage("none", dict.fromkeys(SENSES, f"none: {reason}"), "time")
