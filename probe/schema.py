"""The JSON Schema of the report, derived from the definitions that the report is made of.

`python -m probe.schema` prints it; the package carries it as report.schema.json.
"""

from __future__ import annotations

import json
import types
import typing
from typing import Any

from probe import events
from probe.causes import CAUSES
from probe.coverage import SENSES
from probe.report import SCHEMA_ID
from probe.span import OUTCOMES

TYPES = {int: "integer", float: "number", str: "string", bool: "boolean"}
TIME = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$"}
_STATE = {"type": "string", "pattern": "^(full$|partial: .|none: .)"}


def report_schema() -> dict[str, Any]:
    """JSON Schema 2020-12. Unknown extra fields are allowed: readers ignore them."""
    finding = _object(
        {
            "cause": {"enum": sorted(CAUSES)},
            "layer": {"enum": sorted({cause.layer for cause in CAUSES.values()})},
            "primitive": {"type": "string"},
            "confidence": {"type": "number", "minimum": 0, "maximum": 1},
            "summary": {"type": "string", "minLength": 1},
            "advice": {"type": "string"},
            "evidence": _array({"type": "string"}),
        }
    )
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": SCHEMA_ID,
        **_object(
            {
                "schema": {"const": SCHEMA_ID},
                "span": _span(),
                "outcome": {"enum": list(OUTCOMES)},
                "verdict": {"anyOf": [{"type": "null"}, finding]},
                "alternatives": _array(finding),
                "dismissed": _array(
                    _object({"event": {"type": "string"}, "reason": {"type": "string"}})
                ),
                "coverage": _object(
                    {
                        "engine": {"type": "string"},
                        "senses": _object(dict.fromkeys(SENSES, _STATE)),
                        "attribution": {"enum": ["exact", "cgroup", "time"]},
                    }
                ),
                "lost": _object(
                    {
                        "total": {"type": "integer", "minimum": 0},
                        "by_sense": {
                            "type": "object",
                            "additionalProperties": {"type": "integer", "minimum": 0},
                        },
                    }
                ),
                "sandbox": _object(
                    {
                        "silent_since": {"anyOf": [{"type": "null"}, TIME]},
                        "next_boot": {"type": ["string", "null"]},
                        "clock_offset_s": {"type": "number"},
                    }
                ),
                "events": _array({"oneOf": [_event(kind) for kind in events.KINDS.values()]}),
            }
        ),
    }
    schema["required"].remove("sandbox")  # a collector alone knows of it
    return schema


def _span() -> dict[str, Any]:
    text = {"type": "string"}
    return _object(
        {
            "run": text,
            "test": text,
            "command": _array(text),
            "started_at": TIME,
            "duration_s": {"type": ["number", "null"]},
            "exit_code": {"type": ["integer", "null"]},
            "signal": {"type": ["string", "null"]},
            "sandbox": text,
            "boot": text,
        }
    )


def _event(kind: type[events.Event]) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    common = {
        "id": {"type": "string", "pattern": "^e[0-9]+$"},
        "time": TIME,
        "kind": {"const": kind.kind},
        **{name: {"type": "integer"} for name in ("pid", "tid", "ppid")},
        **{name: {"type": "string"} for name in ("comm", "exe")},
        "count": {"type": "integer", "minimum": 1},
    }
    details = {name: _field(hints[name]) for name in events.detail_fields(kind)}
    optional = {name for name in details if _is_optional(hints[name])}
    schema = _object({**common, **details})
    schema["required"] = [name for name in schema["required"] if name not in optional]
    return schema


def _is_optional(hint: Any) -> bool:
    return typing.get_origin(hint) is tuple or types.NoneType in typing.get_args(hint)


def _field(hint: Any) -> dict[str, Any]:
    if typing.get_origin(hint) is tuple:
        return _array({"type": TYPES[typing.get_args(hint)[0]]})
    inner = [part for part in typing.get_args(hint) if part is not types.NoneType]
    return {"type": TYPES[inner[0] if inner else hint]}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _array(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


if __name__ == "__main__":
    print(json.dumps(report_schema(), indent=1))
