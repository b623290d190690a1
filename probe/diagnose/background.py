"""What a whole run knows of one test's events: which of them passing tests show as well.

An event comes down to a feature: what happened, to whom, where, without the numbers that
differ from test to test. A feature that failing tests have and passing ones do not is
suspicious (Ochiai's coefficient, as in spectrum-based fault localisation); one that
passing tests have too did them no harm.
"""

from __future__ import annotations

import functools
import ipaddress
import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from probe.diagnose.crashes import CRASHES
from probe.events import Connect, Dns, Event, Exec, Exit, File, Fork, Oom, Seccomp, Signal, Syscall

FEATURES_MAX = 200  # of one span
SIGNIFICANT = 0.01  # the chance of so uneven a spread if it meant nothing
_NUMBERS = re.compile(r"[0-9a-f]*[0-9][0-9a-f]*")


def features(events: Iterable[Event]) -> tuple[str, ...]:
    """Of everything that went wrong, each once, in the order of its first time."""
    found: dict[str, None] = {}
    for event in events:
        feature = feature_of(event)
        if feature is not None:
            found[feature] = None
            if len(found) >= FEATURES_MAX:
                break
    return tuple(found)


def feature_of(event: Event) -> str | None:
    """ "connect ECONNREFUSED loopback:5432 by python3"; None where nothing went wrong."""
    what = _what(event)
    if what is None:
        return None
    caller = os.path.basename(event.exe) or event.comm
    return f"{event.kind} {what} by {caller}"


def _what(event: Event) -> str | None:
    if isinstance(event, Seccomp):
        return f"{event.syscall} {event.errno or event.action}"
    if isinstance(event, Syscall):
        return f"{event.syscall} {event.errno}"
    if isinstance(event, Exec):
        return f"{event.errno} {os.path.basename(event.path)}" if event.errno else None
    if isinstance(event, Fork):
        return event.errno
    if isinstance(event, Connect):
        return _peer(event)
    if isinstance(event, Dns):
        return None if event.rcode == "NOERROR" else f"{event.rcode or 'unanswered'} {event.name}"
    if isinstance(event, File):
        return f"{event.errno} {path_class(event.path)}"
    if isinstance(event, Oom):
        return event.scope
    if isinstance(event, Signal):
        return f"{event.signal} from {event.sender}" if event.inside is False else None
    if isinstance(event, Exit):
        return event.signal if event.signal in CRASHES else None
    return None


def _peer(event: Connect) -> str | None:
    if event.errno is None and not event.abandoned:
        return None
    place = path_class(event.address) if event.port is None else address_class(event.address)
    port = f":{event.port}" if event.port is not None else ""
    return f"{event.errno or 'abandoned'} {place}{port}"


def address_class(address: str) -> str:
    """loopback, private, link-local or the public address itself."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    for name in ("loopback", "link_local", "private"):
        if getattr(parsed, f"is_{name}"):
            return name.replace("_", "-")
    return address


def path_class(path: str) -> str:
    """The path with every number in it made the same: /tmp/job-#/out."""
    return _NUMBERS.sub("#", path)


@dataclass(frozen=True, slots=True)
class Background:
    """How many tests of a run failed and passed, and how many of each show a feature."""

    failing: int
    passing: int
    counts: Mapping[str, tuple[int, int]]  # feature: failing tests, passing tests

    def share_of_passing(self, feature: str) -> float:
        """0 where nothing is known of it."""
        if not self.passing:
            return 0.0
        return self.counts.get(feature, (0, 0))[1] / self.passing

    def suspicion(self, feature: str) -> float:
        """Ochiai's coefficient: 1 where all failing tests have it and no passing one."""
        failing, passing = self.counts.get(feature, (0, 0))
        if not failing or not self.failing:
            return 0.0
        return failing / math.sqrt(self.failing * (failing + passing))

    def chance(self, feature: str) -> float:
        """How likely at least so many failing tests have it by chance (Fisher, one-sided)."""
        return _chance(*self.counts.get(feature, (0, 0)), self.failing, self.passing)

    def separating(self) -> list[str]:
        """The features that tell failing tests from passing ones, the most suspicious first."""
        told = [
            feature
            for feature in self.counts
            if self.chance(feature) < SIGNIFICANT / max(1, len(self.counts))
        ]
        return sorted(told, key=lambda feature: (-self.suspicion(feature), feature))


@functools.lru_cache(maxsize=4096)
def _chance(failing: int, passing: int, all_failing: int, all_passing: int) -> float:
    having = failing + passing
    ways = sum(
        math.comb(all_failing, some) * math.comb(all_passing, having - some)
        for some in range(failing, min(all_failing, having) + 1)
    )
    return ways / math.comb(all_failing + all_passing, having)


def background(failing: Iterable[Iterable[str]], passing: Iterable[Iterable[str]]) -> Background:
    """From the features of each failing and each passing test."""
    counts: dict[str, list[int]] = {}
    totals = [0, 0]
    for side, tests in enumerate((failing, passing)):
        for test in tests:
            totals[side] += 1
            for feature in set(test):
                counts.setdefault(feature, [0, 0])[side] += 1
    told = {feature: (bad, good) for feature, (bad, good) in counts.items()}
    return Background(totals[0], totals[1], told)
