"""What passes from one process of a span to another: files by their names, words through pipes."""

from __future__ import annotations

from probe.diagnose import words
from probe.diagnose.products import products
from probe.diagnose.tree import PIPE, Process, Tree

_NAME_WORTH = 4  # letters; shorter ones stand in other sentences
_STAGES = 16  # of a pipeline that are looked at


class Flows:
    """Who was to make what whom wanted."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._products: dict[int, frozenset[str]] = {}

    def wanted(self, maker: Process, other: Process) -> bool:
        """Whether one wanted what the other was to make: a file, or words through a pipe."""
        said = "" if self._only_shows(other, maker) else _all_words(other)
        return (
            self._reads_from(other, maker)
            or not self.products(maker).isdisjoint(self._wants(other, maker.end_ns))
            or any(
                len(name) >= _NAME_WORTH
                and words.names(said, name)
                and not words.passed_over(said, (name,))
                for name in maker.unmade
            )
        )

    def _only_shows(self, other: Process, maker: Process) -> bool:
        """A build tool shows the commands that it starts, and what they say."""
        below = other in self._tree.ancestors(maker.pid)[1:]
        return below and not (other.is_shell or other.is_scripted)

    def _wants(self, process: Process, since_ns: int) -> frozenset[str]:
        """What it was given since, and what those were given that feed it through a pipe."""
        wants = process.wanted_after(since_ns)
        for program in process.programs:
            feeder = self._tree.feeders.get(program.stdin or "")
            if feeder is not None:
                wants |= feeder.wanted_after(since_ns)
        return wants

    def products(self, maker: Process) -> frozenset[str]:
        """The names of what it and those that it writes to make, as their command lines say, and
        of what they could not make."""
        known = self._products.get(maker.pid)
        if known is None:
            made: set[str] = set()
            for stage in (maker, *self._readers(maker)):
                lines = (program.argv for program in (*stage.programs, *stage.refused))
                made |= stage.unmade
                made.update(name for argv in lines for name in products(argv))
                made.update(program.stdout for program in stage.programs if program.stdout)
            known = self._products[maker.pid] = frozenset(made)
        return known

    def is_captured(self, process: Process) -> bool:
        """Whether its output goes through pipes, the last of which no program reads."""
        last = [process, *self._readers(process)][-1]
        outlet = last.programs[-1].stdout if last.programs else None
        return outlet is not None and outlet.startswith(PIPE) and outlet not in self._tree.readers

    def _readers(self, process: Process) -> list[Process]:
        """The later stages of its pipeline, in their order."""
        stages = [process]
        while len(stages) < _STAGES and stages[-1].programs:
            reader = self._tree.readers.get(stages[-1].programs[-1].stdout or "")
            if reader is None or reader in stages:
                break
            stages.append(reader)
        return stages[1:]

    def _reads_from(self, process: Process, other: Process) -> bool:
        """Through a pipe between their programs."""
        pipes = {one.stdout for one in other.programs if (one.stdout or "").startswith(PIPE)}
        return any(one.stdin in pipes for one in process.programs)


def _all_words(process: Process) -> str:
    if process.exit is None:
        return ""
    return f"{process.exit.last_words or ''}\n{process.exit.last_output or ''}"
