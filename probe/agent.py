"""The daemon of a sandbox image: listens for the whole sandbox and serves its spans.

One loop waits for the kernel's records, for clients of the Unix socket
(probe.local) and for SIGTERM.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import selectors
import signal
import socket
import stat
import threading
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

import structlog

from probe import identity, local, report
from probe.access import Access, from_options
from probe.coverage import Coverage, Losses
from probe.diagnose import Case, explain
from probe.engine.choice import open_engine
from probe.engine.engine import Named
from probe.engine.errors import EngineError
from probe.events import Event, Exec, JsonObject
from probe.exchange import Transfer, transfers_from
from probe.inquiry import Inquiry, RefusedError, Wanted, asker, wants
from probe.log import configure as configure_logging
from probe.pidfd import ElsewhereError, pid_of
from probe.problem import Problem
from probe.recorder import Recorder
from probe.redaction import Redactor, load
from probe.span import OUTCOMES, Span, open_span
from probe.watch import READ_EVERY_S, NestedError, Watch

if TYPE_CHECKING:
    from probe.stream import Stream

CLIENTS_MAX = 400
SPANS_PER_CLIENT = 64
DETACHED_PER_USER = 64
NAMED_PER_USER = 128
WATCHERS_PER_USER = 16
COMPLAINTS_MAX = 100  # about bad requests, in the log
LINE_MAX = 1 << 20
MESSAGE_MAX = 4096  # characters of a harness's own words
DRAIN_S = 5.0
TEND_EVERY_S = 5.0
WATCHED_MAX = 1 << 20  # bytes that wait for a client that watches

log = structlog.get_logger("agent")


class Client:
    """One connection: who it is, what it has sent, and the spans that it opened."""

    def __init__(self, connection: socket.socket, group: int | None) -> None:
        self.connection = connection
        self.who = asker(connection, group)
        self.uid = self.who.uid
        self.pending = b""
        self.watches: Wanted | None = None  # the events that it wants as they come
        self.unsent = b""
        self.unseen = 0  # of those, what it was too slow for
        self.pidfds: list[int] = []
        self.spans: dict[int, int] = {}  # key: pidfd

    def close(self) -> None:
        for fd in (*self.pidfds, *self.spans.values()):
            os.close(fd)
        self.connection.close()


class Agent:
    """Holds the engine, the open spans and their clients."""

    def __init__(
        self,
        watch: Watch,
        redactor: Redactor,
        listener: socket.socket,
        stream: Stream | None,
        group: int | None = None,
    ) -> None:
        """`group`: whose members see what all users did."""
        self._group = group
        self._watch = watch
        self._inquiry = Inquiry(watch)
        self._tended = time.monotonic()
        self._redactor = redactor
        self._stream = stream
        self._listener = listener
        self._spans: dict[int, Span] = {}
        self._detached: dict[int, tuple[int, int]] = {}  # key: pidfd and user
        self._named: dict[int, int] = {}  # spans that an environment began: key and user
        self._clients: dict[int, Client] = {}
        self._waiting: set[Client] = set()  # those with a request that was not served yet
        self._complaints = 0
        self._requests: dict[str, Callable[[Client, JsonObject], JsonObject]] = {
            "begin": self._begin,
            "end": self._end,
            "status": self._status,
            "why": lambda client, request: self._inquiry.why(client.who, request),
            "recent": lambda client, request: self._inquiry.recent(client.who, request),
            "watch": self._begin_watching,
        }
        self._selector = selectors.DefaultSelector()
        self._selector.register(watch.fileno(), selectors.EVENT_READ, lambda: None)
        self._selector.register(listener, selectors.EVENT_READ, self._accept)

    def run(self, stopped: int) -> None:
        """Serves until the descriptor `stopped` becomes readable."""
        self._selector.register(stopped, selectors.EVENT_READ, None)
        while True:
            for key, _ in self._selector.select(0 if self._waiting else READ_EVERY_S):
                if key.data is None:
                    return
                key.data()
            for client in list(self._waiting):
                self._serve_next(client)
            self._watch.read()
            self._end_named()
            if time.monotonic() - self._tended > TEND_EVERY_S:
                self._tended = time.monotonic()
                self._watch.tend()
            for client in [one for one in self._clients.values() if one.watches]:
                self._show(client)

    def close(self) -> None:
        """Ends what is open, and gives the collector time to take what waits."""
        for client in list(self._clients.values()):
            self._drop(client)
        for pidfd, _ in self._detached.values():
            os.close(pidfd)
        if self._stream is not None:
            if not self._stream.drain(DRAIN_S):
                log.warning("undelivered", **self._stream.status())
            self._stream.close()
        self._watch.close()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError as error:
            log.warning("cannot accept", error=str(error))
            return
        if len(self._clients) >= CLIENTS_MAX:
            connection.close()
            return
        connection.setblocking(False)
        client = Client(connection, self._group)
        self._clients[connection.fileno()] = client
        self._selector.register(connection, selectors.EVENT_READ, lambda: self._receive(client))

    def _receive(self, client: Client) -> None:
        if client in self._waiting:
            return  # what it says next waits for what it has said
        try:
            data, fds, _, _ = socket.recv_fds(client.connection, 65536, 4)
        except OSError:
            data, fds = b"", []
        client.pidfds.extend(fds)
        client.pending += data
        if not data or len(client.pending) > LINE_MAX or len(client.pidfds) > SPANS_PER_CLIENT:
            self._drop(client)
            return
        if b"\n" in data:
            self._waiting.add(client)

    def _serve_next(self, client: Client) -> None:
        """One request at a time: in between the kernel and everybody else have their turn."""
        line, _, client.pending = client.pending.partition(b"\n")
        if b"\n" not in client.pending:
            self._waiting.discard(client)
        if not self._serve(client, line):
            self._drop(client)

    def _serve(self, client: Client, line: bytes) -> bool:
        """Answers one request; False where the client can no longer be talked to."""
        try:
            request = json.loads(line)
            if not isinstance(request, dict) or request.get("do") not in self._requests:
                raise RefusedError(f"unknown request, use one of {', '.join(self._requests)}")
            answer = self._requests[request["do"]](client, request)
        except (RefusedError, NestedError) as error:
            answer = {"error": str(error)}
        except Exception as error:
            # Whatever a client sends, the others keep their agent.
            self._complain(client, error)
            answer = {"error": f"bad request: {type(error).__name__}"}
        return self._answer(client, json.dumps(answer).encode() + b"\n")

    def _complain(self, client: Client, error: Exception) -> None:
        self._complaints += 1
        if self._complaints <= COMPLAINTS_MAX:
            last = self._complaints == COMPLAINTS_MAX
            log.warning("bad request", uid=client.uid, error=repr(error)[:200], last=last)

    @staticmethod
    def _answer(client: Client, data: bytes) -> bool:
        """Short answers go at once; who does not read a long one holds up nobody else."""
        try:
            sent = client.connection.send(data)
        except OSError:
            return False
        if sent < len(data):
            rest = data[sent:]
            threading.Thread(target=_send_all, args=(client.connection, rest), daemon=True).start()
        return True

    def _begin(self, client: Client, request: JsonObject) -> JsonObject:
        if not client.pidfds:
            raise RefusedError("a span begins with the pidfd of its process")
        if len(client.spans) >= SPANS_PER_CLIENT:
            raise RefusedError("too many open spans")
        pidfd = client.pidfds.pop(0)
        try:
            if request.get("detached") is True:
                self._make_room(client.uid)
            pid = _living(pidfd)
            if client.uid not in (0, os.stat(f"/proc/{pid}").st_uid):
                raise RefusedError("the process belongs to another user")
            span = open_span(
                self._watch.next_key(), {**_checked(request), "pid": pid}, self._redactor
            )
            self._watch.begin(span, pidfd)
        except BaseException:
            os.close(pidfd)
            raise
        client.spans[span.key] = pidfd
        self._open(span)
        if request.get("detached") is True:
            # It lives on without the connection that began it: `probe span begin`.
            self._detached[span.key] = client.spans.pop(span.key), client.uid
        return {"key": span.key}

    def open_named(self, named: Named, event: Exec) -> Span | None:
        """A span for a program that names it in its environment; None where there are too many."""
        if _is_full(self._named.values(), named.uid, NAMED_PER_USER):
            return None
        command = list(event.argv)[: local.WORDS_MAX]
        words = {"command": command, "run": named.run, "test": named.test}
        at = {"pid": event.pid, "started_ns": event.time_ns}
        span = open_span(named.key, {**_checked({**words, **at}), **at}, self._redactor)
        self._named[span.key] = named.uid
        self._open(span)
        return span

    def _open(self, span: Span) -> None:
        self._spans[span.key] = span
        if self._stream is not None:  # so that it is known of if this sandbox is lost
            self._stream.put_span(span, self._watch.coverage, Losses())

    def _end_named(self) -> None:
        for event in self._watch.over():
            self._spans[event.span].end_with(event)
            self._finish(event.span, None, self._named.pop(event.span))

    def _make_room(self, uid: int) -> None:
        """For one more detached span: those whose process has gone are ended first."""

        def is_full() -> bool:
            users = [user for _, user in self._detached.values()]
            return _is_full(users, uid, DETACHED_PER_USER)

        if is_full():
            for key, (pidfd, user) in list(self._detached.items()):
                if not _lives(pidfd):
                    del self._detached[key]
                    self._abandon(key, pidfd, user)
        if is_full():
            raise RefusedError("too many open spans: end some (probe span end)")

    def _adopt(self, client: Client, key: int) -> None:
        """For whoever began it, and for root, to end."""
        pidfd, uid = self._detached[key]
        if client.uid not in (0, uid):
            raise RefusedError("the span was begun by another user")
        del self._detached[key]
        client.spans[key] = pidfd

    def _end(self, client: Client, request: JsonObject) -> JsonObject:
        key = request["key"]
        if key in self._detached:
            self._adopt(client, key)
        if key not in client.spans:
            raise RefusedError("this connection has no such span")
        span = self._spans[key]
        ended_ns = _number(request, "ended_ns", 1 << 63)
        transfers = _transfers(request["transfers"]) if "transfers" in request else span.transfers
        if "status" in request:
            span.end(ended_ns, _number(request, "status", 1 << 16))
        else:
            span.ended_ns = ended_ns
        if request.get("outcome") in OUTCOMES:
            span.outcome = request["outcome"]
        span.transfers = transfers
        if isinstance(request.get("message"), str):
            span.message = self._redactor.text(local.clean(request["message"])[:MESSAGE_MAX])
        case = self._finish(key, client.spans.pop(key), client.uid)
        if not request.get("report"):
            return {}
        return {"report": report.build(case, explain(case))}

    def _finish(self, key: int, pidfd: int | None, uid: int) -> Case:
        span = self._spans.pop(key)
        case = self._watch.end(key, None if span.whole_process else pidfd)
        if pidfd is not None:
            os.close(pidfd)
        self._inquiry.keep(case, uid)
        if self._stream is not None:
            self._stream.put_span(span, case.coverage, case.losses)
        return case

    def _status(self, client: Client, request: JsonObject) -> JsonObject:
        return {
            "coverage": self._watch.coverage.as_json(),
            "open_spans": len(self._spans),
            "clients": len(self._clients),
            "stream": self._stream.status() if self._stream is not None else None,
        }

    def _begin_watching(self, client: Client, request: JsonObject) -> JsonObject:
        wanted = wants(request)
        others = [one for one in self._clients.values() if one.watches and one.uid == client.uid]
        if len(others) >= WATCHERS_PER_USER:
            raise RefusedError(f"at most {WATCHERS_PER_USER} may watch at a time")
        client.watches = wanted
        return {"coverage": self._watch.coverage.as_json()}

    def take(self, event: Event) -> None:
        """Brings an event on its way: to the collector, and to those that watch and may see it."""
        if self._stream is not None and event.span:
            self._stream.put_event(event)
        watching = [
            client
            for client in self._clients.values()
            if client.watches is not None and client.watches(event) and client.who.sees(event)
        ]
        line = json.dumps({"event": event.as_json()}).encode() + b"\n" if watching else b""
        for client in watching:
            if len(client.unsent) + len(line) > WATCHED_MAX:
                client.unseen += event.count
            else:
                client.unsent += line

    def _show(self, client: Client) -> None:
        """Sends what a client takes just now."""
        if client.unseen and not client.unsent:
            client.unsent = json.dumps({"lost": client.unseen}).encode() + b"\n"
            client.unseen = 0
        try:
            sent = client.connection.send(client.unsent) if client.unsent else 0
        except BlockingIOError:
            return
        except OSError:
            self._drop(client)
            return
        client.unsent = client.unsent[sent:]

    def _drop(self, client: Client) -> None:
        """A client that went away leaves its spans without an end."""
        fd = client.connection.fileno()
        if self._clients.pop(fd, None) is None:
            return
        self._selector.unregister(client.connection)
        self._waiting.discard(client)
        while client.spans:
            self._abandon(*client.spans.popitem(), client.uid)
        client.close()

    def _abandon(self, key: int, pidfd: int, uid: int) -> None:
        """Ends a span of which nobody says what became of it."""
        self._spans[key].ended_ns = time.time_ns()
        try:
            self._finish(key, pidfd, uid)
        except Exception as error:
            log.warning("a span could not be ended", error=repr(error)[:200])


def _send_all(connection: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):
        duplicate = connection.dup()
        duplicate.settimeout(DRAIN_S)
        duplicate.sendall(data)
        duplicate.close()


def _transfers(told: object) -> tuple[Transfer, ...]:
    try:
        return transfers_from(told)
    except ValueError as error:
        raise RefusedError(str(error)) from None


def _checked(request: JsonObject) -> JsonObject:
    """The fields of a request to begin a span; RefusedError where one is not what it must be."""
    for name, kind in (("run", str), ("test", str), ("command", list), ("started_ns", int)):
        if not isinstance(request.get(name), kind):
            raise RefusedError(f"{name} must be of type {kind.__name__}")
    command = request["command"]
    if not all(isinstance(word, str) for word in command) or len(command) > local.WORDS_MAX:
        raise RefusedError(f"command must be at most {local.WORDS_MAX} strings")
    if not 0 <= request["started_ns"] < 1 << 63:
        raise RefusedError("started_ns must be nanoseconds since the epoch")
    labels = request.get("labels", {})
    if not isinstance(labels, dict) or len(labels) > local.LABELS_MAX:
        raise RefusedError(f"labels must be at most {local.LABELS_MAX} names with texts")
    if not all(isinstance(text, str) for text in labels.values()):
        raise RefusedError("labels must be texts")
    return {
        "labels": {
            local.clean(name)[: local.LABEL_MAX]: local.clean(text)[: local.LABEL_MAX]
            for name, text in labels.items()
        },
        "run": local.clean(request["run"])[: local.ID_MAX],
        "test": local.clean(request["test"])[: local.ID_MAX],
        "command": [local.clean(word)[: local.WORD_MAX] for word in command],
        "started_ns": request["started_ns"],
        "whole_process": request.get("whole_process", True) is not False,
    }


def _number(request: JsonObject, name: str, below: int) -> int:
    value = request.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < below:
        raise RefusedError(f"{name} must be a number from 0 to {below - 1}")
    return value


def _is_full(users: Collection[int], uid: int, most: int) -> bool:
    """Of what all users have: whether one of them, or all together, may have no more."""
    return sum(user == uid for user in users) >= most or len(users) >= CLIENTS_MAX


def _lives(pidfd: int) -> bool:
    try:
        return pid_of(pidfd) > 0
    except ProcessLookupError:
        return False


def _living(pidfd: int) -> int:
    """The process's number as we see it; RefusedError where there is none."""
    try:
        return pid_of(pidfd)
    except ElsewhereError:
        share = "share it (--pid=container:AGENT)"
        raise RefusedError(f"the agent is in another pid namespace: {share}") from None
    except ProcessLookupError:
        raise RefusedError("that is no pidfd of a living process") from None


