"""The flight recorder: what happened lately in this sandbox, whoever did it.

Bounded by age, number and size. What went well goes first: failures outlive noise, and so
does what names the programs that failed.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Iterator

from probe.coverage import Losses
from probe.events import Event, Exec, Exit

EVENTS_MAX = 20_000
NOISE_SHARE = 0.5  # of the room, at most, for what went well
_SAMPLES = 1000  # of what was lost until when


class Recorder:
    """Takes events in about the order of their time. Not for several threads at once."""

    def __init__(self, age_s: float, size_max: int, events_max: int = EVENTS_MAX) -> None:
        """Keeps what is no older than `age_s` seconds, in about `size_max` bytes."""
        self._age_ns = int(age_s * 1e9)
        self._size_max, self._events_max = size_max, events_max
        self._failures: OrderedDict[int, Event] = OrderedDict()
        self._noise: OrderedDict[int, Event] = OrderedDict()
        self._starts: dict[int, list[int]] = {}  # by process, its programs among the noise
        self._sizes = {True: 0, False: 0}  # of the failures, of the noise
        self._losses: OrderedDict[int, Losses] = OrderedDict()
        self.dropped = 0  # failures that had to go before their time

    def __len__(self) -> int:
        return len(self._failures) + len(self._noise)

    @property
    def size(self) -> int:
        """Bytes, estimated."""
        return self._sizes[True] + self._sizes[False]

    def add(self, event: Event) -> None:
        failed = event.is_failure
        self._put(event, failed)
        if isinstance(event, Exec) and not failed:
            self._starts.setdefault(event.pid, []).append(event.sequence)
        elif isinstance(event, Exit):
            for sequence in self._starts.pop(event.pid, ()):
                if failed and sequence in self._noise:
                    self._put(self._take(sequence, False), True)
        self._trim(event.time_ns)

    def events(self) -> list[Event]:
        """All of them, in order of time."""
        kept = [*self._failures.values(), *self._noise.values()]
        return sorted(kept, key=lambda event: (event.time_ns, event.sequence))

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

    def _put(self, event: Event, failed: bool) -> None:
        (self._failures if failed else self._noise)[event.sequence] = event
        self._sizes[failed] += _size(event)

    def _take(self, sequence: int, failed: bool) -> Event:
        event = (self._failures if failed else self._noise).pop(sequence)
        self._sizes[failed] -= _size(event)
        return event

    def _trim(self, now_ns: int) -> None:
        while self._noise and self._is_over(self._noise, now_ns, NOISE_SHARE, False):
            gone = self._take(next(iter(self._noise)), False)
            starts = self._starts.get(gone.pid)
            if starts and gone.sequence in starts:
                starts.remove(gone.sequence)
                if not starts:
                    del self._starts[gone.pid]
        while self._failures and self._is_over(self._failures, now_ns, 1.0, True):
            gone = self._take(next(iter(self._failures)), True)
            self.dropped += now_ns - gone.time_ns < self._age_ns

    def _is_over(
        self, kept: OrderedDict[int, Event], now_ns: int, share: float, failed: bool
    ) -> bool:
        full = len(self) > self._events_max or self.size > self._size_max
        over = len(kept) > share * self._events_max or self._sizes[failed] > share * self._size_max
        old = now_ns - next(iter(kept.values())).time_ns > self._age_ns
        return old or (over if failed else full or over)


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
