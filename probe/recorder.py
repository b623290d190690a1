"""The flight recorder: what happened lately in this sandbox, whoever did it.

Bounded by age, number and size. Failures have the greater part of the room, with what names
the programs that failed; no flood, of failures or of others, takes it from another user.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Iterator

from probe.coverage import Losses
from probe.events import Event, Exec, Exit

EVENTS_MAX = 20_000
FAILURES_SHARE = 0.6  # of the room; the rest is for what went well
_SAMPLES = 1000  # of what was lost until when
_USERS = 64  # that have shelves of their own
_OTHERS = -1


class Shelf:
    """One user's events, the oldest first."""

    def __init__(self) -> None:
        self.events: OrderedDict[int, Event] = OrderedDict()
        self.size = 0


class Room:
    """Of bounded size. Where it is full, the user who takes the most of it gives way."""

    def __init__(self, count_max: int, size_max: int) -> None:
        self._count_max, self._size_max = count_max, size_max
        self._shelves: dict[int, Shelf] = {}
        self.count = self.size = 0

    def put(self, event: Event) -> None:
        shelf, size = self._shelf(event.uid), _size(event)
        shelf.events[event.sequence] = event
        shelf.size += size
        self.size += size
        self.count += 1

    def take(self, event: Event) -> bool:
        """Whether it was here."""
        shelf = self._shelf(event.uid)
        if shelf.events.pop(event.sequence, None) is None:
            return False
        size = _size(event)
        shelf.size -= size
        self.size -= size
        self.count -= 1
        return True

    def trim(self) -> Iterator[Event]:
        """What has to go, for want of room."""
        while self.count > self._count_max or self.size > self._size_max:
            fullest = max(self._shelves.values(), key=lambda shelf: shelf.size)
            yield self._take_oldest(fullest)

    def age(self, before_ns: int, uid: int | None = None) -> Iterator[Event]:
        """What has to go, of a user or of all, for its time."""
        for shelf in self._shelves.values() if uid is None else (self._shelf(uid),):
            while shelf.events and next(iter(shelf.events.values())).time_ns < before_ns:
                yield self._take_oldest(shelf)

    def events(self) -> Iterator[Event]:
        for shelf in self._shelves.values():
            yield from shelf.events.values()

    def _shelf(self, uid: int) -> Shelf:
        if uid not in self._shelves and len(self._shelves) >= _USERS:
            uid = _OTHERS
        return self._shelves.setdefault(uid, Shelf())

    def _take_oldest(self, shelf: Shelf) -> Event:
        oldest = next(iter(shelf.events.values()))
        self.take(oldest)
        return oldest


class Recorder:
    """Takes events in about the order of their time. Not for several threads at once."""

    def __init__(self, age_s: float, size_max: int, events_max: int = EVENTS_MAX) -> None:
        """Keeps what is no older than `age_s` seconds, in about `size_max` bytes."""
        self._age_ns = int(age_s * 1e9)
        count, size = int(FAILURES_SHARE * events_max), int(FAILURES_SHARE * size_max)
        self._failures = Room(count, size)
        self._noise = Room(events_max - count, size_max - size)
        self._starts: dict[int, list[Event]] = {}  # by process, its programs among the noise
        self._losses: OrderedDict[int, Losses] = OrderedDict()
        self._now_ns = 0
        self.dropped = 0  # failures that had to go before their time

    def __len__(self) -> int:
        return self._failures.count + self._noise.count

    @property
    def size(self) -> int:
        """Bytes, estimated."""
        return self._failures.size + self._noise.size

    def add(self, event: Event) -> None:
        failed = event.is_failure
        (self._failures if failed else self._noise).put(event)
        if isinstance(event, Exec) and not failed:
            self._starts.setdefault(event.pid, []).append(event)
        elif isinstance(event, Exit):
            for start in self._starts.pop(event.pid, ()):
                if failed and self._noise.take(start):
                    self._failures.put(start)
        self._now_ns = max(self._now_ns, event.time_ns)
        self._age(event.uid)
        for gone in self._noise.trim():
            self._forget_start(gone)
        for _ in self._failures.trim():
            self.dropped += 1

    def events(self) -> list[Event]:
        """All of them, in order of time."""
        self._age(None)
        kept = [*self._failures.events(), *self._noise.events()]
        return sorted(kept, key=lambda event: (event.time_ns, event.sequence))

    def _age(self, uid: int | None) -> None:
        before_ns = self._now_ns - self._age_ns
        for gone in self._noise.age(before_ns, uid):
            self._forget_start(gone)
        for _ in self._failures.age(before_ns, uid):
            pass

    def _forget_start(self, gone: Event) -> None:
        starts = self._starts.get(gone.pid, [])
        if gone in starts:
            starts.remove(gone)
            if not starts:
                del self._starts[gone.pid]

    def note_losses(self, now_ns: int, losses: Losses) -> None:
        """What the engine has lost of events like these until now."""
        last = next(reversed(self._losses.values()), None)
        if losses != last:
            self._losses[now_ns] = losses
        if len(self._losses) > _SAMPLES:
            self._losses.popitem(last=False)

    def lost_since(self, since_ns: int) -> Losses:
        """What was lost from then on, or at most a few seconds before."""
        before = [losses for at, losses in self._losses.items() if at <= since_ns]
        now = next(reversed(self._losses.values()), Losses())
        return now.since(before[-1]) if before else now


def _size(event: Event) -> int:
    """Bytes that an event takes, roughly: itself, its numbers, its longer texts."""
    texts = sum(map(sys.getsizeof, _texts(event)))
    return 600 + texts


def _texts(event: Event) -> Iterator[str]:
    for name in _TEXTS:
        value = getattr(event, name, None)
        if isinstance(value, str):
            yield value
        elif value:
            yield from value


_TEXTS = ("path", "argv", "last_words", "last_output", "missing", "gone", "detail")
