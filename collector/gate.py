"""Who may speak for which sandbox: bearer tokens, of which only hashes are kept, or certificates.

The file of tokens has a JSON object a line: `sandbox`, the `sha256` of the token in
hex, and perhaps when it `expires` (ISO 8601). It is read again when it changes, so
tokens come and go without a restart. A sandbox may have several, which is how one
token takes over from another.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from probe.problem import Problem

LOOK_EVERY_S = 1.0  # whether the file has changed
_BEARER = "Bearer "


class Refused(Exception):
    """`reason` is for our log alone; the other side learns only what `told` says."""

    def __init__(self, reason: str, told: str, *, known: bool = False) -> None:
        super().__init__(told)
        self.reason = reason
        self.known = known  # who speaks is known, but may not do this


@dataclass(frozen=True, slots=True)
class Grant:
    """What a token is for. `expires`: seconds since the epoch."""

    sandbox: str
    expires: float | None = None


class Tokens:
    """The file of tokens, as it is now."""

    def __init__(self, path: Path) -> None:
        """Problem where it cannot be used."""
        self._path = path
        self._looked = time.monotonic()
        self._state = self._stat()
        self._grants = _grants(path)
        self._log = structlog.get_logger("tokens")

    def check(self, token: str | None, sandbox: str) -> None:
        """Refused where the token does not speak for the sandbox."""
        self._look()
        if not token:
            raise _unauthenticated("no token")
        grant = self._grants.get(digest(token))
        if grant is None:
            raise _unauthenticated("unknown token")
        if grant.expires is not None and grant.expires <= time.time():
            raise _unauthenticated(f"expired token of sandbox {grant.sandbox}")
        if grant.sandbox != sandbox:
            raise _not_allowed(f"token of sandbox {grant.sandbox}")

    def _look(self) -> None:
        if time.monotonic() < self._looked + LOOK_EVERY_S:
            return
        self._looked = time.monotonic()
        state = self._stat()
        if state == self._state:
            return
        self._state = state
        self.reload()

    def reload(self) -> None:
        """Reads the file, whether it has changed or not."""
        try:
            self._grants = _grants(self._path)
        except Problem as problem:  # what held before holds on
            self._log.warning("tokens not read", reason=str(problem))
        else:
            self._log.info("tokens read", count=len(self._grants))

    def _stat(self) -> object:
        try:
            found = self._path.stat()
        except OSError as error:
            return error.errno
        return found.st_ino, found.st_mtime_ns, found.st_size


class Gate:
    """What a stream must show before it may speak for a sandbox."""

    def __init__(self, tokens: Tokens | None = None, *, certificates: bool = False) -> None:
        """`certificates`: each names its sandbox, unless tokens do."""
        self._tokens = tokens
        self._certificates = certificates

    def reload(self) -> None:
        """Looks at once for what changed, instead of at the next stream's word."""
        if self._tokens is not None:
            self._tokens.reload()

    def check(self, context: Any, sandbox: str) -> None:
        """Refused where the other side may not speak for the sandbox (any longer)."""
        if self._tokens is not None:
            self._tokens.check(_token(context), sandbox)
        elif self._certificates and sandbox not in (names := _names(context)):
            raise _not_allowed(f"certificate of {', '.join(sorted(names)) or 'nobody'}")


def digest(token: str) -> str:
    """A token has 256 random bits, so a plain hash keeps it."""
    return hashlib.sha256(token.encode()).hexdigest()


def grant(path: Path, sandbox: str, hours: int | None) -> str:
    """A new token for the sandbox, written down in the file as its hash."""
    if path.exists():
        _grants(path)  # nothing is added to what is another file
    token = secrets.token_urlsafe(32)
    line = {"sandbox": sandbox, "sha256": digest(token)}
    if hours is not None:
        end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=hours)
        line["expires"] = end.isoformat(timespec="seconds")
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
    except OSError as error:
        raise Problem(f"--tokens {path}: {error.strerror}", "name a file to write to") from None
    return token


def _grants(path: Path) -> dict[str, Grant]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise Problem(
            f"--tokens {path}: {reason}", "make it with `collector token SANDBOX --tokens FILE`"
        ) from None
    grants = {}
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                hashed, granted = _grant(line)
            except (ValueError, KeyError, TypeError, OverflowError):
                raise Problem(
                    f"--tokens {path}: line {number} is no token",
                    'write {"sandbox": ID, "sha256": HEX, "expires": ISO 8601 or nothing}',
                ) from None
            grants[hashed] = granted
    return grants


def _grant(line: str) -> tuple[str, Grant]:
    fields = json.loads(line)
    sandbox, hashed, expires = fields["sandbox"], fields["sha256"], fields.get("expires")
    if not isinstance(sandbox, str) or len(bytes.fromhex(hashed)) != hashlib.sha256().digest_size:
        raise ValueError(line)
    if expires is None:
        return hashed.lower(), Grant(sandbox)
    end = datetime.datetime.fromisoformat(expires.replace("Z", "+00:00"))
    if end.tzinfo is None:
        end = end.replace(tzinfo=datetime.timezone.utc)
    return hashed.lower(), Grant(sandbox, end.timestamp())


def _unauthenticated(reason: str) -> Refused:
    return Refused(reason, "not authenticated")


def _not_allowed(reason: str) -> Refused:
    return Refused(reason, "not allowed to speak for this sandbox", known=True)


def _token(context: Any) -> str | None:
    for name, value in context.invocation_metadata() or ():
        if name == "authorization" and isinstance(value, str) and value.startswith(_BEARER):
            return str(value.removeprefix(_BEARER))
    return None


def _names(context: Any) -> set[str]:
    """What the peer's certificate is for: its alternative names, and its common name."""
    shown = context.auth_context() or {}
    names = ("x509_subject_alternative_name", "x509_common_name")
    return {value.decode(errors="replace") for name in names for value in shown.get(name, ())}
