"""The decoder takes whatever the bytes of a record are, and makes events that can be told."""

from __future__ import annotations

import ctypes
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probe import abi
from probe.engine import records
from probe.engine.decode import Decoder, words_from

KINDS = range(1, len(records.KINDS))


def record(kind: int, content: bytes) -> bytes:
    size = ctypes.sizeof(records.KINDS[kind])
    raw = bytearray((content * (size // max(1, len(content)) + 1))[:size].ljust(size, b"\0"))
    raw[16:20] = kind.to_bytes(4, "little")
    return bytes(raw)


@given(st.lists(st.tuples(st.sampled_from(KINDS), st.binary(min_size=1, max_size=200)), max_size=8))
def test_any_bytes_make_events_or_nothing(told: list[tuple[int, bytes]]) -> None:
    decoder = Decoder(abi.machine())
    for kind, content in told:
        decoder.feed(record(kind, content))
    for event in decoder.ready(everything=True):
        json.dumps(event.as_json())


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: records.KINDS[kind].__name__)
def test_a_record_of_zeros(kind: int) -> None:
    decoder = Decoder(abi.machine())
    decoder.feed(record(kind, b"\0"))
    assert len(decoder.ready(everything=True)) <= 1


@given(st.lists(st.binary(min_size=1, max_size=400), max_size=30))
def test_words_are_the_first_and_the_last_that_were_written(pieces: list[bytes]) -> None:
    """The kernel's side of the ring (bpf/recent.h), played here piece by piece."""
    words, slot = records.Words(), 0
    text = (ctypes.c_char * ctypes.sizeof(words)).from_buffer(words)
    start = records.Words.text.offset
    for piece in pieces:
        for at in range(0, len(piece), records.WORDS_SIZE):
            part = piece[at : at + records.WORDS_SIZE]
            if words.used + len(part) > records.WORDS_SIZE:
                words.total, words.used = words.total + 1, 0
            ring = records.WORDS_COUNT - 1
            total = words.total
            slot = total if total < records.WORDS_COUNT else 1 + (total - 1) % ring
            begin = start + slot * records.WORDS_SIZE + words.used
            text[begin : begin + len(part)] = part
            words.used += len(part)
            words.size[slot] = words.used
    said = b"".join(pieces).decode(errors="backslashreplace").replace("\0", "")
    told = words_from(words)
    if words.total <= records.WORDS_COUNT - 1:
        assert told == said
    else:
        first, last = told.split("\n...\n", 1)
        assert said.startswith(first[:8]) and said.endswith(last[-8:])


def test_a_32_bit_call_has_the_name_of_its_own_table() -> None:
    """Numbers of linux/arch/arm/tools/syscall.tbl."""
    names = {number: abi.syscall_name(number, abi.COMPAT["aarch64"]) for number in (5, 283, 397)}
    assert names == {5: "open", 283: "connect", 397: "statx"}
