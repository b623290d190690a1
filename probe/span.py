"""A span: one test or one command, from its start to its end."""

from __future__ import annotations

from dataclasses import dataclass, field

from probe.events import JsonObject, time_text

TYPE_CHECKING = False  # not from typing, which takes two milliseconds
if TYPE_CHECKING:
    from probe.events import Exit
    from probe.exchange import Transfer
    from probe.redaction import Redactor

TEST_MAX = 200  # characters of a test's id, where the command stands for it
OUTCOMES = ("passed", "failed", "error", "timeout", "lost")


@dataclass(slots=True)
class Span:
    """`key` is the kernel's number for it; `pid` the process that it began with."""

    key: int
    run: str
    test: str
    command: tuple[str, ...]
    sandbox: str
    boot: str
    pid: int
    started_ns: int
    whole_process: bool = True  # False: a stretch of a process that lives on (a test in pytest)
    ended_ns: int | None = None
    exit_code: int | None = None
    signal: str | None = None
    outcome: str = "lost"
    message: str | None = None  # the harness's own words for the failure
    labels: dict[str, str] = field(default_factory=dict)
    features: tuple[str, ...] = ()  # of what went wrong in it (probe.diagnose.background)
    transfers: tuple[Transfer, ...] = ()  # of the call that it is, as its server tells

    @property
    def duration_s(self) -> float | None:
        if self.ended_ns is None:
            return None
        return (self.ended_ns - self.started_ns) / 1e9

    @property
    def passed(self) -> bool:
        return self.outcome == "passed"

    def end(self, ended_ns: int, status: int) -> None:
        """Closes the span with the root process's wait status."""
        if status & 0x7F:
            from probe.abi import signal_name

            self._close(ended_ns, None, signal_name(status & 0x7F))
        else:
            self._close(ended_ns, status >> 8 & 0xFF, None)

    def end_with(self, event: Exit) -> None:
        """Closes the span as the kernel tells of its root process."""
        self._close(event.time_ns, event.code, event.signal)

    def _close(self, ended_ns: int, code: int | None, signal: str | None) -> None:
        self.ended_ns, self.exit_code, self.signal = ended_ns, code, signal
        self.outcome = "passed" if code == 0 else "failed"

    def as_json(self) -> JsonObject:
        return {
            "run": self.run,
            "test": self.test,
            "command": list(self.command),
            "started_at": time_text(self.started_ns),
            "duration_s": self.duration_s,
            "exit_code": self.exit_code,
            "signal": self.signal,
            "sandbox": self.sandbox,
            "boot": self.boot,
        }


def open_span(key: int, command: JsonObject, redactor: Redactor) -> Span:
    """A span for a command, from the request that begins it (probe.local)."""
    from probe import identity

    words = redactor.words(tuple(command["command"]))
    return Span(
        key=key,
        run=command["run"],
        test=command["test"] or " ".join(words)[:TEST_MAX],
        command=words,
        sandbox=identity.sandbox_id(),
        boot=identity.boot_id(),
        pid=command["pid"],
        started_ns=command["started_ns"],
        whole_process=command.get("whole_process", True),
        labels=dict(command.get("labels", {})),
    )
