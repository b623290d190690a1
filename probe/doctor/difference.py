"""What differs between two sandboxes, of all that matters, worst first.

Both are given as JSON of the same schema, so that one may come from another machine
or from an older probe: fields that one of them lacks are not compared.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from probe.doctor.examination import SCHEMA_ID, Examination
from probe.problem import Problem

DIFFERENCE_SCHEMA_ID = "probe.doctor.difference/1"
ABSENT = "absent"
# What follows from a difference is not told beside it.
_IMPLIED = {
    "senses.senses.": "senses.engine",
    "syscalls.filters": "syscalls.mode",
    "privileges.own_user_namespace": "privileges.uid_map.",
}


@dataclass(frozen=True)
class Difference:
    """`here` and `there` are values of the fact that `name` leads to; "absent" for no such entry.

    `weight` is how likely such a difference breaks work (0 to 1).
    """

    name: str
    here: Any
    there: Any
    weight: float


def load(path: str) -> dict[str, Any]:
    """The report of another machine, as `probe doctor --json` wrote it. Problem otherwise."""
    mend = "give a file that `probe doctor --json` wrote"
    try:
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
    except OSError as error:
        raise Problem(f"{path}: {error.strerror}", mend) from error
    except (ValueError, RecursionError) as error:
        raise Problem(f"{path}: not JSON", mend) from error
    schema = report.get("schema") if isinstance(report, dict) else None
    if schema != SCHEMA_ID:
        raise Problem(f"{path}: its schema is {schema!r}, not {SCHEMA_ID!r}", mend)
    found: dict[str, Any] = report
    return found


def differences(here: dict[str, Any], there: dict[str, Any]) -> list[Difference]:
    """Worst first. Numbers and sections that are not of the schema's form are not compared."""
    found = list(_of_class(Examination, "", here, there, 1.0))
    names = [difference.name for difference in found]
    implied = tuple(
        one for one, by in _IMPLIED.items() if any(name.startswith(by) for name in names)
    )
    found = [difference for difference in found if not difference.name.startswith(implied)]
    return sorted(found, key=lambda difference: (-difference.weight, difference.name))


def as_json(found: list[Difference]) -> dict[str, Any]:
    """For programs: `probe.doctor.difference/1`."""
    return {
        "schema": DIFFERENCE_SCHEMA_ID,
        "differences": [dataclasses.asdict(difference) for difference in found],
    }


def _of_class(kind: type, name: str, here: Any, there: Any, weight: float) -> Iterator[Difference]:
    hints = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        own = field.metadata.get("weight", weight)
        if own is None or not _both_have(field.name, here, there):
            continue
        if field.metadata.get("none_is_unknown") and None in (here[field.name], there[field.name]):
            continue
        path = f"{name}.{field.name}" if name else field.name
        yield from _of(hints[field.name], path, here[field.name], there[field.name], own)


def _both_have(name: str, here: Any, there: Any) -> bool:
    """A field that one of the two could not learn does not differ: nobody knows."""

    def has(report: Any) -> bool:
        if not isinstance(report, dict) or name not in report:
            return False
        unknown = report.get("unknown")
        return not isinstance(unknown, dict) or name not in unknown

    return has(here) and has(there)


def _of(hint: Any, name: str, here: Any, there: Any, weight: float) -> Iterator[Difference]:
    hint = _without_none(hint)
    if here == there:
        return
    if dataclasses.is_dataclass(hint) and isinstance(here, dict) and isinstance(there, dict):
        yield from _of_class(typing.cast(type, hint), name, here, there, weight)
    elif isinstance(here, dict) and isinstance(there, dict):
        inner = typing.get_args(hint)[1]
        for key in sorted(here.keys() | there.keys()):
            if key in here and key in there:
                yield from _of(inner, f"{name}.{key}", here[key], there[key], weight)
            else:
                a, b = (_brief(inner, side.get(key, ABSENT)) for side in (here, there))
                yield Difference(f"{name}.{key}", a, b, weight)
    elif isinstance(here, list) and isinstance(there, list):
        for one in sorted({str(one) for one in here} ^ {str(one) for one in there}):
            present = [one in map(str, side) for side in (here, there)]
            a, b = ("present" if side else ABSENT for side in present)
            yield Difference(f"{name}.{one}", a, b, weight)
    else:
        yield Difference(name, here, there, weight)


def _without_none(hint: Any) -> Any:
    inner = [one for one in typing.get_args(hint) if one is not types.NoneType]
    return inner[0] if isinstance(hint, types.UnionType) else hint


def _brief(hint: Any, value: Any) -> Any:
    """An entry that the other side lacks: that it is there says enough."""
    return "present" if dataclasses.is_dataclass(hint) and value != ABSENT else value
