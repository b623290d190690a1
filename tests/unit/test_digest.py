"""Two digests tell how the bytes of one end became those of the other."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from probe.digest import TRUNCATED, Digest, difference, digest, digest_from

PICTURE = bytes(range(256)) * 3
ODD = b"\xfb\xff" * 9
TEXT = "Zoë paid 5 €\nand left\n".encode()


@pytest.mark.parametrize(
    ("sent", "received", "how"),
    [
        (PICTURE, PICTURE, None),
        (PICTURE, PICTURE.decode("utf-8", "replace").encode(), "UTF-8 replacement"),
        (PICTURE, PICTURE.decode("latin-1").encode(), "double encoding"),
        (TEXT, TEXT.replace(b"\n", b"\r\n"), "newline translation (LF to CRLF)"),
        (TEXT, TEXT.decode().encode("ascii", "replace"), "question marks for what is not ASCII"),
        (TEXT, TEXT[:-1], "the last newline removed"),
        (b"abc\0def", b"abc", "cut at a NUL byte"),
        (b"abc\0def", b"abcdef", "NUL bytes removed"),
        (ODD, base64.urlsafe_b64encode(ODD), "base64 left encoded, URL-safe"),
        (base64.b64encode(PICTURE), PICTURE, "base64 decoded"),
        (TEXT.replace(b"\n", b"\r\n"), TEXT, "newline translation (CRLF to LF)"),
        (TEXT, b"", f"{TRUNCATED} after 0 of 25 bytes"),
        (PICTURE, PICTURE[:500], f"{TRUNCATED} after 500 of 768 bytes"),
        (TEXT, TEXT + b"x" * 7, "7 bytes were added"),
        (b"one", b"two", "other bytes (3 were sent, 3 came)"),
    ],
)
def test_how_they_differ(sent: bytes, received: bytes, how: str | None) -> None:
    assert difference(digest(sent), digest(received)) == how


@given(st.binary(max_size=3000))
def test_the_same_bytes_do_not_differ(data: bytes) -> None:
    told = digest_from(json.loads(json.dumps(digest(data).as_json())))
    assert told == digest(data)
    assert difference(told, digest(data)) is None


@given(st.binary(min_size=2, max_size=3000), st.data())
def test_a_prefix_is_recognised(data: bytes, chosen: st.DataObject) -> None:
    cut = data[: chosen.draw(st.integers(0, len(data) - 1))]
    known = {name for name, _ in digest(data).variants}
    how = difference(digest(data), digest(cut))
    assert how is not None
    assert how.startswith(TRUNCATED) or how in known or how.endswith(", undone")


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_other_bytes_differ(one: bytes, other: bytes) -> None:
    assume(one != other)
    assert difference(digest(one), digest(other)) is not None


@pytest.mark.parametrize("told", [{}, {"length": "x", "hash": ""}, {"length": 1}, {"hash": 3}])
def test_what_is_no_digest(told: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        digest_from(told)


def test_digests_are_small() -> None:
    told = json.dumps(digest(b"\xff" * (64 << 20)).as_json())
    assert len(told) < 4096
    assert isinstance(digest_from(json.loads(told)), Digest)
