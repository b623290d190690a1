"""Connections that wait for an answer, from look to look, until they are made or given up."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from probe.engine.portable import sockets
from probe.engine.portable.family import Member
from probe.engine.portable.sockets import Entry

_NOTABLE_S = 0.5  # an answer from anywhere on earth takes less
_NAMESPACES_MAX = 16
_SOCKETS_MAX = 1024
_MEMBERS_MAX = 256  # that are looked at

_Owner = tuple[Member, set[int]]  # a process, and the inodes of its sockets


@dataclass(slots=True)
class _Wait:
    member: Member
    entry: Entry
    since_ns: int
    last_ns: int
    suspicious: bool = True  # nothing but silence explains it


@dataclass(frozen=True, slots=True)
class Outcome:
    """`abandoned`: nobody answered for `duration_s`, and then the socket was gone."""

    member: Member
    entry: Entry
    began_ns: int
    ended_ns: int
    abandoned: bool


class Waiting:
    """The waiting sockets of members, by inode."""

    def __init__(self) -> None:
        self._waits: dict[int, _Wait] = {}

    def look(self, members: Iterable[Member], now_ns: int) -> list[Outcome]:
        """What became of those that waited at the last look."""
        states: dict[int, Entry] = {}
        # The kernel walks a large table to show a few sockets: only for those who have some.
        looked_at = itertools.islice(members, _MEMBERS_MAX)
        opened = [(member, sockets.inodes(member.pid)) for member in looked_at]
        owners = [pair for pair in opened if pair[1]]
        for owners_there in _by_namespace(owners):
            table = sockets.table(owners_there[0][0].pid)
            states.update((entry.inode, entry) for entry in table if entry.inode)
            waiting = {entry.inode for entry in table if not entry.established}
            self._note(owners_there, waiting - self._waits.keys(), states, now_ns)
        outcomes = []
        for inode, wait in list(self._waits.items()):
            entry = states.get(inode)
            if entry is not None and not entry.established:
                wait.last_ns = now_ns
                wait.suspicious = not sockets.is_next_hop_missing(wait.member.pid, entry)
                continue
            del self._waits[inode]
            outcome = _outcome(wait, abandoned=entry is None)
            if outcome is not None:
                outcomes.append(outcome)
        return outcomes

    def _note(
        self, owners: list[_Owner], wanted: set[int], states: dict[int, Entry], now_ns: int
    ) -> None:
        for member, inodes in owners:
            for inode in inodes & wanted:
                if len(self._waits) < _SOCKETS_MAX:
                    self._waits[inode] = _Wait(member, states[inode], now_ns, now_ns)

    def ended(self, member: Member, now_ns: int) -> list[Outcome]:
        """Those that the process was waiting for when it ended."""
        own = [inode for inode, wait in self._waits.items() if wait.member is member]
        waits = [self._waits.pop(inode) for inode in own]
        for wait in waits:
            wait.last_ns = now_ns
        outcomes = (_outcome(wait, abandoned=True) for wait in waits)
        return [outcome for outcome in outcomes if outcome is not None]


def _outcome(wait: _Wait, abandoned: bool) -> Outcome | None:
    """A short wait that came to nothing may have been refused as well."""
    lasted_s = (wait.last_ns - wait.since_ns) / 1e9
    if abandoned and (lasted_s < _NOTABLE_S or not wait.suspicious):
        return None
    return Outcome(wait.member, wait.entry, wait.since_ns, wait.last_ns, abandoned)


def _by_namespace(owners: Iterable[_Owner]) -> list[list[_Owner]]:
    found: dict[int, list[_Owner]] = {}
    for owner in owners:
        number = sockets.network_namespace(owner[0].pid)
        if number in found or len(found) < _NAMESPACES_MAX:
            found.setdefault(number, []).append(owner)
    return list(found.values())
