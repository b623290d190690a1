"""Which engine listens: the best one that this kernel and this user can have.

Free of heavy imports, like probe.watcher, which is on the way of every `probe run`.
"""

from __future__ import annotations

import sys

from probe.engine.errors import EngineError

TYPE_CHECKING = False  # not from typing, which takes two milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable

    from probe.engine.engine import Engine
    from probe.engine.loader import Loaded


class Choice:
    """An engine, and what kept each better one from running."""

    def __init__(self, engine: Engine, refused: dict[str, EngineError]) -> None:
        self.engine, self.refused = engine, refused

    @property
    def warning(self) -> str | None:
        """What the engine cannot see for want of a better one, and how to mend that."""
        if not self.refused:
            return None
        error = next(iter(self.refused.values()))
        mend = f"; to mend it, {error.mend}" if error.mend else ""
        return f"half blind: {error}, so the {self.engine.name} engine watches{mend}"


def open_engine(name: str = "auto", *, everyone: bool = False) -> Choice:
    """`name` is one of ENGINES, or "auto" for the first of AUTOMATIC that can run.

    `everyone`: processes without a span are watched too. EngineError where none can run.
    """
    refused: dict[str, EngineError] = {}
    for candidate in AUTOMATIC if name == "auto" else (name,):
        try:
            return Choice(_OPEN[candidate](everyone), refused)
        except EngineError as error:
            refused[candidate] = error
        except (OSError, RuntimeError) as error:  # no thread, no descriptor, no /proc
            refused[candidate] = EngineError(f"{type(error).__name__}: {error}")
    raise next(iter(refused.values()))


def _core(everyone: bool) -> Engine:
    """Loads the programs in a thread while this one imports what will be needed next."""
    import threading

    from probe.engine import loader

    result: list[Loaded | Exception] = []

    def load() -> None:
        try:
            result.append(loader.load(everyone=everyone))
        except Exception as error:
            result.append(error)

    # The thread is in libbpf nearly all the time, and should not wait for its turn there.
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    thread = threading.Thread(target=load)
    thread.start()
    try:
        from probe.engine.core import CoreEngine
        from probe.watch import Watch  # noqa: F401
    finally:
        thread.join()
        sys.setswitchinterval(interval)
    loaded = result[0]
    if isinstance(loaded, Exception):
        raise loaded
    return CoreEngine(loaded)


def _bcc(everyone: bool) -> Engine:
    from probe.engine.bcc.engine import BccEngine

    return BccEngine(everyone=everyone)


def _portable(everyone: bool) -> Engine:
    from probe.engine.portable.engine import PortableEngine

    return PortableEngine(everyone)


def _ptrace(everyone: bool) -> Engine:
    from probe.engine.traced.engine import TracingEngine

    return TracingEngine(everyone)


_OPEN: dict[str, Callable[[bool], Engine]] = {
    "core": _core,
    "bcc": _bcc,
    "portable": _portable,
    "ptrace": _ptrace,
}
ENGINES = tuple(_OPEN)
AUTOMATIC = tuple(name for name in ENGINES if name != "ptrace")  # best first; that one is dear
