"""A run's tests and verdicts in the forms that other tools read."""

from __future__ import annotations

from collections.abc import Callable

from collector.export import ctrf, github, otlp
from collector.store import Store

FORMATS: dict[str, Callable[[Store, str], str]] = {
    "ctrf": ctrf.render,
    "otlp": otlp.render,
    "github": github.render,
}
