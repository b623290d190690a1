"""Reads the package's TOML files, also where Python has no reader of its own yet."""

from __future__ import annotations

import sys
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def read(text: str) -> dict[str, Any]:
    content: dict[str, Any] = tomllib.loads(text)
    return content
