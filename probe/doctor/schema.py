"""The JSON Schema of an examination, derived from the sections that it is made of.

`python -m probe.doctor.schema` prints it; the package carries it as doctor.schema.json.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from typing import Any

from probe.doctor.examination import SCHEMA_ID, Examination
from probe.doctor.findings import SEVERITIES, Finding
from probe.schema import TIME, TYPES


def doctor_schema() -> dict[str, Any]:
    """JSON Schema 2020-12. Unknown extra fields are allowed: readers ignore them."""
    finding = _object(Finding)
    finding["properties"]["severity"] = {"enum": list(SEVERITIES)}
    finding["required"].append("severity")
    whole = _object(Examination)
    first = {
        "schema": {"const": SCHEMA_ID},
        "time": TIME,
        "findings": {"type": "array", "items": finding},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": SCHEMA_ID,
        "type": "object",
        "properties": {**first, **whole["properties"]},
        "required": [*first, *whole["required"]],
    }


def _object(kind: type) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    properties = {}
    for field in dataclasses.fields(kind):
        properties[field.name] = _value(hints[field.name])
        if "doc" in field.metadata:
            properties[field.name]["description"] = field.metadata["doc"]
    return {"type": "object", "properties": properties, "required": list(properties)}


def _value(hint: Any) -> dict[str, Any]:
    arguments = typing.get_args(hint)
    if types.NoneType in arguments:
        inner = next(one for one in arguments if one is not types.NoneType)
        return {"anyOf": [{"type": "null"}, _value(inner)]}
    if typing.get_origin(hint) is dict:
        return {"type": "object", "additionalProperties": _value(arguments[1])}
    if typing.get_origin(hint) is list:
        return {"type": "array", "items": _value(arguments[0])}
    if dataclasses.is_dataclass(hint):
        return _object(typing.cast(type, hint))
    return {"type": TYPES[hint]}


if __name__ == "__main__":
    print(json.dumps(doctor_schema(), indent=1))
