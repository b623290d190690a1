"""Which spans are a test's: by id, by bare name, by sandbox and time; never by guess alone."""

from __future__ import annotations

from typing import Any

import pytest

from collector import match
from collector.outcomes import Outcome
from collector.store import Observation
from probe.coverage import Losses, blind
from probe.span import Span

S = 1_000_000_000


def seen(sandbox: str, began_s: float, ended_s: float | None, offset_s: float = 0) -> Observation:
    """By the collector's clock; the sandbox's is `offset_s` ahead."""
    began, ended = (
        None if moment is None else int((moment + offset_s) * S) for moment in (began_s, ended_s)
    )
    span = Span(1, "r", "", ("x",), sandbox, "b", 1, began or 0, ended_ns=ended)
    return Observation(span, blind("test"), Losses(), int(offset_s * S))


def reported(test: str, **fields: Any) -> Outcome:
    return Outcome(test, fields.pop("name", test), "failed", **fields)


def timed(test: str, began_s: int, duration_s: float, sandbox: str | None = None) -> Outcome:
    return reported(test, sandbox=sandbox, started_ns=began_s * S, duration_s=duration_s)


@pytest.mark.parametrize(
    ("outcome", "known", "kind"),
    [
        (reported("a.test_x.t"), {"a.test_x.t"}, "id"),
        (reported("a/test_x.py::t"), {"a.test_x.t"}, "id"),
        (reported("shop.TestPay", name="TestPay"), {"TestPay"}, "name"),
        (reported("shop.TestPay", name="TestPay"), {"TestPay", "shop.TestPay"}, "id"),
        (reported("shop.TestPay", name="TestPay"), {"other"}, None),
    ],
)
def test_by_key(outcome: Outcome, known: set[str], kind: str | None) -> None:
    [found] = match.by_key([outcome], dict.fromkeys(known))
    assert found.kind == kind
    assert kind is None or found.key in known


def test_a_bare_name_of_two_is_nobodys() -> None:
    outcomes = [reported(f"{package}.T", name="T") for package in "ab"]
    assert [found.kind for found in match.by_key(outcomes, {"T": None})] == [None, None]


@pytest.mark.parametrize(
    ("outcomes", "spans", "found"),
    [
        ([timed("t", 10, 5, "s1")], [seen("s1", 11, 12)], {"t": 1}),
        ([timed("t", 10, 5, "s1")], [seen("s1", 11, 12), seen("s1", 13, 14)], {"t": 2}),
        ([timed("t", 10, 5, "s1")], [seen("s2", 11, 12)], {}),
        ([timed("t", 10, 5, "s1")], [seen("s1", 11, 16)], {}),
        ([timed("t", 10, 5, "s1")], [seen("s1", 9, 12)], {}),
        ([timed("t", 10, 5, "s1")], [seen("s1", 11, None)], {}),
        # Half an hour ahead, and known to be so.
        ([timed("t", 10, 5, "s1")], [seen("s1", 11, 12, offset_s=1800)], {"t": 1}),
        # Only one sandbox: there it must have been. Two: nobody knows.
        ([timed("t", 10, 5)], [seen("s1", 11, 12)], {"t": 1}),
        ([timed("t", 10, 5)], [seen("s1", 11, 12), seen("s2", 1, 2)], {}),
        # Two tests at once in one sandbox: either's.
        ([timed("t", 10, 5, "s1"), timed("u", 9, 9, "s1")], [seen("s1", 11, 12)], {}),
        ([timed("t", 10, 5, "s1"), timed("u", 16, 5, "s1")], [seen("s1", 17, 18)], {"u": 1}),
        ([reported("t", sandbox="s1")], [seen("s1", 11, 12)], {}),
    ],
)
def test_by_time(outcomes: list[Outcome], spans: list[Observation], found: dict[str, int]) -> None:
    assert {test: len(own) for test, own in match.by_time(outcomes, spans).items()} == found
