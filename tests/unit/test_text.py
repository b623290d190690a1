"""Events in a few words."""

from __future__ import annotations

import pytest

from probe.events import Dns, Event, Limit, Loss
from probe.text import describe


@pytest.mark.parametrize(
    ("kind", "fields", "words"),
    [
        (Dns, {"name": "a.b", "query": "A", "resolver": "r"}, "looked up a.b (A): no answer"),
        (
            Dns,
            {"name": "a.b", "query": "A", "resolver": "r", "rcode": "NXDOMAIN", "count": 3},
            "looked up a.b (A): NXDOMAIN (3 times)",
        ),
        (Limit, {"limit": "RLIMIT_AS", "value": 7}, "reached the limit RLIMIT_AS of 7"),
        (Limit, {"limit": "RLIMIT_AS"}, "reached the limit RLIMIT_AS"),
        (Loss, {"sense": "exec"}, "events of the sense exec were lost (ring)"),
    ],
)
def test_describe(kind: type[Event], fields: dict[str, object], words: str) -> None:
    event = kind(sequence=1, time_ns=0, pid=1, **fields)  # type: ignore[arg-type]
    assert describe(event.as_json()) == words
