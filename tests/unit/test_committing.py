"""What many streams bring, on its way to a store that takes several at a time."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import defaultdict
from collections.abc import Sequence

from collector.ingest import Committing
from collector.store import Delivery, Hello

SANDBOXES, EACH, WRITERS = 13, 40, 4


class Slow:
    """Commits each call in a time of its own; remembers in which order it was done with them."""

    writers = WRITERS

    def __init__(self) -> None:
        self.committed: dict[str, list[int]] = defaultdict(list)
        self.at_once = 0
        self._inside = 0
        self._lock = threading.Lock()
        self._turn = threading.Condition(self._lock)

    def greet_all(self, hellos: Sequence[Hello]) -> list[int]:
        return [0] * len(hellos)

    def add(self, deliveries: Sequence[Delivery]) -> None:
        with self._turn:
            self._inside += 1
            self.at_once = max(self.at_once, self._inside)
            self._turn.wait(random.uniform(0, 0.01))  # others overtake
            for one in deliveries:
                self.committed[one.sandbox].append(one.last)
            self._inside -= 1


def test_a_sandboxs_deliveries_are_committed_in_their_order() -> None:
    store = Slow()

    async def bring() -> None:
        committing = Committing(store)
        working = asyncio.create_task(committing.run())
        submitted = []
        for last in range(1, EACH + 1):
            for number in range(SANDBOXES):
                sandbox = f"s{number}"
                one = Delivery(sandbox, "b", last, (), ())
                submitted.append(committing.deliveries(sandbox).submit(one))
            await asyncio.sleep(0)
        await asyncio.gather(*submitted)
        working.cancel()

    asyncio.run(bring())
    assert store.committed == {
        f"s{number}": list(range(1, EACH + 1)) for number in range(SANDBOXES)
    }
    assert 1 < store.at_once <= WRITERS
