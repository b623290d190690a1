"""What waits for an acknowledgement, in memory: bounded, in order, and counted where it is lost."""

from __future__ import annotations

import time
from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from probe.coverage import Losses

if TYPE_CHECKING:
    from probe.wire import stream_pb2 as wire

SPANS = "spans"  # what a lost span is counted under
UNREADABLE = "unreadable"  # and what can no longer be told
UNTOLD_MAX = 4096  # spans and senses whose losses are kept apart
LOSS_SEQUENCES = 1 << 62  # above those of all events that an engine tells
_SENSE = {
    "seccomp": "seccomp",
    "syscall": "seccomp",
    "exec": "exec",
    "exit": "exec",
    "fork": "fork",
    "connect": "connect",
    "dns": "dns",
    "oom": "oom",
    "signal": "oom",
    "file": "files",
    "limit": "exec",
}

Lost = Counter[tuple[int, str]]  # by span and sense


@dataclass(frozen=True, slots=True)
class Entry:
    """An item on its way: its number, and itself as it is on the wire."""

    sequence: int
    data: bytes


class Numbers:
    """Numbers for items, ascending, above whatever an earlier process of this boot has used."""

    def __init__(self) -> None:
        self._last = time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def next(self) -> int:
        self._last += 1
        return self._last


class Queue:
    """Entries in ascending order: sent ones first, waiting ones after them.

    When it is full the oldest waiting entry gives way and is counted. An entry that
    was sent before a break and lost its acknowledgement in it may be counted too.
    """

    def __init__(self, capacity: int, size_max: int) -> None:
        """For so many entries, of so many bytes together."""
        self._capacity, self._size_max = capacity, size_max
        self._size = 0
        self._sent: deque[Entry] = deque()
        self._waiting: deque[Entry] = deque()
        self._lost: Counter[str] = Counter()
        self._untold: Lost = Counter()

    def __len__(self) -> int:
        return len(self._sent) + len(self._waiting)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def sent(self) -> int:
        return len(self._sent)

    @property
    def last_sent(self) -> int:
        """The highest sequence under way, 0 when there is none."""
        return self._sent[-1].sequence if self._sent else 0

    @property
    def first_waiting(self) -> int:
        """The lowest sequence that waits, 0 when there is none."""
        return self._waiting[0].sequence if self._waiting else 0

    @property
    def losses(self) -> Losses:
        """All that was given up."""
        return Losses(dict(self._lost))

    def append(self, entry: Entry) -> None:
        """Its sequence is above all before it."""
        self._waiting.append(entry)
        self._size += len(entry.data)
        while self._waiting and (len(self) > self._capacity or self._size > self._size_max):
            self._lose(self._waiting.popleft())

    def take(self, items: int, size: int) -> list[Entry]:
        """The next entries to send: up to `items` of them and `size` bytes, at least one."""
        taken: list[Entry] = []
        while self._waiting and len(taken) < items:
            size -= len(self._waiting[0].data)
            if taken and size < 0:
                break
            taken.append(self._waiting.popleft())
        self._sent.extend(taken)
        return taken

    def acknowledge(self, sequence: int) -> None:
        """Forgets what was sent up to `sequence`."""
        while self._sent and self._sent[0].sequence <= sequence:
            self._size -= len(self._sent.popleft().data)

    def rewind(self) -> None:
        """What was sent and not acknowledged waits again."""
        self._waiting.extendleft(reversed(self._sent))
        self._sent.clear()

    def lose_sent(self) -> None:
        """Gives up what is under way."""
        while self._sent:
            self._lose(self._sent.popleft())

    def withdraw(self) -> Entry:
        """Takes the first waiting entry out, for another place."""
        entry = self._waiting.popleft()
        self._size -= len(entry.data)
        return entry

    def restore(self, entry: Entry) -> None:
        """Puts one back that was withdrawn."""
        self._waiting.appendleft(entry)
        self._size += len(entry.data)

    def count_lost(self, lost: Lost, *, told: bool = False) -> None:
        """Counts what was given up elsewhere; `told` where the collector hears of it already."""
        for (span, sense), count in lost.items():
            self._lost[sense] += count
            if not told:
                known = (span, sense) in self._untold or len(self._untold) < UNTOLD_MAX
                self._untold[span if known else 0, sense] += count

    def untold(self) -> list[tuple[int, str, int]]:
        """Losses (span, sense, count) that the collector has not heard of, once there is room."""
        if not self._untold or len(self) > self._capacity // 2 or self._size > self._size_max // 2:
            return []
        told = [(span, sense, count) for (span, sense), count in self._untold.items()]
        self._untold.clear()
        return told

    def _lose(self, entry: Entry) -> None:
        self._size -= len(entry.data)
        self.count_lost(lost_with([entry.data]))


def lost_with(items: list[bytes]) -> Lost:
    """What is lost with these items, by span and sense."""
    from google.protobuf.message import DecodeError

    from probe.wire import stream_pb2 as wire

    lost: Lost = Counter()
    for data in items:
        try:
            item = wire.Item.FromString(data)
        except DecodeError:
            lost[0, UNREADABLE] += 1
            continue
        kind = item.WhichOneof("body")
        if kind == "span":
            lost[item.span.key, SPANS] += 1
        elif kind == "event":
            lost[item.event.span, _sense(item.event)] += item.event.count
    return lost


def loss_item(sequence: int, span: int, sense: str, count: int, where: str) -> wire.Item:
    """An item that tells of a loss on the way. The same loss told twice is one event."""
    from probe.wire import stream_pb2 as wire

    event = wire.Event(
        sequence=LOSS_SEQUENCES | sequence,
        time_ns=time.time_ns(),
        count=count,
        span=span,
        loss=wire.Loss(sense=sense, where=where),
    )
    return wire.Item(sequence=sequence, event=event)


def _sense(event: wire.Event) -> str:
    kind = event.WhichOneof("detail")
    if kind == "loss":
        return str(event.loss.sense)
    return _SENSE.get(kind or "", UNREADABLE)
