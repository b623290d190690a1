"""What can be seen here, sense by sense: by what was permitted when the engine was opened."""

from __future__ import annotations

from collections.abc import Iterable

from probe.engine.portable.cgroups import MEMORY, PIDS, Cgroup


def states(silence: str, unread: str, cgroups: Iterable[Cgroup], look_s: float) -> dict[str, str]:
    """The coverage's senses. `silence`, `unread`: why the process connector does not tell, and
    why the kernel log cannot be read; empty where they can. `cgroups` are our own."""
    # At the top there are no counters, and there may be in what a command is put into.
    counted = {one.controller for one in cgroups if one.name == "/" or one.count() is not None}
    return {
        "seccomp": f"partial: that a filter ended a process is seen{_which_call(unread)}, "
        "its other refusals are not",
        "exec": "partial: programs that could not be started are not seen"
        + _those_missed(silence, look_s),
        "fork": _fork(PIDS in counted),
        "connect": "partial: of TCP what waits half a second or longer is seen, refusals are not",
        "dns": "none: queries are not seen",
        "oom": _oom(unread, MEMORY in counted),
        "files": "partial: that a file system has become full is seen, refusals are not",
    }


def _which_call(unread: str) -> str:
    return f" and by which call is not (kernel log: {unread})" if unread else ""


def _those_missed(silence: str, look_s: float) -> str:
    if not silence:
        return ""
    return (
        f", and processes that come and go between two looks, {look_s * 1000:.0f} ms or more "
        f"apart, are missed (process connector: {silence})"
    )


def _fork(counted: bool) -> str:
    if not counted:
        return "none: no counter of a pids cgroup can be read here"
    return "partial: what a pids cgroup refused is seen by its counter, other refusals are not"


def _oom(unread: str, counted: bool) -> str:
    if not unread:
        return "full"
    if not counted:
        return f"none: no counter of a memory cgroup can be read, nor the kernel log ({unread})"
    return f"partial: by the counters of cgroups alone (kernel log: {unread})"
