"""Why an engine cannot run."""

from __future__ import annotations


class EngineError(RuntimeError):
    """This engine cannot run here; the message says why, `mend` what would change that."""

    def __init__(self, reason: str, mend: str = "") -> None:
        super().__init__(reason)
        self.mend = mend


def not_permitted() -> EngineError:
    """Of bpf(2), as far as its own errno tells."""
    return EngineError(
        "BPF is not permitted here",
        "run as root or grant CAP_BPF and CAP_PERFMON, and let the seccomp profile allow bpf",
    )
