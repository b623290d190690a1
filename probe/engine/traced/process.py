"""A traced process, and the ends of what it said."""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass, field

from probe.engine.decode import text
from probe.engine.portable.family import Member
from probe.engine.traced.sockets import Socket

_MISSING, _WORDS_FIRST, _WORDS_LAST, _OUTPUT = 32, 256, 2048, 1024


@dataclass(slots=True, eq=False)
class Process:
    """One process, and the ends of what it said."""

    member: Member
    first: bytes = b""
    last: bytes = b""
    output: bytes = b""
    missing: deque[str] = field(default_factory=lambda: deque(maxlen=_MISSING))
    sockets: dict[int, Socket] = field(default_factory=dict)
    silenced: bool | None = None  # stderr goes to /dev/null
    together: bool | None = None  # stdout and stderr are one
    filtered: bool = False  # by seccomp
    threads: set[int] = field(default_factory=set)

    def look_at_streams(self) -> None:
        """Where they go; programs close them before they end."""
        output, errors = (link(f"/proc/{self.member.pid}/fd/{fd}") for fd in (1, 2))
        self.together = output == errors != ""
        self.silenced = errors == "/dev/null"

    def speaks_by(self, fd: int) -> bool:
        """Whether it is stdout, stderr or a copy of that, as test frameworks make one."""
        if fd in (1, 2):
            return True
        errors, other = (link(f"/proc/{self.member.pid}/fd/{one}") for one in (2, fd))
        return errors == other != ""

    def hear(self, fd: int, piece: bytes) -> None:
        """What it writes to stdout or stderr."""
        if fd == 1 and not self.together:
            self.output = (self.output + piece)[-_OUTPUT:]
            return
        room = _WORDS_FIRST - len(self.first)
        self.first += piece[:room] if room > 0 else b""
        self.last = (self.last + piece[max(0, room) :])[-_WORDS_LAST:]

    @property
    def words(self) -> str:
        gap = b"\n...\n" if len(self.last) >= _WORDS_LAST else b""
        return text(self.first + gap + self.last).replace("\0", "")


def link(path: str) -> str:
    """What a symbolic link of /proc leads to; empty where it cannot be read."""
    try:
        return text(os.fsencode(os.readlink(path)))
    except OSError:
        return ""
