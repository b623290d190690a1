"""runc: a bundle for each command, on a root of its own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from collector.sandbox.overlay import Overlay
from collector.sandbox.profile import Profile
from collector.sandbox.seccomp import oci_filter

# What container engines give by themselves (podman's default_capabilities).
CAPABILITIES = tuple(
    f"CAP_{name}"
    for name in (
        *("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "SETFCAP"),
        *("SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    )
)


class Runc:
    """The container shares the network that it is started in."""

    def __init__(self, profile: Profile, name: str, folder: Path) -> None:
        self._profile, self._name = profile, name
        self._overlay = Overlay(folder)
        self._bundle = folder / "bundle"
        self._bundle.mkdir()
        self._resolver = folder / "resolv.conf"
        self._commands = 0

    def close(self) -> None:
        for number in range(self._commands):
            gone = ["runc", "delete", "--force", self._container(number)]
            subprocess.run(gone, capture_output=True, check=False)
        self._overlay.close()

    def outer(self) -> list[str]:
        return []

    def inner(self, argv: Sequence[str], folder: str) -> list[str]:
        """Each with a bundle of its own, so that several may run at once."""
        bundle = self._bundle / str(self._commands)
        bundle.mkdir()
        (bundle / "config.json").write_text(json.dumps(self._specification(bundle, argv, folder)))
        name = self._container(self._commands)
        self._commands += 1
        return ["runc", "run", "--bundle", str(bundle), name]

    def _container(self, number: int) -> str:
        return f"{self._name}-{number}"

    def _specification(self, bundle: Path, argv: Sequence[str], folder: str) -> dict[str, Any]:
        profile = self._profile
        subprocess.run(["runc", "spec"], cwd=bundle, check=True)
        made: dict[str, Any] = json.loads((bundle / "config.json").read_text())
        process, linux = made["process"], made["linux"]
        capabilities = list(profile.capabilities or CAPABILITIES)
        kinds = ("bounding", "effective", "permitted")
        process["capabilities"] = dict.fromkeys(kinds, [] if profile.user else capabilities)
        process.update(terminal=False, args=list(argv), cwd=folder, env=_environment())
        process["user"] = {"uid": profile.user or 0, "gid": profile.user or 0}
        process["rlimits"] = []
        made["root"] = {"path": str(self._overlay.root), "readonly": False}
        made["mounts"] += self._mounts()
        spaces = [one for one in linux["namespaces"] if one["type"] != "network"]
        linux.update(namespaces=spaces, cgroupsPath=f"/{self._name}")
        if profile.memory is not None:
            linux["resources"]["memory"] = {"limit": profile.memory}
        if profile.pids is not None:
            linux["resources"]["pids"] = {"limit": profile.pids}
        if profile.seccomp:
            linux["seccomp"] = oci_filter(profile.seccomp, profile.seccomp_default)
        return made

    def _mounts(self) -> list[dict[str, Any]]:
        profile = self._profile
        shared = [_bind(path, path, "rw") for path in profile.shared]
        shared += [_bind(path, path, "ro") for path in profile.read_only]
        if profile.nameserver is not None:
            shared.append(_bind(str(self._resolver), "/etc/resolv.conf", "ro"))
        memory = [
            _tmpfs(path, f"size={size}", *(["noexec"] if path in profile.noexec else []))
            for path, size in profile.tmpfs.items()
        ]
        # A mount hides what was mounted beneath it before.
        return sorted(shared + memory, key=lambda mount: str(mount["destination"]))


def _bind(source: str, path: str, mode: str) -> dict[str, Any]:
    return {"destination": path, "type": "bind", "source": source, "options": ["rbind", mode]}


def _tmpfs(path: str, *options: str) -> dict[str, Any]:
    return {"destination": path, "type": "tmpfs", "source": "tmpfs", "options": list(options)}


def _environment() -> list[str]:
    return [f"{name}={value}" for name, value in os.environ.items()]
