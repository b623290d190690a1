"""How much one sandbox may ask of the collector, so that it hurts no other."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass

STREAMS = 16  # of one sandbox at once
RATE = 20_000  # of one sandbox, in items (and in KiB) a second
STREAMS_TOGETHER = 8192  # of all sandboxes
BURST_S = 2.0  # a sandbox that was quiet may send what it saved in this time
_REMEMBERED = 10_000  # sandboxes without a stream
_COMPLAINTS = 20  # of one sandbox


class Exhausted(Exception):
    """Too much for now; come again in `delay_s`."""

    def __init__(self, reason: str, delay_s: float) -> None:
        super().__init__(reason)
        self.delay_s = delay_s


@dataclass(slots=True)
class _Account:
    streams: int = 0
    credit: float = 0.0
    at: float = 0.0  # monotonic, when the credit was so


class Quota:
    """Keeps the accounts of all sandboxes: of those with streams, and of some without."""

    def __init__(self, *, rate: int = RATE, streams: int = STREAMS) -> None:
        self._rate, self._streams = rate, streams
        self._open = 0
        self._busy: dict[str, _Account] = {}
        self._idle: OrderedDict[str, _Account] = OrderedDict()

    def enter(self, sandbox: str) -> None:
        """A stream begins. Exhausted where it is one too many."""
        account = self._busy.get(sandbox) or self._idle.get(sandbox)
        if account is None:
            account = _Account(credit=BURST_S * self._rate, at=time.monotonic())
        if account.streams >= self._streams:
            raise Exhausted(f"more than {self._streams} streams of one sandbox", 5.0)
        if self._open >= STREAMS_TOGETHER:
            raise Exhausted(f"more than {STREAMS_TOGETHER} streams", 5.0)
        self._idle.pop(sandbox, None)
        self._busy[sandbox] = account
        account.streams += 1
        self._open += 1

    def leave(self, sandbox: str) -> None:
        """A stream that had entered ends."""
        account = self._busy[sandbox]
        account.streams -= 1
        self._open -= 1
        if not account.streams:
            self._idle[sandbox] = self._busy.pop(sandbox)
            if len(self._idle) > _REMEMBERED:
                self._idle.popitem(last=False)

    def charge(self, sandbox: str, items: int, size: int) -> float:
        """Seconds that a sandbox with a stream should pause, after so many items and bytes."""
        account = self._busy[sandbox]
        now = time.monotonic()
        saved = account.credit + (now - account.at) * self._rate
        account.credit = min(saved, BURST_S * self._rate) - max(items, size / 1024)
        account.at = now
        return max(0.0, -account.credit / self._rate)


class Complaints:
    """Which of them were made already: a broken probe comes back for ever."""

    def __init__(self) -> None:
        self._made: OrderedDict[str, set[str]] = OrderedDict()

    def is_new(self, who: str, what: str) -> bool:
        made = self._made.setdefault(who, set())
        self._made.move_to_end(who)
        while len(self._made) > _REMEMBERED:
            self._made.popitem(last=False)
        if what in made or len(made) >= _COMPLAINTS:
            return False
        made.add(what)
        return True
