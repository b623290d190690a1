"""What a failure says, without the source lines that harnesses show around it.

A test's source names errors that it only handles; its exceptions name what went wrong.
"""

from __future__ import annotations

import re

_MARKED = re.compile(r"^E {3,}(\S.*)", re.MULTILINE)  # pytest, below the source
_NUMBERED = re.compile(r"^\d{3}( .*)?\n", re.MULTILINE)  # pytest, a doctest's source
_PROMPT = re.compile(r"^\d{3} +>>> ", re.MULTILINE)
_FRAME = re.compile(r"^\s+at \S", re.MULTILINE)  # the JVM's, and JavaScript's
_TRACEBACK = "Traceback (most recent call last):"


def spoken(kind: str, short: str, text: str) -> str:
    """`kind` and `short` are the attributes type and message, `text` is what the element holds.

    A text in which nothing tells words from source counts where the attribute is no
    sentence: go-junit-report says "Failed" there, and shows no source.
    """
    short, long = _told(short) or short, _told(text)
    if not long and len(short.split()) < 2:
        long = text
    if kind and kind not in short and kind not in long:
        short = f"{kind}: {short}" if short else kind
    return long if _plain(short) in _plain(long) else f"{short}\n{long}".strip()


def _plain(text: str) -> str:
    return " ".join(text.split())


def _told(text: str) -> str:
    """The exceptions' own words where it is clear which these are, else nothing."""
    return _marked(text) or _above_frames(text) or _doctest(text) or _traceback(text)


def _marked(text: str) -> str:
    return "\n".join(_MARKED.findall(text))


def _above_frames(text: str) -> str:
    if not _FRAME.search(text):
        return ""
    first, *others = text.splitlines()
    return "\n".join([first, *(line for line in others if line.startswith("Caused by: "))])


def _doctest(text: str) -> str:
    if not _PROMPT.search(text):
        return ""
    rest = _NUMBERED.sub("", text).strip()
    return _traceback(rest) or rest


def _traceback(text: str) -> str:
    """Python indents frames and their source."""
    lines = text.splitlines()
    if _TRACEBACK not in lines:
        return ""
    said = (line for line in lines if line and not line[0].isspace())
    return "\n".join(line for line in said if line != _TRACEBACK)
