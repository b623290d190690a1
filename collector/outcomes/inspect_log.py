"""Logs of Inspect (https://inspect.aisi.org.uk/eval-logs.html): `.eval` archives and JSON.

A sample is a test, `TASK/SAMPLE`, or `TASK/SAMPLE/EPOCH` where it was run several times.
Of an archive only the header and the summaries are read, however long the transcripts.
"""

from __future__ import annotations

import io
import sys
import zlib
from collections.abc import Mapping
from typing import Any

from collector.outcomes import document, fields
from collector.outcomes import outcome as kinds
from collector.outcomes.outcome import Outcome
from probe.problem import Problem

if sys.version_info >= (3, 14):
    import zipfile

    from compression.zstd import ZstdError
else:
    from backports.zstd import ZstdError, zipfile

MEMBER_LIMIT = 256 << 20  # bytes, of all that is read of an archive
MEMBERS = 200_000
_MAGIC, _ENTRY = b"PK\x03\x04", b"PK\x01\x02"
_BROKEN = (
    *(zipfile.BadZipFile, ZstdError, zlib.error),
    *(EOFError, OSError, RuntimeError, ValueError, KeyError),
)
_JOURNAL = "_journal/summaries/"
_GOOD = frozenset(("c", "yes", "true", "correct", "pass"))
_TIME_LIMITS = ("time", "working")


def is_archive(content: bytes) -> bool:
    return content.startswith(_MAGIC)


def parse_archive(content: bytes) -> list[Outcome]:
    """Problem where it is no log, or a bomb."""
    if content.count(_ENTRY) > MEMBERS:
        raise Problem(f"an archive of more than {MEMBERS:,} files", "no log of Inspect has that")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return _Archive(archive).outcomes()
    except Problem:
        raise
    except _BROKEN as error:
        raise Problem(f"a broken archive ({error})", "the file may be cut off") from None


class _Archive:
    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._left = MEMBER_LIMIT

    def outcomes(self) -> list[Outcome]:
        """A log that was not finished has neither header nor summaries, but a journal."""
        names = self._archive.namelist()
        header = next(
            (name for name in ("header.json", "_journal/start.json") if name in names), ""
        )
        if not header:
            raise Problem("a zip file, but no log of Inspect", "it has no header.json")
        found = self._json(header)
        if "summaries.json" in names:
            samples = fields.items(self._json("summaries.json"))
        else:
            journal = sorted(name for name in names if name.startswith(_JOURNAL))
            samples = [one for name in journal for one in fields.items(self._json(name))]
        return _outcomes(fields.mapping(fields.mapping(found).get("eval")), samples)

    def _json(self, name: str) -> Any:
        """What a member says of its own size is not believed."""
        with self._archive.open(name) as member:
            content = member.read(self._left + 1)
        self._left -= len(content)
        if self._left < 0:
            raise Problem(f"{name}: more than {MEMBER_LIMIT >> 20} MiB", "is it an archive bomb?")
        return document.load(content)


def recognises(value: Any) -> bool:
    """Whether a JSON document is a log."""
    found = fields.mapping(value)
    return isinstance(found.get("eval"), dict) and "status" in found


def parse(value: Any) -> list[Outcome]:
    return _outcomes(value["eval"], fields.items(value.get("samples")))


def _outcomes(header: Mapping[str, Any], samples: list[Any]) -> list[Outcome]:
    task = fields.text(header.get("task")) or "task"
    epochs = fields.number(fields.mapping(header.get("config")).get("epochs")) or 1
    return [_outcome(task, epochs > 1, fields.mapping(sample)) for sample in samples]


def _outcome(task: str, repeated: bool, sample: Mapping[str, Any]) -> Outcome:
    number = sample.get("id")
    if isinstance(number, bool) or not isinstance(number, (int, str)) or number == "":
        raise Problem("a sample without an id", "Inspect gives each one")
    name = f"{number}/{sample.get('epoch')}" if repeated else str(number)
    kind, message = _result(sample)
    return Outcome(
        f"{task}/{name}",
        name,
        kind,
        message,
        fields.duration_s(sample.get("total_time")),
        started_ns=fields.moment_ns(sample.get("started_at")),
    )


def _result(sample: Mapping[str, Any]) -> tuple[str, str | None]:
    """Summaries hold an error's and a limit's words, whole samples objects with them."""
    error, limit = sample.get("error"), sample.get("limit")
    if error:
        return kinds.ERROR, fields.text(fields.mapping(error).get("message") or error)
    scores = [fields.mapping(score) for score in fields.mapping(sample.get("scores")).values()]
    bad = [score for score in scores if not _good(score.get("value"))]
    if not bad:
        return kinds.PASSED, None
    limited = fields.mapping(limit).get("type") or limit
    kind = kinds.TIMEOUT if limited in _TIME_LIMITS else kinds.FAILED
    words = [fields.text(score.get("explanation")) for score in bad]
    return kind, "\n".join(filter(None, words)) or None


def _good(value: Any) -> bool:
    """Inspect's own reading of a score (value_to_float): 1 is all right, less is not."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value.strip().lower() in _GOOD
    if isinstance(value, dict):
        return all(_good(one) for one in value.values())
    if isinstance(value, list):
        return all(_good(one) for one in value)
    return (fields.number(value) or 0) >= 1