def _listen(path: str) -> socket.socket:
    """Everybody may connect: what a client may do follows from its credentials."""
    folder = os.path.dirname(os.path.abspath(path))
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        os.makedirs(folder, mode=0o755, exist_ok=True)
        if os.path.exists(path) and stat.S_ISSOCK(os.stat(path).st_mode):
            if local.connect(path) is not None:
                raise Problem(f"an agent serves {path} already", "stop it, or give --socket")
            os.unlink(path)
        listener.bind(path)
        os.chmod(path, 0o666)
    except OSError as error:
        raise Problem(f"cannot serve {path}", error.strerror or str(error)) from error
    listener.listen(128)
    return listener


def serve(options: argparse.Namespace) -> None:
    """Runs until SIGTERM or SIGINT. Problem where the sandbox does not let it."""
    configure_logging()
    path = options.socket or local.socket_path()
    access = from_options(options, options.collector) if options.collector else None
    redactor = load(options.redact)
    group = _group(options.group)
    try:
        choice = open_engine(options.engine, everyone=options.keep_minutes > 0)
    except EngineError as error:
        raise Problem(f"cannot watch: {error}", error.mend) from error
    if choice.warning:
        log.warning(choice.warning)
    engine = choice.engine
    _make_room_for_clients()
    listener = _listen(path)
    if os.getpid() == 1:
        # The orphans of a container are the children of its first process; nobody waits for them.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    stopped, stop = os.pipe()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os.write(stop, b"x"))
    stream = _stream(access, engine.coverage, options) if access is not None else None
    recorder = Recorder(options.keep_minutes * 60, options.keep_size << 20)
    watch = Watch(
        engine,
        redactor,
        lambda event: agent.take(event),
        recorder,
        lambda named, event: agent.open_named(named, event),
    )
    agent = Agent(watch, redactor, listener, stream, group)
    log.info("listening", socket=path, collector=options.collector, engine=engine.name)
    try:
        agent.run(stopped)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        agent.close()
    log.info("ended")


def _group(name: str | None) -> int | None:
    import grp

    if name is None:
        return None
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise Problem(f"--group {name}: no such group", "name one of /etc/group") from None


def _stream(access: Access, coverage: Coverage, options: argparse.Namespace) -> Stream:
    # gRPC's own complaints on stderr add nothing to ours; it reads this when it is imported.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from probe.spool import DEFAULT_FOLDER
    from probe.stream import Stream

    stream = Stream(
        access,
        sandbox=identity.sandbox_id(),
        boot=identity.boot_id(),
        coverage=coverage,
        spool=options.spool or DEFAULT_FOLDER,
        spool_bytes=options.spool_size << 20,
        spool_age_s=options.spool_age * 3600.0,
        changed=_say_of_stream,
    )
    if stream.obstacle is not None:
        log.warning("what waits is kept in memory alone", reason=stream.obstacle)
    return stream


def _say_of_stream(reason: str | None) -> None:
    if reason is None:
        log.info("streaming")
    else:
        log.warning("not streaming", reason=reason)


def _make_room_for_clients() -> None:
    """Each takes a descriptor or two; the usual soft limit is lower than what we serve."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
