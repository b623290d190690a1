"""Secrets are taken out of what a workload shows, before it is recorded, written or sent.

What is known by its form: keys with a prefix of their own, tokens of JWT's form,
private keys, passwords in URLs and Authorization headers. And what is known by its
name: the values of flags, variables and fields called password, token, secret, ... .
A file may add regular expressions, one a line; of one with a group, the group is
what is taken out.

Names of files, programs and hosts stay as they are, and so do the words that rules
look for in output: there, a value after a colon or a space must itself look like a secret.
"""

from __future__ import annotations

import functools
import itertools
import os

TYPE_CHECKING = False  # not from typing, which takes two milliseconds
if TYPE_CHECKING:
    import re
    from collections.abc import Sequence

    from probe.events import Event

REDACTED = "[redacted]"
PATTERNS_MAX = 256
_CACHED_LENGTH = 512

# Without one of these nothing below can match; looking for them is cheap.
_HINTS = (
    *("pass", "pwd", "secret", "token", "key", "cred", "signature", "sig=", "auth", "bearer"),
    *(
        "://",
        "cookie",
        "ghp_",
        "gho_",
        "ghu_",
        "ghs_",
        "ghr_",
        "github_pat_",
        "glpat-",
        "sk-",
        "sk_",
        "rk_",
        "xox",
        "akia",
        "asia",
        "aiza",
        "ya29.",
    ),
    *("npm_", "pypi-", "hf_", "dop_v1_", "sg.", "eyj"),
)
_NAMES = frozenset(
    {
        *("password", "passwd", "passphrase", "passcode", "pass", "pwd", "pgpassword", "secret"),
        *("secrets", "token", "credential", "credentials", "apikey", "accesskey", "secretkey"),
        *("privatekey", "authkey", "signature", "sig", "cookie"),
    }
)
_KINDS_OF_KEY = frozenset(
    {
        *("api", "access", "private", "secret", "signing", "encryption", "account", "auth"),
        *("master", "shared", "session", "storage", "service", "deploy", "license"),
    }
)
# A name that ends so tells of a secret, and is none.
_ABOUT = frozenset(
    {
        *("file", "files", "path", "dir", "directory", "url", "uri", "endpoint", "length", "len"),
        *("type", "count", "ttl", "expiry", "expires", "expiration", "name", "policy", "stdin"),
        *("fd", "env", "required", "enabled", "min", "max", "size", "limit", "hint", "prompt"),
        *("id", "method", "mode", "format", "version", "manager", "provider", "backend", "jar"),
    }
)
_HARMLESS = frozenset({"true", "false", "none", "null", "nil", "yes", "no", "undefined"})
_PLACEHOLDERS = ("$", "<", "%(", "{{", "*", REDACTED[:-1])
# Short flags of programs that take a secret: alone before it, or in one word with it.
_BEFORE = {"sshpass": ("-p",), "redis-cli": ("-a",), "docker": ("-p",), "podman": ("-p",)}
_TOGETHER = {"mysql": "-p", "mariadb": "-p", "mysqldump": "-p", "mysqladmin": "-p", "sshpass": "-p"}
_USERS = {"curl": ("-u", "--user", "-U", "--proxy-user"), "wget": (), "http": ("-a", "--auth")}

# Fields whose words are ours or the kernel's, and names of hosts.
_OURS = frozenset(
    {
        *("errno", "syscall", "action", "signal", "family", "protocol", "query", "rcode"),
        *("resolver", "scope", "sense", "where", "reason", "mode", "fstype", "mount_flags"),
        *("capabilities", "route", "sender", "filter", "next", "limit", "name"),
    }
)


