"""Listening on behalf of spans: events come from the engine, each goes to its span's record."""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable

from probe.context import Context
from probe.coverage import Coverage, Losses
from probe.diagnose import Case, make_case
from probe.diagnose.background import features
from probe.engine.engine import Engine, Named
from probe.engine.records import NOBODYS_SPAN
from probe.events import Event, Exec, Exit
from probe.recorder import Recorder
from probe.redaction import Redactor
from probe.span import Span

EVENTS_PER_SPAN = 20_000
_NAMED_MAX = 1000  # that wait for the event of their start
NESTED_MAX = 8  # spans within spans
READ_EVERY_S = 0.03  # the kernel wakes us only for what is urgent

Sink = Callable[[Event], None]
# Gives the span of a program that named it, and that the event is the start of; None to refuse.
Opener = Callable[[Named, Exec], Span | None]


class NestedError(ValueError):
    """A span within too many others."""


class Record:
    """The events of one open span, bounded: what went well makes room for what failed."""

    def __init__(self, span: Span, outer: Record | None = None, *, named: bool = False) -> None:
        self.span = span
        self.named = named  # it ends with its process, of which the kernel tells
        self.outer = outer  # of the span that this one lies in: its events are that one's too
        self.depth: int = outer.depth + 1 if outer is not None else 1
        self.events: list[Event] = []
        self.dropped: dict[str, int] = {}

    def ends_with(self, event: Exit) -> bool:
        return self.named and event.pid == self.span.pid

    def add(self, event: Event) -> None:
        if len(self.events) >= EVENTS_PER_SPAN:
            self._make_room()
        self.events.append(event)

    def _make_room(self) -> None:
        worth, kept = [event.is_failure for event in self.events], []
        surplus = EVENTS_PER_SPAN // 4
        for event, failed in zip(self.events, worth, strict=True):
            if surplus and not failed:
                surplus -= 1
                self._drop(event)
            else:
                kept.append(event)
        for event in kept[:surplus]:
            self._drop(event)
        self.events = kept[surplus:]

    def _drop(self, event: Event) -> None:
        sense = "files" if event.kind == "file" else event.kind
        self.dropped[sense] = self.dropped.get(sense, 0) + event.count


