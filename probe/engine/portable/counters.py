"""How far the counters of a span's cgroups have risen while it was watched."""

from __future__ import annotations

from dataclasses import dataclass

from probe.engine.portable.cgroups import MEMORY, PIDS, Cgroup, Hierarchies

_CGROUPS_MAX = 256


@dataclass(frozen=True, slots=True)
class Rise:
    """The innermost cgroup whose counter rose, and the one whose limit is behind it."""

    cgroup: Cgroup
    by: int
    limited: Cgroup


class Counters:
    """Their state when each was first seen; what was counted before is nobody's here."""

    def __init__(self, hierarchies: Hierarchies) -> None:
        self._hierarchies = hierarchies
        self._seen: dict[tuple[int, Cgroup], int] = {}

    def note(self, span: int, pid: int) -> list[Cgroup]:
        """The cgroups that the process is in now."""
        cgroups = self._hierarchies.of(pid)
        for cgroup in cgroups:
            if (span, cgroup) not in self._seen and len(self._seen) < _CGROUPS_MAX:
                count = cgroup.count()
                if count is not None:
                    self._seen[span, cgroup] = count
        return cgroups

    def rises(self, span: int) -> list[Rise]:
        """Since the last call; one for each controller and line of cgroups."""
        risen: list[tuple[Cgroup, int]] = []
        own = [cgroup for key, cgroup in self._seen if key == span]
        for cgroup in own:
            count, before = cgroup.count(), self._seen[span, cgroup]
            if count is not None and count > before:
                self._seen[span, cgroup] = count
                risen.append((cgroup, count - before))
        found: list[Rise] = []
        for cgroup, by in sorted(risen, key=lambda pair: -len(pair[0].folder)):
            if any(_is_above(cgroup, rise.cgroup) for rise in found):
                continue  # in v2 the same is counted on every level above
            found.append(Rise(cgroup, by, self._limited(cgroup)))
        return found

    def _limited(self, cgroup: Cgroup) -> Cgroup:
        """v1 counts where the refused process is, v2 (since 6.12) where the limit is."""
        return cgroup if cgroup.limit is not None else self._above(cgroup) or cgroup

    def _above(self, cgroup: Cgroup) -> Cgroup | None:
        above = [other for _, other in self._seen if _is_above(other, cgroup)]
        above.sort(key=lambda other: -len(other.folder))
        return next((other for other in above if other.limit is not None), None)

    def forget(self, span: int) -> None:
        for key in [key for key in self._seen if key[0] == span]:
            del self._seen[key]


def _is_above(above: Cgroup, cgroup: Cgroup) -> bool:
    same = above.controller == cgroup.controller and above.version == cgroup.version
    return same and cgroup.folder.startswith(above.folder + "/")


__all__ = ["MEMORY", "PIDS", "Counters", "Rise"]
