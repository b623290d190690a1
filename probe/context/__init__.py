"""Outside knowledge, gathered at the moment of an event: what the kernel's record cannot hold."""

from __future__ import annotations

import dataclasses
import os

from probe.context.access import caller
from probe.context.file import facts, full_file_system
from probe.context.limits import limits
from probe.context.namespace import MountNamespaces, OutOfReachError
from probe.context.program import obstacle
from probe.events import Connect, Event, Exec, File, Fork, Oom, Signal


class Context:
    """Completes events with what can be looked up right after them."""

    def __init__(self) -> None:
        self._namespaces = MountNamespaces()

    def note(self, number: int, pid: int, span: int) -> None:
        """Keeps a mount namespace of a span, so that it can be looked into afterwards.

        One that belongs to no span is nobody's to keep: it would hold its memory.
        """
        if span:
            self._namespaces.note(number, pid, span)

    def complete(self, event: Event) -> Event:
        """The event with the reason behind it, where one is found."""
        self.note(event.mnt_ns, event.pid, event.span)
        if isinstance(event, Exec) and event.errno:
            return self._complete_exec(event)
        if isinstance(event, File):
            return self._complete_file(event)
        if isinstance(event, Connect) and _wants_route(event):
            from probe.context.network import route  # pyroute2, which few runs need

            return dataclasses.replace(event, route=route(event.address, event.pid))
        if isinstance(event, Fork) and event.errno == "EAGAIN" and event.pids_max is None:
            return dataclasses.replace(event, **limits(event.uid))  # type: ignore[arg-type]
        if isinstance(event, Oom) and event.cgroup:
            from probe.context.memory import biggest, pressure  # psutil, which few runs need

            return dataclasses.replace(
                event, biggest=biggest(event.cgroup, event.pid), pressure=pressure(event.cgroup)
            )
        if isinstance(event, Signal) and event.signal == "SIGBUS":
            return self._complete_bus_error(event)
        return event

    def _complete_bus_error(self, event: Signal) -> Signal:
        try:
            found = self._namespaces.within(
                event.mnt_ns, event.target, lambda: full_file_system(event.mapping)
            )
        except OutOfReachError:
            return event
        return dataclasses.replace(event, detail=found)

    def _complete_file(self, event: File) -> File:
        path = os.path.join(event.cwd or "/", event.path)
        who = caller(event.pid, event.uid, event.capabilities, event.user_ns)
        try:
            found = self._namespaces.within(
                event.mnt_ns, event.pid, lambda: facts(path, event, who)
            )
        except OutOfReachError:
            return event
        return dataclasses.replace(event, **found)  # type: ignore[arg-type]

    def forget(self, span: int) -> None:
        """Lets go of what was kept for a span."""
        self._namespaces.forget(span)

    def _complete_exec(self, event: Exec) -> Exec:
        path = os.path.join(event.cwd or "/", event.path)
        who = caller(event.pid, event.uid)
        try:
            found = self._namespaces.within(
                event.mnt_ns, event.pid, lambda: obstacle(path, event.errno or "", who)
            )
        except OutOfReachError:
            return event
        if found is None:
            return event
        return dataclasses.replace(event, reason=found.reason, detail=found.detail or event.detail)


def _wants_route(event: Connect) -> bool:
    """Where it matters by which way the packets were to go."""
    unreachable = event.errno in ("ENETUNREACH", "EHOSTUNREACH", "ETIMEDOUT", "ENETDOWN")
    return event.family in ("ipv4", "ipv6") and (unreachable or bool(event.abandoned))