class Watch:
    """One engine, any number of open spans. Its methods may be called from several threads."""

    def __init__(
        self,
        engine: Engine,
        redactor: Redactor,
        sink: Sink | None = None,
        recorder: Recorder | None = None,
        opener: Opener | None = None,
    ) -> None:
        self._opener = opener
        self._named: OrderedDict[int, Named] = OrderedDict()
        self._over: list[Exit] = []
        self._recorder = recorder
        self._redactor = redactor
        self._engine = engine
        self._context = Context()
        engine.tell_namespaces(self._context.note)
        engine.tell_named(self._note_named)
        self._sink = sink
        self._lock = threading.RLock()
        self._records: dict[int, Record] = {}
        self._reader: threading.Thread | None = None
        self._last_key = time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    @property
    def coverage(self) -> Coverage:
        return self._engine.coverage

    def fileno(self) -> int:
        return self._engine.fileno()

    def next_key(self) -> int:
        """A number for a span that this boot has not given to another one."""
        with self._lock:
            self._last_key += 1
            return self._last_key

    def begin(self, span: Span, pidfd: int) -> None:
        """ProcessLookupError when the process is gone; NestedError."""
        with self._lock:
            record = Record(span, self._records.get(self._engine.span_of(pidfd)))
            if record.depth > NESTED_MAX:
                raise NestedError(f"it lies within {NESTED_MAX} spans already")
            self._engine.mark(pidfd, span.key)
            self._records[span.key] = record

    def read(self) -> None:
        """Takes in what has happened since the last call."""
        with self._lock:
            self._take(self._engine.read())

    def listen(self) -> None:
        """Reads in a thread of its own, until `close`."""
        self._stopped, self._stop = os.pipe()
        self._reader = threading.Thread(target=self._read_until_stopped, daemon=True)
        self._reader.start()

    def _read_until_stopped(self) -> None:
        poll = select.poll()
        poll.register(self.fileno(), select.POLLIN)
        poll.register(self._stopped, select.POLLIN)
        while all(fd != self._stopped for fd, _ in poll.poll(READ_EVERY_S * 1000)):
            self.read()

    def end(self, key: int, pidfd: int | None = None) -> Case:
        """Closes a span and gives all that is known of it. KeyError for an unknown one."""
        with self._lock:
            self._take(self._engine.flush(key))
            record = self._records.pop(key)
            if pidfd is not None:
                self._unmark(pidfd, record.outer)
            self._tell_end(record)
            losses = self._engine.losses(key).plus(Losses(record.dropped))
            self._context.forget(key)
            record.span.features = features(record.events)
            return make_case(record.span, record.events, self.coverage, losses)

    def _tell_end(self, record: Record) -> None:
        """Who waited for the span's process knows how it ended, also where the engine does not."""
        span = record.span
        told = span.exit_code is not None or span.signal is not None
        if not told or not span.whole_process or span.ended_ns is None:
            return
        # From the end, where it stands if the engine told it: a span may have many events.
        if any(
            isinstance(event, Exit) and event.pid == span.pid for event in reversed(record.events)
        ):
            return
        own = [event for event in record.events if event.pid == span.pid]
        before = own[-1] if own else Event(sequence=0, time_ns=0, pid=span.pid)
        record.add(
            Exit(
                sequence=max((event.sequence for event in record.events), default=span.key) + 1,
                time_ns=span.ended_ns,
                pid=span.pid,
                ppid=before.ppid,
                uid=before.uid,
                comm=before.comm,
                exe=before.exe,
                span=span.key,
                session=before.session,
                code=span.exit_code,
                signal=span.signal,
                duration_s=(span.ended_ns - span.started_ns) / 1e9,
            )
        )

    def _unmark(self, pidfd: int, outer: Record | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._engine.mark(pidfd, outer.span.key if outer is not None else 0)

    def _take(self, events: Iterable[Event]) -> None:
        for complete in map(self._context.complete, events):
            event = self._redactor.event(complete)
            if isinstance(event, Exec) and event.span in self._named:
                self._open(self._named.pop(event.span), event)
            record = self._records.get(event.span)
            if isinstance(event, Exit) and record is not None and record.ends_with(event):
                self._over.append(event)
            while record is not None:
                record.add(event)
                record = record.outer
            if self._recorder is not None:
                self._recorder.add(event)
            if self._sink is not None:
                self._sink(event)

    def _note_named(self, named: Named) -> None:
        self._named[named.key] = named
        if len(self._named) > _NAMED_MAX:
            self._named.popitem(last=False)

    def _open(self, named: Named, event: Exec) -> None:
        span = self._opener(named, event) if self._opener is not None else None
        if span is not None:
            self._records[named.key] = Record(span, named=True)
            return
        with contextlib.suppress(OSError):
            pidfd = os.pidfd_open(named.pid)
            self._unmark(pidfd, None)
            os.close(pidfd)

    def over(self) -> list[Exit]:
        """The ends of programs whose spans their environment began, since the last call."""
        with self._lock:
            over, self._over = self._over, []
            return over

    def tend(self) -> None:
        """To be called every few seconds: takes in what was only counted of nobody's storms."""
        if self._recorder is not None:
            with self._lock:
                self._take(self._engine.unfold(NOBODYS_SPAN))
                self._recorder.note_losses(time.time_ns(), self._engine.losses(NOBODYS_SPAN))

    def recorded(self) -> list[Event]:
        """What is kept of everybody, up to this moment, in order of time."""
        if self._recorder is None:
            return []
        self.tend()
        with self._lock:
            self._take(self._engine.flush(NOBODYS_SPAN))
            return self._recorder.events()

    def lost_since(self, since_ns: int) -> Losses:
        """What is missing of `recorded` from then on."""
        with self._lock:
            return self._recorder.lost_since(since_ns) if self._recorder else Losses()

    def close(self) -> None:
        if self._reader is not None:
            os.close(self._stop)
            self._reader.join()
            os.close(self._stopped)
        self._engine.close()
