"""What time it is here, and whether that can be believed."""

from __future__ import annotations

import ctypes
import os
import time
from dataclasses import dataclass

from probe.doctor.section import Learner, Section, attempt, fact, passing, read

_TIME_ERROR = 5  # adjtimex(2): the clock is not synchronised
_FAKERS = ("faketime",)


@dataclass
class Clock(Section):
    now: str = passing("UTC")
    behind_s: float = passing("seconds by which the clock is behind the newest file of the probe")
    timezone: str = fact(0.15, "as programs here see it")
    synchronised: bool | None = fact(0.05, "whether a time service keeps it right (adjtimex(2))")
    source: str | None = fact(0.02, "the kernel's clocksource")
    offsets: list[str] | None = fact(0.3, "of the time namespace, where it has any")
    faked_by: str | None = fact(0.6, "a library in LD_PRELOAD that makes up the time")


def examine() -> Clock:
    learner = Learner()
    return Clock(
        now=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        behind_s=round(max(0.0, os.stat(__file__).st_mtime - time.time()), 1),
        timezone="/".join(dict.fromkeys(time.tzname)),
        synchronised=learner.learn("synchronised", _synchronised),
        source=learner.learn("source", _source),
        offsets=learner.learn("offsets", _offsets),
        faked_by=_faker(os.environ.get("LD_PRELOAD", "")),
        unknown=learner.unknown,
    )


def _synchronised() -> bool:
    # struct timex begins with `modes`; all zero only reads. It has 208 bytes.
    timex = ctypes.create_string_buffer(512)
    return attempt(lambda: ctypes.CDLL(None, use_errno=True).adjtimex(timex)) != _TIME_ERROR


def _source() -> str:
    return read("/sys/devices/system/clocksource/clocksource0/current_clocksource")


def _offsets() -> list[str]:
    """Lines "monotonic 86400 0" of time_namespaces(7) that are not zero."""
    lines = (line.split() for line in read("/proc/self/timens_offsets").splitlines())
    return [" ".join(words) for words in lines if words[1:] != ["0", "0"]]


def _faker(preload: str) -> str | None:
    libraries = preload.replace(":", " ").split()
    return next((one for one in libraries if any(name in one for name in _FAKERS)), None)
