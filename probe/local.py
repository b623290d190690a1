"""The agent's Unix socket: requests and answers are JSON, a line each.

A request that begins a span carries a pidfd (SCM_RIGHTS), so it is about the
right process in every pid namespace and cannot race with a reused number.
"""

from __future__ import annotations

import array
import json
import os
import socket

TYPE_CHECKING = False  # not from typing: with an agent at hand, every import is felt
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from probe.events import JsonObject

TOKEN = "PROBE_TOKEN"  # holds what a sandbox shows to its collector, and no workload shall see
DEFAULT_SOCKET = "/run/probe/agent.sock"
LINE_MAX = 64 << 20
ID_MAX = 500  # characters of a run's or a test's id
LABELS_MAX, LABEL_MAX = 16, 200  # of a span: how many, and characters of each
WORDS_MAX, WORD_MAX = 64, 1024  # of a command: how many words, and how much of each
_TIMEOUT_S = 10.0
_BEGIN_TIMEOUT_S = 5.0  # nobody waits longer for a command to start


class AgentError(RuntimeError):
    """The agent refused a request, or went away."""


def socket_path() -> str:
    return os.environ.get("PROBE_SOCKET") or DEFAULT_SOCKET


def begin_request(
    run: str,
    test: str,
    command: Sequence[str],
    child: Any,
    labels: dict[str, str] | None = None,
) -> JsonObject:
    """What begins a span for a command that is about to start."""
    return {
        "labels": labels or {},
        "run": clean(run)[:ID_MAX],
        "test": clean(test)[:ID_MAX],  # where there is none, the command stands for it
        "command": [clean(word[:WORD_MAX]) for word in command[:WORDS_MAX]],
        "pid": child.pid,
        "started_ns": child.started_ns,
    }


def clean(text: str) -> str:
    """Bytes that are no UTF-8 as escapes, the way events spell them: \\xff."""
    return os.fsencode(text).decode(errors="backslashreplace") if not text.isascii() else text


class Client:
    """One connection. Requests are answered in their order."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._answers = connection.makefile("rb")

    def tell(self, request: JsonObject, pidfd: int | None = None) -> None:
        """Sends a request whose answer nobody waits for. AgentError when the agent is gone."""
        data = json.dumps(request).encode() + b"\n"
        try:
            if pidfd is None:
                self._connection.sendall(data)
                return
            rights = array.array("i", [pidfd])
            sent = self._connection.sendmsg(
                [data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]
            )
            self._connection.sendall(data[sent:])
        except OSError as error:
            raise AgentError(f"the agent went away ({error.strerror or error})") from error

    def ask(self, request: JsonObject, pidfd: int | None = None) -> JsonObject:
        """The answer. AgentError when it is a refusal or does not come."""
        self._connection.settimeout(_TIMEOUT_S if pidfd is None else _BEGIN_TIMEOUT_S)
        self.tell(request, pidfd)
        try:
            line = self._answers.readline(LINE_MAX)
        except OSError as error:
            self.close()  # a late answer would be taken for that of the next request
            raise AgentError(f"the agent did not answer ({error})") from error
        if not line.endswith(b"\n"):
            raise AgentError("the agent went away")
        answer: JsonObject = json.loads(line)
        if "error" in answer:
            raise AgentError(answer["error"])
        return answer

    def listen(self) -> Iterator[JsonObject]:
        """What the agent says from now on, until it goes away."""
        self._connection.settimeout(None)
        while (line := self._answers.readline(LINE_MAX)).endswith(b"\n"):
            yield json.loads(line)

    def close(self) -> None:
        self._answers.close()
        self._connection.close()


def connect(path: str | None = None) -> Client | None:
    """A connection to the agent; None where none runs (or not for us)."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    connection.settimeout(_TIMEOUT_S)
    try:
        connection.connect(path or socket_path())
    except OSError:
        connection.close()
        return None
    return Client(connection)
