"""Reads the package's TOML files, also where Python has no reader of its own yet."""

from __future__ import annotations

import sys
from importlib.resources.abc import Traversable
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def read(file: Traversable) -> dict[str, Any]:
    content: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    return content
