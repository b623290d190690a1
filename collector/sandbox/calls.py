"""Calls into a sandbox: each a command there, a span of the agent, and a digest at each place."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace

from collector.sandbox.making import Sandbox
from probe import local
from probe.digest import digest
from probe.events import JsonObject
from probe.exchange import SANDBOX, SERVER, Transfer
from probe.problem import Problem

OUTPUT_MAX = 8 << 20  # bytes of a command's output that are kept
_GRACE_S = 2.0
# Stops before it becomes the command, so that the span is there when it starts.
_GATE = ("sh", "-c", 'kill -STOP $$; exec "$@"', "gate")


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a command. `status`: 128+N after signal N. `report`: of one that failed."""

    status: int
    stdout: bytes
    stderr: bytes
    duration_s: float
    timed_out: bool
    report: JsonObject | None = None


class Calls:
    """Runs commands in one sandbox, one after another, for one run."""

    def __init__(
        self,
        sandbox: Sandbox,
        run: str,
        labels: Mapping[str, str],
        secrets: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
    ) -> None:
        """`secrets`: variables that commands get, and that nothing else ever shows. `prefix`:
        what the sandbox itself is started by."""
        self._sandbox, self._run, self._labels = sandbox, run, dict(labels)
        self._secrets, self._prefix = dict(secrets or {}), tuple(prefix)

    def run(
        self,
        test: str,
        argv: Sequence[str],
        *,
        given: bytes = b"",
        folder: str | None = None,
        limit_s: float = 60.0,
        transfers: Sequence[Transfer] = (),
        outward: str = "stdout",
        written: str | None = None,
    ) -> Result:
        """`given` is its standard input; what it prints is told as the transfer `outward`, or
        as what has arrived of the transfer `written`.

        Problem where the sandbox cannot be started.
        """
        command = [*_GATE, *self._prefix, *self._sandbox.command(argv, folder)]
        began = time.monotonic()
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=folder,
                env={**os.environ, **self._secrets},
                start_new_session=True,
            )
        except OSError as error:
            raise Problem(f"cannot run {command[0]}: {error.strerror}") from error
        span = _Watched(self._run, test, argv, process.pid, self._labels)
        try:
            stdout, stderr, timed_out = _finish(process, given, limit_s)
        except BaseException:
            _end(process.pid)
            raise
        kept = stdout[:OUTPUT_MAX]
        told = [*transfers, Transfer(written or outward, SANDBOX, written is None, digest(stdout))]
        if written is None:
            told.append(Transfer(outward, SERVER, True, digest(kept)))
        report = span.end(process.returncode, told, timed_out=timed_out)
        status = process.returncode
        return Result(
            status if status >= 0 else 128 - status,
            self._masked(kept),
            self._masked(stderr[-OUTPUT_MAX:]),
            time.monotonic() - began,
            timed_out,
            report,
        )

    def _masked(self, output: bytes) -> bytes:
        for secret in self._secrets.values():
            output = output.replace(secret.encode(), b"***")
        return output


class _Watched:
    """The span of a command, where an agent runs; it is let go as soon as that is known."""

    def __init__(
        self, run: str, test: str, argv: Sequence[str], pid: int, labels: dict[str, str]
    ) -> None:
        self._client = local.connect()
        self._key: int | None = None
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        try:
            if self._client is not None:
                process = SimpleNamespace(pid=pid, started_ns=time.time_ns())
                request = local.begin_request(run, test, list(argv), process, labels)
                pidfd = os.pidfd_open(pid)
                with contextlib.suppress(local.AgentError):
                    self._key = int(self._client.ask({"do": "begin", **request}, pidfd)["key"])
                os.close(pidfd)
        finally:
            os.kill(pid, signal.SIGCONT)

    def end(
        self, returncode: int, transfers: Sequence[Transfer], *, timed_out: bool
    ) -> JsonObject | None:
        """The report, where it failed and somebody watched."""
        if self._client is None or self._key is None:
            return None
        request = {
            "do": "end",
            "key": self._key,
            "status": -returncode if returncode < 0 else returncode << 8,
            "ended_ns": time.time_ns(),
            "transfers": [one.as_json() for one in transfers],
            "report": returncode != 0,
        }
        if timed_out:
            request["outcome"] = "timeout"
        try:
            report: JsonObject | None = self._client.ask(request).get("report")
        except local.AgentError:
            report = None
        self._client.close()
        return report


def _finish(
    process: subprocess.Popen[bytes], given: bytes, limit_s: float
) -> tuple[bytes, bytes, bool]:
    """Its output, and whether it took too long and was ended."""
    try:
        stdout, stderr = process.communicate(given, limit_s)
    except subprocess.TimeoutExpired:
        _end(process.pid)
        stdout, stderr = process.communicate()
        return stdout, stderr, True
    return stdout, stderr, False


def _end(group: int) -> None:
    """The command and what it started: politely, then not."""
    for number, wait_s in ((signal.SIGTERM, _GRACE_S), (signal.SIGKILL, 0.0)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, number)
            deadline = time.monotonic() + wait_s
            while time.monotonic() < deadline:
                os.killpg(group, 0)
                time.sleep(0.02)
