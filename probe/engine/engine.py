"""What every engine does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from probe.coverage import Coverage, Losses
from probe.events import Event

# Called with the inode number of a new mount namespace, a process in it, and its span.
NamespaceSeen = Callable[[int, int, int], None]


@dataclass(frozen=True, slots=True)
class Named:
    """A span that a program's environment has begun. Its start is the next event of the span."""

    key: int
    pid: int
    uid: int
    test: str
    run: str


SpanNamed = Callable[[Named], None]


class Engine(Protocol):
    """One way of listening. All engines make the same events."""

    name: str
    coverage: Coverage

    def tell_namespaces(self, seen: NamespaceSeen) -> None:
        """Asks to be told of mount namespaces as they come up, so that they can be kept."""

    def tell_named(self, seen: SpanNamed) -> None:
        """Asks to be told of spans that begin without `mark`, where everybody is watched."""

    def fileno(self) -> int:
        """Readable when events wait."""

    def read(self) -> list[Event]:
        """Everything that has happened until now and is ready to be told."""

    def flush(self, span: int) -> list[Event]:
        """The same with what was held back, and what was only counted of a span's storms."""

    def unfold(self, span: int) -> list[Event]:
        """The same with what was only counted of a span's storms, and nothing held back."""

    def mark(self, pidfd: int, span: int) -> None:
        """Makes the process's main thread, and what it creates from now on, part of a span.

        0 takes it out. ProcessLookupError when it is gone.
        """

    def span_of(self, pidfd: int) -> int:
        """The span that a process is part of now; 0 for none."""

    def losses(self, span: int) -> Losses:
        """What could not be delivered for this span, which ends here."""

    def close(self) -> None: ...
