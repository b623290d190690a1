"""The reader of name messages against messages put together here, and against nonsense."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probe.engine import dns

LABELS = st.lists(st.from_regex(r"[a-z0-9-]{1,63}", fullmatch=True), min_size=1, max_size=3)


def message(number: int, flags: int, labels: list[str], kind: int) -> bytes:
    name = b"".join(bytes([len(label)]) + label.encode() for label in labels) + b"\0"
    header = struct.pack(">HHHHHH", number, flags, 1, 0, 0, 0)
    return header + name + struct.pack(">HH", kind, 1)


@given(
    st.integers(0, 65535), st.booleans(), st.integers(0, 15), LABELS, st.sampled_from([1, 28, 99])
)
def test_a_message_is_read(
    number: int, answer: bool, rcode: int, labels: list[str], kind: int
) -> None:
    data = message(number, (0x8000 if answer else 0) | rcode, labels, kind)
    expected = dns.Message(
        number,
        answer,
        dns.RCODES.get(rcode, f"RCODE{rcode}"),
        ".".join(labels),
        dns.TYPES.get(kind, f"TYPE{kind}"),
    )
    assert dns.parse(data) == expected
    assert dns.parse(struct.pack(">H", len(data)) + data) == expected


def test_a_question_is_of_the_internet() -> None:
    """What a descriptor carries that has become another socket only looks like one."""
    asked = message(7, 0, ["example"], 1)
    assert dns.parse(asked[:-2] + struct.pack(">H", 0x8001)) == dns.parse(asked)  # RFC 6762
    for other in (0, 3, 0x0100):
        assert dns.parse(asked[:-2] + struct.pack(">H", other)) is None


@pytest.mark.parametrize("data", [b"", b"\0" * 11, b"\0" * 12, b"\xff" * 300])
def test_what_is_no_message(data: bytes) -> None:
    assert dns.parse(data) is None


@given(st.binary(max_size=300))
def test_nonsense_is_no_message_or_harmless(data: bytes) -> None:
    found = dns.parse(data)
    assert found is None or len(found.name) <= 1024
