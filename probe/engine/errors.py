"""Why an engine cannot run."""

from __future__ import annotations


class EngineError(RuntimeError):
    """This engine cannot run here; the message says why, `mend` what would change that."""

    def __init__(self, reason: str, mend: str = "") -> None:
        super().__init__(reason)
        self.mend = mend
