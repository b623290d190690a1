"""What the interface in front of a sandbox did, told from both of its ends."""

from __future__ import annotations

import pytest
from test_diagnose import FULL, ended, refused, span

from probe.diagnose import explain, make_case
from probe.digest import digest
from probe.events import Event
from probe.exchange import CLIENT, SANDBOX, SERVER, Exchange, Transfer, exchange_from

PICTURE = bytes(range(256))


def transfer(data: bytes, at: str, outward: bool = False, name: str = "content") -> Transfer:
    return Transfer(name, at, outward, digest(data))


def verdict(exchange: Exchange, events: list[Event] | None = None, **fields: object) -> str:
    case = make_case(span(**fields), events or [], FULL, exchange=exchange)  # type: ignore[arg-type]
    found = explain(case).verdict
    assert found is not None
    return found.cause


def test_an_image_that_comes_back_altered() -> None:
    sent = transfer(PICTURE, SANDBOX, outward=True)
    altered = PICTURE.decode("utf-8", "replace").encode()
    exchange = Exchange((sent, transfer(PICTURE, SERVER, True), transfer(altered, CLIENT, True)))
    case = make_case(span(exit_code=0), [ended(1, 900, code=0)], FULL, exchange=exchange)
    found = explain(case).verdict
    assert found is not None and found.cause == "interface.corrupted"
    assert "from the server to the client: UTF-8 replacement" in found.summary
    assert "between the server and the client" in found.advice


def test_a_null_byte_that_ends_a_string() -> None:
    exchange = Exchange((transfer(b"ab\0cd", CLIENT), transfer(b"ab", SERVER)))
    assert verdict(exchange) == "interface.null_byte"


def test_the_first_part_alone() -> None:
    exchange = Exchange((transfer(PICTURE, SANDBOX, True), transfer(PICTURE[:100], CLIENT, True)))
    assert verdict(exchange) == "interface.truncated"


def test_the_same_at_all_ends_is_not_the_interface() -> None:
    places = tuple(transfer(PICTURE, at) for at in (CLIENT, SERVER, SANDBOX))
    assert verdict(Exchange(places), [refused(1, 990), ended(2, 1000)]) == "net.refused"
    assert verdict(Exchange(places), [ended(2, 1000)]) == "workload.failed"


def test_other_transfers_are_not_laid_beside_each_other() -> None:
    exchange = Exchange(
        (
            transfer(b"one", CLIENT),
            transfer(b"two", SERVER, name="path"),
            transfer(b"three", SERVER, outward=True),
        )
    )
    assert verdict(exchange, [ended(2, 1000)]) == "workload.failed"


@pytest.mark.parametrize(
    ("error", "fields", "expected"),
    [
        ("timeout", {"exit_code": 0}, "interface.timeout"),
        ("timeout", {"exit_code": None, "ended_ns": None}, "interface.timeout"),
        ("timeout", {"exit_code": 1}, "net.refused"),
        ("transport", {"exit_code": 0}, "interface.error"),
        ("transport", {"exit_code": 1}, "net.refused"),
    ],
)
def test_what_the_client_saw(error: str, fields: dict[str, object], expected: str) -> None:
    code = fields["exit_code"]
    events = [refused(1, 990), ended(2, 1000, code=code)] if code else [ended(2, 1000, code=0)]
    assert verdict(Exchange(error=error), events, outcome="timeout", **fields) == expected


@pytest.mark.parametrize(
    "told",
    [
        {"error": "boredom"},
        {"transfers": {}},
        {"transfers": [{}]},
        {"transfers": [{"at": "client", "name": 3}]},
        {"transfers": [{"at": "client", "name": "x", "digest": {}}]},
        {"transfers": [{}] * 65},
    ],
)
def test_what_is_no_exchange(told: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        exchange_from(told)


def test_an_exchange_survives_json() -> None:
    exchange = Exchange((transfer(PICTURE, CLIENT), transfer(b"", SANDBOX, True)), "timeout")
    assert exchange_from(exchange.as_json()) == exchange
