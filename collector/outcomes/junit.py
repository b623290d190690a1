"""JUnit XML, as pytest, go-junit-report and Maven Surefire write it.

There is no standard; https://github.com/testmoapp/junitxml collects what is in use.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element, ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import fromstring

from collector.outcomes import outcome as kinds
from collector.outcomes.outcome import MESSAGE_LIMIT, Outcome
from collector.outcomes.words import spoken
from probe.problem import Problem

_BEFORE_MARKUP = b"\xef\xbb\xbf\xff\xfe\x00 \t\r\n"  # byte order marks and blanks
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
    try:
        root = fromstring(content)
    except ParseError as error:
        raise Problem(f"broken XML ({error})", "the file may be cut off") from None
    except DefusedXmlException:
        raise Problem("XML with entity declarations", "test reports need none") from None
    except (ValueError, LookupError) as error:
        raise Problem(f"broken XML ({error})", "save it as UTF-8") from None
    kind = _tag(root)
    if kind not in ("testsuites", "testsuite"):
        raise Problem(f"XML, but not JUnit's: its root is <{kind}>", "expected <testsuites>")
    return [_outcome(case) for case in _cases(root)]


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
    if len(text) <= MESSAGE_LIMIT:
        return text
    half = MESSAGE_LIMIT // 2
    return f"{text[:half]}\n…\n{text[-half:]}"


def _seconds(text: str | None) -> float | None:
    """Surefire writes thousands with a comma."""
    try:
        seconds = float((text or "").replace(",", ""))
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) else None
