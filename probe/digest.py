"""What bytes are like, so that two ends can tell how they differ without showing them.

Who sends takes a digest, and so does who receives. Where they are not the same, the sender's
says what the bytes become under each of the known ways to damage them (an encoding, a base64
alphabet, newlines, a cut), and the receiver's is recognised among them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from probe.events import JsonObject

_VARIANTS_MAX = 64
_PREFIXES_MAX = 64
_TEXT_MAX = 64
_HASH = 16  # bytes of SHA-256: no adversary gains by a collision here
REPLACED, DOUBLE, LATIN1 = "UTF-8 replacement", "double encoding", "Latin-1 instead of UTF-8"
TRUNCATED, AT_NUL = "truncated", "cut at a NUL byte"
NUL_REMOVED = "NUL bytes removed"


@dataclass(frozen=True, slots=True)
class Digest:
    """`prefixes`: hashes of the first 1, 2, 4 … bytes. `variants`: by the way to damage them,
    hashes of what would come of it."""

    length: int
    hash: str
    prefixes: tuple[str, ...] = ()
    variants: tuple[tuple[str, str], ...] = ()

    def as_json(self) -> JsonObject:
        return {
            "length": self.length,
            "hash": self.hash,
            "prefixes": list(self.prefixes),
            "variants": dict(self.variants),
        }


def digest_from(told: JsonObject) -> Digest:
    """ValueError where it is none."""
    try:
        length, known = int(told["length"]), str(told["hash"])
        prefixes = tuple(str(one) for one in told.get("prefixes", ()))
        told_variants = told.get("variants", {}).items()
        variants = tuple(sorted((str(name), str(one)) for name, one in told_variants))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no digest: {error}") from None
    texts = (known, *prefixes, *(one for pair in variants for one in pair))
    if len(prefixes) > _PREFIXES_MAX or len(variants) > _VARIANTS_MAX or not 0 <= length < 1 << 63:
        raise ValueError("no digest: its numbers are too large")
    if any(len(text) > _TEXT_MAX for text in texts):
        raise ValueError(f"no digest: a text of more than {_TEXT_MAX} characters")
    return Digest(length, known, prefixes, variants)


def digest(data: bytes) -> Digest:
    """Of what is sent, or of what came."""
    lengths = [1 << power for power in range(len(data).bit_length()) if 1 << power <= len(data)]
    running, prefixes, at = hashlib.sha256(), [], 0
    for length in lengths:
        running.update(data[at:length])
        at = length
        prefixes.append(running.copy().hexdigest()[: 2 * _HASH])
    found = {}
    for name, damage in _DAMAGES.items():
        damaged = damage(data)
        if damaged is not None and damaged != data:
            found[name] = _hash(damaged)
    return Digest(len(data), _hash(data), tuple(prefixes), tuple(sorted(found.items())))


def difference(sent: Digest, received: Digest) -> str | None:
    """How what came differs from what was sent; None where it does not."""
    if sent.hash == received.hash and sent.length == received.length:
        return None
    for name, known in sent.variants:
        if known == received.hash:
            return name
    for name, known in received.variants:
        if known == sent.hash:
            return f"{name}, undone"
    shared = min(len(sent.prefixes), len(received.prefixes))
    alike = sent.prefixes[:shared] == received.prefixes[:shared]
    if received.length < sent.length and alike:
        return f"{TRUNCATED} after {received.length} of {sent.length} bytes"
    if received.length > sent.length and alike:
        return f"{received.length - sent.length} bytes were added"
    return f"other bytes ({sent.length} were sent, {received.length} came)"


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[: 2 * _HASH]


def _replaced(data: bytes) -> bytes:
    return data.decode("utf-8", "replace").encode()


def _twice(data: bytes) -> bytes:
    return data.decode("latin-1").encode()


def _latin1(data: bytes) -> bytes | None:
    try:
        return data.decode().encode("latin-1")
    except (UnicodeDecodeError, UnicodeEncodeError):
        return None


def _decoded(data: bytes) -> bytes | None:
    """What base64 says, in either alphabet."""
    try:
        return base64.b64decode(data.translate(_ORDINARY), validate=True)
    except binascii.Error:
        return None


_ORDINARY = bytes.maketrans(b"-_", b"+/")
_URL_SAFE = bytes.maketrans(b"+/", b"-_")

_DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    AT_NUL: lambda data: data.split(b"\0", 1)[0] if b"\0" in data else None,
    NUL_REMOVED: lambda data: data.replace(b"\0", b""),
    REPLACED: _replaced,
    "undecodable bytes dropped": lambda data: data.decode("utf-8", "ignore").encode(),
    DOUBLE: _twice,
    LATIN1: _latin1,
    "question marks for what is not ASCII": lambda data: data.decode("utf-8", "replace").encode(
        "ascii", "replace"
    ),
    "newline translation (LF to CRLF)": lambda data: data.replace(b"\n", b"\r\n"),
    "newline translation (CRLF to LF)": lambda data: data.replace(b"\r\n", b"\n"),
    "the last newline removed": lambda data: data.rstrip(b"\r\n"),
    "white space at the ends removed": bytes.strip,
    "a newline added": lambda data: data + b"\n",
    "base64 alphabet (- and _ for + and /)": lambda data: data.translate(_URL_SAFE),
    "base64 alphabet (+ and / for - and _)": lambda data: data.translate(_ORDINARY),
    "base64 padding removed": lambda data: data.rstrip(b"="),
    "base64 left encoded": base64.b64encode,
    "base64 left encoded, URL-safe": base64.urlsafe_b64encode,
    "base64 decoded": _decoded,
    "a byte order mark added": lambda data: b"\xef\xbb\xbf" + data,
    "a byte order mark removed": lambda data: data.removeprefix(b"\xef\xbb\xbf"),
    "UTF-16 instead of UTF-8": lambda data: data.decode("utf-8", "replace").encode("utf-16"),
    "backslash escapes": lambda data: data.decode("latin-1").encode("unicode_escape"),
}