class Redactor:
    """Takes secrets out of text. `patterns`: more than the known ones."""

    def __init__(self, patterns: Sequence[re.Pattern[str]] = ()) -> None:
        self._patterns = tuple(patterns)
        self._remembered = functools.lru_cache(4096)(self._redacted)

    def text(self, text: str, *, command: bool = False) -> str:
        """`command`: it is a command line, where what follows a flag is its value."""
        if not self._patterns and not _may_hold_secret(text):
            return text
        if len(text) <= _CACHED_LENGTH:
            return self._remembered(text, command)
        return self._redacted(text, command)

    def words(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """A command with its arguments."""
        if not self._patterns and not _may_hold_secret("\n".join(words)) and not _is_known(words):
            return words
        redacted = []
        program = os.path.basename(words[0]) if words else ""
        before = ""
        for word in words:
            redacted.append(self._word(program, before, word))
            before = word
        return tuple(redacted)

    def event(self, event: Event) -> Event:
        import dataclasses

        names = _fields(type(event))  # type: ignore[arg-type]
        if not self._patterns:
            shown = "\n".join([_joined(getattr(event, name)) for name in names])
            if not _may_hold_secret(shown) and not _is_known(getattr(event, "argv", ())):
                return event
        changed: dict[str, object] = {}
        for name in names:
            value = getattr(event, name)
            if isinstance(value, str):
                clean: object = self.text(value)
            elif name == "argv":
                clean = self.words(value)
            else:
                clean = tuple(map(self.text, value or ()))
            if value and clean != value:
                changed[name] = clean
        return dataclasses.replace(event, **changed) if changed else event  # type: ignore[arg-type]

    def _word(self, program: str, before: str, word: str) -> str:
        asks = before.startswith("-") and "=" not in before and not _has_secret(program, before)
        if asks and not word.startswith("-"):
            if is_secret_name(before) or before in _BEFORE.get(program, ()):
                return REDACTED
            user, colon, _ = word.partition(":")
            if colon and before in _USERS.get(program, ()):
                return f"{user}:{REDACTED}"
        if _has_secret(program, word):
            return _TOGETHER[program] + REDACTED
        return self.text(word, command=True)

    def _redacted(self, text: str, command: bool) -> str:
        forms = _forms()
        for pattern in (*forms.known, *self._patterns):
            text = pattern.sub(_without_group, text)
        text = forms.assignment.sub(_without_value, text)
        replace = _without_argument if command else _without_telling_argument
        return forms.argument.sub(replace, text)


class _Forms:
    """The expressions, which are compiled when the first of them is needed."""

    def __init__(self) -> None:
        import re

        self.known = tuple(
            re.compile(pattern)
            for pattern in (
                # scheme://user:password@host
                r"(?<![\w+.-])[a-zA-Z][\w+.-]*://[^\s/@:'\"]*:([^\s/'\"]+)@",
                r"(?i)\bauthorization\\?[\"']?\s*[:=]\s*\\?[\"']?"
                r"(?:basic|bearer|token|digest|negotiate|apikey|aws4-hmac-sha256)\s+([^\"'\r\n\\]+)",
                r"(?i)\bbearer\s+((?=[^\s]*\d)[\w.~+/-]{8,}=*)",
                r"(?i)\b(?:set-)?cookie:\s*([^\"'\r\n\\]+)",
                r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:(.*?))(?:-----END|\Z)",
                r"\bpass:(\S+)",  # openssl-passphrase-options(1)
                r"\b(gh[pousr]_\w{6,}|github_pat_\w{6,}|glpat-[\w-]{6,})",
                r"\b(sk-(?=[\w-]*\d)[\w-]{16,}|[sr]k_(?:live|test)_\w{6,})",
                r"\b(xox[abeoprs]-[\w-]{6,}|npm_\w{16,}|pypi-[\w-]{16,}|hf_\w{16,})",
                r"\b((?:AKIA|ASIA)[A-Z0-9]{8,}|AIza[\w-]{16,}|ya29\.[\w-]{6,}|dop_v1_\w{6,})",
                r"\b(SG\.[\w-]{8,}\.[\w-]{8,})",
                r"\b(eyJ[\w-]{8,}(?:\.[\w-]*){0,2})",
            )
        )
        name = r"(?<![\w.-])(?P<name>[\w.-]*(?i:pass|pwd|secret|token|key|cred|sig|cookie)[\w.-]*)"
        self.assignment = re.compile(
            name + r"(?P<gap>\\*[\"']?\s*[=:]\s*)"
            r"(?P<value>\\*\"[^\"]*\"?|\\*'[^']*'?|[^\s&;,\"'<>|)\]}\\]+)"
        )
        self.argument = re.compile(
            name + r"(?P<gap>\s+)(?P<value>\"[^\"]*\"?|'[^']*'?|[^\s\"';&|]+)"
        )


