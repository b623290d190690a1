"""The five sandboxes of the campaign: one gives all, and each of the others is tight in one way."""

from __future__ import annotations

import functools
from importlib import resources
from typing import Any

from collector.campaign import toml
from collector.sandbox import Profile

PROFILES = ("generous", "tight-memory", "container-seccomp", "offline", "read-only")
_MIB = 1 << 20


@functools.cache
def profile(name: str, application: str = "code") -> Profile:
    """The sandbox of that name, as workflows of the application get it."""
    file = resources.files(__package__) / "profiles.toml"
    content = toml.read(file.read_text(encoding="utf-8"))
    settings: dict[str, Any] = {**content["every"], **content[name]}
    memory = settings.pop("memory_mib", {}).get(application)
    denied = settings.pop("denied", {})
    return Profile(
        memory=None if memory is None else memory * _MIB,
        seccomp={call: answer for answer, calls in denied.items() for call in calls},
        **settings,
    )
