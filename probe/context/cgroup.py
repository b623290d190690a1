"""The cgroup of a process as its files show it, version 1 and 2 (cgroups(7)).

A limit may be set on any ancestor that is still in sight, so the strictest counts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from probe.context.mount import Entry

Found = TypeVar("Found")

_NO_LIMIT = 1 << 60  # version 1 says "none" by a number near 2**63, rounded to pages


@dataclass(frozen=True, slots=True)
class Level:
    """A cgroup with a limit: its path below the mount, and how much of the limit is used."""

    path: str
    limit: int
    usage: int


class Cgroup:
    """The folders of the controllers, from the process's own up to the top in sight."""

    def __init__(self, table: list[Entry], membership: str) -> None:
        self._folders = dict(_folders(table, membership))

    @property
    def version(self) -> int | None:
        """2 where the unified tree has controllers in use; None where no tree is in sight."""
        if any(name for name in self._folders):
            return 1
        return 2 if self._folders else None

    @property
    def path(self) -> str | None:
        """The folder of our own cgroup: of version 2, else that with the memory controller."""
        for controller in ("" if self.version == 2 else "memory", *self._folders):
            if controller in self._folders:
                return self._folders[controller][0]
        return None

    def limit(self, controller: str, old: str, new: str) -> int | None:
        """The strictest number of a file on the way up; None for no limit.

        LookupError where the controller is not in sight.
        """
        found = self._numbers(controller, old, new)
        return min((number for number in found if number < _NO_LIMIT), default=None)

    def value(self, controller: str, old: str, new: str) -> int | None:
        """The number of this cgroup's own file."""
        return next(iter(self._numbers(controller, old, new)), None)

    def cpus(self) -> float | None:
        """The CPU quota as a number of CPUs; None for no limit. LookupError as `limit`."""
        return min(self._each("cpu", _quota_1, _quota_2), default=None)

    def event(self, controller: str, old: str, new: str, name: str) -> int | None:
        """A counter of a file of "name value" lines."""

        def counter(file: str) -> Callable[[str], int | None]:
            return lambda folder: _counter(os.path.join(folder, file), name)

        return next(iter(self._each(controller, counter(old), counter(new))), None)

    def limited(
        self, controller: str, limit: tuple[str, str], usage: tuple[str, str]
    ) -> list[Level]:
        """The cgroups with a limit, upwards; files as (version 1, version 2).

        LookupError as `limit`.
        """

        def level(file: str, used: str) -> Callable[[str], tuple[str, int, int] | None]:
            def find(folder: str) -> tuple[str, int, int] | None:
                most, now = _number(os.path.join(folder, file)), _number(os.path.join(folder, used))
                return (folder, most, now or 0) if most is not None and most < _NO_LIMIT else None

            return find

        found = list(self._each(controller, level(limit[0], usage[0]), level(limit[1], usage[1])))
        top = self._folders["" if self.version == 2 else controller][-1]
        return [Level(folder[len(top) :] or "/", most, now) for folder, most, now in found]

    def _numbers(self, controller: str, old: str, new: str) -> Iterator[int]:
        def number(file: str) -> Callable[[str], int | None]:
            return lambda folder: _number(os.path.join(folder, file))

        return self._each(controller, number(old), number(new))

    def _each(
        self,
        controller: str,
        old: Callable[[str], Found | None],
        new: Callable[[str], Found | None],
    ) -> Iterator[Found]:
        if self.version is None:
            raise LookupError("no cgroup is in sight")
        find, name = (new, "") if self.version == 2 else (old, controller)
        if name not in self._folders:
            raise LookupError(f"the controller {controller} is not in sight")
        folders = self._folders[name]
        return (value for value in map(find, folders) if value is not None)


def _folders(table: list[Entry], membership: str) -> Iterator[tuple[str, list[str]]]:
    """For each controller ("" for version 2) the folders upwards; the first is our own."""
    for line in membership.splitlines():
        _, names, path = [*line.split(":", 2), "", ""][:3]
        for entry in table:
            new = entry.fstype == "cgroup2" and not names
            old = entry.fstype == "cgroup" and bool(set(names.split(",")) & entry.super_options)
            inside = _inside(path, entry.root)
            if not (new or old) or inside is None or not os.path.isdir(entry.path + inside):
                continue
            chain = list(_upwards(entry.path, inside))
            yield from ((name, chain) for name in names.split(","))
            break


def _inside(path: str, root: str) -> str | None:
    """Where the cgroup lies below the mount; "" at its top; None where it is not below."""
    if path == root or path.startswith("/.."):
        return "" if path == root else None
    prefix = root.rstrip("/")
    return path[len(prefix) :] if path.startswith(prefix + "/") else None


def _upwards(mount: str, inside: str) -> Iterator[str]:
    while inside.strip("/"):
        yield mount + inside
        inside = os.path.dirname(inside)
    yield mount


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="backslashreplace") as file:
        return file.read(1 << 20)


def _number(path: str) -> int | None:
    try:
        return int(_read(path))
    except (OSError, ValueError):  # "max", or no such file at the top
        return None


def _counter(path: str, name: str) -> int | None:
    try:
        return int(dict(line.split(maxsplit=1) for line in _read(path).splitlines())[name])
    except (OSError, ValueError, KeyError):
        return None


def _quota_1(folder: str) -> float | None:
    quota, period = (
        _number(os.path.join(folder, f"cpu.cfs_{name}_us")) for name in ("quota", "period")
    )
    return quota / period if quota and period and quota > 0 else None


def _quota_2(folder: str) -> float | None:
    try:
        quota, period = map(int, _read(os.path.join(folder, "cpu.max")).split())
    except (OSError, ValueError):
        return None
    return quota / period
