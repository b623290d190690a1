"""How a sandbox's clock differs from ours, the way of NTP (RFC 5905, section 8)."""

from __future__ import annotations

import time

from probe.wire import stream_pb2 as wire

_ROUNDED = 2  # each offset was halved, to a whole nanosecond
_WORTH_NS = 1_000_000  # a better knowledge than before, to be written down


class Clock:
    """The best of what a stream told: the exchange that took least, until the clock is moved."""

    def __init__(self, offset_ns: int) -> None:
        """With what Hello alone says, which came after nobody knows how long."""
        self.offset_ns = offset_ns  # the sandbox's clock minus ours
        self._delay_ns: int | None = None
        self._said_ns: set[int] = set()

    def say(self) -> int:
        """Our time, for a message to the probe."""
        now = time.time_ns()
        self._said_ns.add(now)
        return now

    def hear(self, message: wire.Clock) -> bool:
        """Takes the probe's times; True where the offset is now known better."""
        now = time.time_ns()
        if message.heard_ns not in self._said_ns:  # none yet, or none of ours
            return False
        self._said_ns = {said for said in self._said_ns if said >= message.heard_ns}
        there = message.received_ns - message.heard_ns
        back = message.sent_ns - now
        offset, delay = (there + back) // 2, there - back
        if delay < 0:  # a clock was moved between, or it lies
            return False
        if self._delay_ns is not None and delay >= self._delay_ns and self._agrees(offset, delay):
            return False
        changed = self._delay_ns is None or abs(offset - self.offset_ns) >= _WORTH_NS
        self.offset_ns, self._delay_ns = offset, delay
        return changed

    def _agrees(self, offset: int, delay: int) -> bool:
        """Each exchange knows the offset to half of what it took; where two do not overlap,
        the clock was moved between them."""
        assert self._delay_ns is not None
        return abs(offset - self.offset_ns) * 2 <= delay + self._delay_ns + _ROUNDED
