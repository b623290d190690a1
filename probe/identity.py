"""Which sandbox is this, and which boot of it."""

from __future__ import annotations

import os
import re
import socket

_CONTAINER = re.compile(r"(?:^|[/-])([0-9a-f]{64}|[0-9a-f]{32})(?:\.scope)?(?:/|$)", re.MULTILINE)


def boot_id() -> str:
    """Changes at every boot of the kernel (random(4))."""
    return _read("/proc/sys/kernel/random/boot_id") or "unknown"


def sandbox_id() -> str:
    """$PROBE_SANDBOX, else the container's id from its cgroup, else the host's name."""
    given = os.environ.get("PROBE_SANDBOX")
    if given:
        return given
    container = _CONTAINER.search(_read("/proc/self/cgroup"))
    return container[1][:12] if container else socket.gethostname()


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
