"""podman: its own defaults (capabilities, seccomp, mounts), on a root of the container's own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from collector.sandbox.overlay import Overlay
from collector.sandbox.profile import Profile
from collector.sandbox.seccomp import oci_filter

# Without systemd, journald and a session bus; engines limit files and processes themselves.
_SETTINGS = """
[containers]
default_ulimits = ["nofile=20000:20000", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
events_logger = "none"
"""


class Podman:
    """With storage of its own, so that nothing of the user's is touched; never on a bridge."""

    def __init__(self, profile: Profile, name: str, folder: Path) -> None:
        self._profile, self._name, self._folder = profile, name, folder
        (folder / "containers.conf").write_text(_SETTINGS)
        self._overlay = Overlay(folder)
        self._resolver = folder / "resolv.conf"
        self._commands = 0

    def close(self) -> None:
        gone = [*self._podman(), "rm", "--all", "--force", "--time", "0"]
        subprocess.run(gone, capture_output=True, check=False)
        self._overlay.close()

    def outer(self) -> list[str]:
        return []

    def inner(self, argv: Sequence[str], folder: str) -> list[str]:
        self._commands += 1
        name = f"{self._name}-{self._commands}"
        command = [*self._podman(), "run", "--rm", "--name", name, "--network=host"]
        command += ["--workdir", folder, "--env-host", *self._options()]
        return [*command, "--rootfs", str(self._overlay.root), *argv]

    def _podman(self) -> list[str]:
        storage, state = self._folder / "storage", self._folder / "run"
        settings = f"CONTAINERS_CONF={self._folder / 'containers.conf'}"
        return ["env", settings, "podman", "--root", str(storage), "--runroot", str(state)]

    def _options(self) -> list[str]:
        profile = self._profile
        found = [f"--volume={path}:{path}" for path in profile.shared]
        found += [f"--volume={path}:{path}:ro" for path in profile.read_only]
        for place, size in profile.tmpfs.items():
            noexec = ",noexec" if place in profile.noexec else ""
            # Empty, as by the other drivers, and not a copy of what lies there in the root.
            found.append(f"--tmpfs={place}:size={size},notmpcopyup{noexec}")
        if profile.nameserver is not None:
            found.append(f"--volume={self._resolver}:/etc/resolv.conf:ro")
        if profile.memory is not None:
            found.append(f"--memory={profile.memory}")
        if profile.pids is not None:
            found.append(f"--pids-limit={profile.pids}")
        if profile.user is not None:
            found.append(f"--user={profile.user}")
        if profile.capabilities is not None:
            found += ["--cap-drop=all", *(f"--cap-add={name}" for name in profile.capabilities)]
        if profile.seccomp:
            path = self._folder / "seccomp.json"
            rules = oci_filter(profile.seccomp, profile.seccomp_default)
            path.write_text(json.dumps(rules))
            found.append(f"--security-opt=seccomp={path}")
        return found
