"""JUnit XML, as pytest, go-junit-report and Maven Surefire write it.

There is no standard; https://github.com/testmoapp/junitxml collects what is in use.
"""

from __future__ import annotations

import codecs
import math
import re
import sys
from collections.abc import Iterator
from xml.etree.ElementTree import Element, ParseError
from xml.parsers.expat.errors import codes

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import fromstring

from collector.outcomes import document
from collector.outcomes import outcome as kinds
from collector.outcomes.outcome import Outcome, shortened
from collector.outcomes.words import spoken
from probe.problem import Problem

_BEFORE_MARKUP = b"\xef\xbb\xbf\xff\xfe\x00 \t\r\n"  # byte order marks and blanks
_BAD_CHARACTER = frozenset(
    (
        codes["not well-formed (invalid token)"],
        codes["reference to invalid character number"],
    )
)
_CUT_OFF = frozenset(
    (
        codes["no element found"],
        codes["unclosed token"],
        codes["partial character"],
        codes["unclosed CDATA section"],
    )
)
_CHARACTER = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]|&#(?:x[0-9a-fA-F]{1,6}|\d{1,7});")
_ALLOWED = re.compile("[\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_OUTCOMES = {"failure": kinds.FAILED, "error": kinds.ERROR, "skipped": kinds.SKIPPED}
# The words of pytest-timeout, of `go test -timeout`, and of JUnit 4 and 5.
_TIMEOUT = re.compile(
    r"Timeout \(?>\d+(\.\d+)?s\)?( from pytest-timeout)?"
    r"|panic: test timed out after "
    r"|(TestTimedOut|\bTimeout)Exception: .*timed out after "
)


def recognises(content: bytes) -> bool:
    """Whether it is markup at all; parse() tells whether it is JUnit's."""
    return content[:64].lstrip(_BEFORE_MARKUP).startswith(b"<")


def parse(content: bytes) -> list[Outcome]:
    """One outcome a testcase element. Problem where the content is not JUnit XML."""
    document.check_size(content, b"<")
    try:
        root = fromstring(content)
    except ParseError as error:
        raise _broken(error, content) from None
    except DefusedXmlException:
        raise Problem("XML with entity declarations", "test reports need none") from None
    except (ValueError, LookupError) as error:
        raise Problem(f"broken XML ({error})", "save it as UTF-8") from None
    kind = _tag(root)
    if kind not in ("testsuites", "testsuite"):
        raise Problem(f"XML, but not JUnit's: its root is <{kind}>", "expected <testsuites>")
    return [_outcome(case) for case in _cases(root)]


def _broken(error: ParseError, content: bytes) -> Problem:
    """What expat found, or which character made it say so."""
    line = error.position[0]
    forbidden = _forbidden(content, line) if error.code in _BAD_CHARACTER else None
    if forbidden:
        what, mend = f"{forbidden}, which XML forbids, in line {line}", "leave it out, or escape it"
    elif error.code in _CUT_OFF:
        what, mend = str(error), "the file may be cut off"
    else:
        what, mend = str(error), "have the test runner write it again"
    return Problem(f"broken XML ({what})", mend)


def _forbidden(content: bytes, line: int) -> str | None:
    """The first such character of a line, raw or as a reference."""
    wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    lines = content.decode("utf-16" if wide else "latin-1", errors="replace").split("\n")
    for found in _CHARACTER.findall(lines[line - 1] if line <= len(lines) else ""):
        code = ord(found) if len(found) == 1 else int("0" + found[2:-1], 16 if "x" in found else 10)
        if not _ALLOWED.fullmatch(chr(min(code, sys.maxunicode))):
            return f"the character U+{code:04X}"
    return None


def _cases(root: Element) -> Iterator[Element]:
    return (element for element in root.iter() if _tag(element) == "testcase")


def _tag(element: Element) -> str:
    """Its name without a namespace."""
    return str(element.tag).rpartition("}")[2]


def _outcome(case: Element) -> Outcome:
    name = case.get("name") or ""
    test = ".".join(part for part in (case.get("classname"), name) if part)
    if not test:
        raise Problem("a testcase without a name", "JUnit XML names each test")
    outcome, message = _result(case)
    return Outcome(test, name or test, outcome, message, _seconds(case.get("time")))


def _result(case: Element) -> tuple[str, str | None]:
    """Surefire's rerunFailure stands beside a failure, its flakyFailure under a pass."""
    for tag, outcome in _OUTCOMES.items():
        for child in case:
            if _tag(child) == tag:
                message = _message(child)
                timeout = outcome != kinds.SKIPPED and _TIMEOUT.search(message)
                return (kinds.TIMEOUT if timeout else outcome), message or None
    return kinds.PASSED, None


def _message(result: Element) -> str:
    """What the failure says; of a long message, the beginning and the end."""
    kind, short = ((result.get(name) or "").strip() for name in ("type", "message"))
    text = spoken(kind, short, "".join(result.itertext()).strip())
    return shortened(text)


def _seconds(text: str | None) -> float | None:
    """Surefire writes thousands with a comma."""
    try:
        seconds = float((text or "").replace(",", ""))
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) else None