def _has_secret(program: str, word: str) -> bool:
    """Whether it is a flag with the secret attached, which says nothing of the next word."""
    flag = _TOGETHER.get(program)
    return flag is not None and word.startswith(flag) and len(word) > len(flag)


@functools.cache
def _forms() -> _Forms:
    return _Forms()


def _may_hold_secret(text: str) -> bool:
    lower = text.lower()
    return any(hint in lower for hint in _HINTS)


def _is_known(words: Sequence[str]) -> bool:
    """A program with short flags for secrets."""
    program = os.path.basename(words[0]) if words else ""
    return program in _BEFORE or program in _TOGETHER or program in _USERS


@functools.cache
def _fields(kind: type[Event]) -> tuple[str, ...]:
    """The names of those that hold a workload's words."""
    import dataclasses

    from probe import events

    fields = (*dataclasses.fields(events.Event), *dataclasses.fields(kind))
    return tuple(
        dict.fromkeys(
            field.name for field in fields if "str" in str(field.type) and field.name not in _OURS
        )
    )


def _joined(value: str | tuple[str, ...] | None) -> str:
    return value if isinstance(value, str) else "\n".join(value or ())


def is_secret_name(name: str) -> bool:
    """Whether a flag, variable or field of this name holds a secret."""
    import re

    words = [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]
    if not words or words[-1] in _ABOUT:
        return False
    if any(word in _NAMES or word.endswith(("password", "passwd")) for word in words):
        return True
    return any(kind in _KINDS_OF_KEY and key == "key" for kind, key in itertools.pairwise(words))


def _looks_secret(value: str) -> bool:
    """Long, and of letters and digits: no word of any language."""
    plain = value.strip("\\\"'")
    return (
        len(plain) >= 8
        and any(map(str.isdigit, plain))
        and any(map(str.isalpha, plain))
        and not plain.startswith("/")
    )


def _is_harmless(name: str, value: str) -> bool:
    plain = value.strip("\\\"'")
    return (
        not plain
        or plain.lower() in _HARMLESS
        or plain.startswith(_PLACEHOLDERS)
        or plain == name
        or (name.lower().endswith("pwd") and plain.startswith("/"))
    )


def _without_group(match: re.Match[str]) -> str:
    whole, number = match[0], match.re.groups
    if not number or match[1] is None:
        return REDACTED
    start, end = match.start(1) - match.start(), match.end(1) - match.start()
    return whole[:start] + REDACTED + whole[end:]


def _without_value(match: re.Match[str]) -> str:
    name, gap, value = match["name"], match["gap"], match["value"]
    quoted = value.strip("\\")[:1] in ("'", '"')
    plain = gap == "="
    if _is_harmless(name, value) or not is_secret_name(name):
        return match[0]
    if not (plain or quoted or _looks_secret(value)):
        return match[0]
    return name + gap + _in_quotes(value)


def _without_argument(match: re.Match[str]) -> str:
    name, value = match["name"], match["value"]
    if not name.startswith("-") or value.startswith("-") or not is_secret_name(name):
        return match[0]
    return match[0] if _is_harmless(name, value) else name + match["gap"] + _in_quotes(value)


def _without_telling_argument(match: re.Match[str]) -> str:
    return _without_argument(match) if _looks_secret(match["value"]) else match[0]


def _in_quotes(value: str) -> str:
    """With the quotes of the value, so that what is around it reads as before."""
    bare = value.lstrip("\\")
    escapes = value[: len(value) - len(bare)]
    if bare[:1] not in ("'", '"'):
        return REDACTED
    quote = bare[0]
    end = quote if len(bare) > 1 and bare.endswith(quote) else ""
    closing = escapes if bare[:-1].endswith("\\") and escapes else ""
    return escapes + quote + REDACTED + closing + end


def load(path: str | None) -> Redactor:
    """With the patterns of a file, one a line. Problem where one of them is none."""
    if not path:
        return Redactor()
    import re

    from probe.problem import Problem

    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise Problem(f"--redact {path}: {reason}", "name a file that can be read") from None
    patterns = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            patterns.append(re.compile(line))
        except re.error as error:
            raise Problem(f"--redact {path}: line {number}: {error}", "mend it") from None
    if len(patterns) > PATTERNS_MAX:
        raise Problem(f"--redact {path}: more than {PATTERNS_MAX} patterns", "join some with |")
    return Redactor(patterns)
