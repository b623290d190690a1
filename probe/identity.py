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
    return container_id(_read("/proc/self/cgroup")) or socket.gethostname()


def container_id(cgroups: str) -> str | None:
    """The first twelve digits of a container's id, from the text of /proc/PID/cgroup.

    Docker, podman, containerd, CRI-O and Kubernetes put it there, under v1 and v2 alike.
    """
    found = _CONTAINER.search(cgroups)
    return found[1][:12] if found else None


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
