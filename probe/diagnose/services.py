"""Who was served by whom inside a span: a server's trouble comes out at its client."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator

from probe.diagnose.tree import Process, Tree
from probe.events import Connect, Event

_EARLY_NS = 10_000_000  # a server may be quicker than its client's connect(2) returns
_CLIENTS = 16  # of one server that are looked at, the last ones


class Services:
    """The connections between processes of the span."""

    def __init__(self, tree: Tree, connects: Iterable[Connect]) -> None:
        self._tree = tree
        self._served: dict[int, list[Connect]] = {}  # by server, in order of time
        for connect in connects:
            if connect.server is not None and connect.server != connect.pid:
                self._served.setdefault(connect.server, []).append(connect)

    def sufferer(self, event: Event) -> Process | None:
        """Who failed over what came to a process while it served a client: the client, or who
        had started that."""
        if not self._served:
            return None
        for client in self._clients(event):
            for above in self._tree.ancestors(client.pid):
                if above.suffers and above.pid != event.pid:
                    return above
        return None

    def _clients(self, event: Event) -> Iterator[Process]:
        """The latest first. A server forks workers, which do its work."""
        for server in self._tree.ancestors(event.pid):
            served = self._served.get(server.pid, [])
            at = bisect.bisect(served, event.time_ns + _EARLY_NS, key=lambda one: one.time_ns)
            for connect in reversed(served[max(0, at - _CLIENTS) : at]):
                client = self._tree.process(connect.pid)
                if client.end_ns >= event.time_ns:
                    yield client
