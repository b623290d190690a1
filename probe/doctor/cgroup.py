"""The cgroup of this process as its files show it, version 1 and 2 (cgroups(7)).

A limit may be set on any ancestor that is still in sight, so the strictest counts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from probe.context.mount import Entry
from probe.doctor.section import read

_NO_LIMIT = 1 << 60  # version 1 says "none" by a number near 2**63, rounded to pages


class Cgroup:
    """The folders of the controllers, from this process's own up to the top in sight."""

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

    def _numbers(self, controller: str, old: str, new: str) -> Iterator[int]:
        def number(file: str) -> Callable[[str], int | None]:
            return lambda folder: _number(os.path.join(folder, file))

        return self._each(controller, number(old), number(new))

    def _each(
        self,
        controller: str,
        old: Callable[[str], float | None],
        new: Callable[[str], float | None],
    ) -> Iterator[int]:
        if self.version is None:
            raise LookupError("no cgroup is in sight")
        find, name = (new, "") if self.version == 2 else (old, controller)
        if name not in self._folders:
            raise LookupError(f"the controller {controller} is not in sight")
        folders = self._folders[name]
        return (value for value in map(find, folders) if value is not None)  # type: ignore[misc]


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


def _number(path: str) -> int | None:
    try:
        return int(read(path))
    except (OSError, ValueError):  # "max", or no such file at the top
        return None


def _counter(path: str, name: str) -> int | None:
    try:
        return int(dict(line.split(maxsplit=1) for line in read(path).splitlines())[name])
    except (OSError, ValueError, KeyError):
        return None


def _quota_1(folder: str) -> float | None:
    quota, period = (
        _number(os.path.join(folder, f"cpu.cfs_{name}_us")) for name in ("quota", "period")
    )
    return quota / period if quota and period and quota > 0 else None


def _quota_2(folder: str) -> float | None:
    try:
        quota, period = map(int, read(os.path.join(folder, "cpu.max")).split())
    except (OSError, ValueError):
        return None
    return quota / period
