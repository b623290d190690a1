"""bubblewrap: the host's own files, less what a profile takes away."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from collector.sandbox import cgroup
from collector.sandbox.profile import Profile
from collector.sandbox.seccomp import compile_filter


class Bubblewrap:
    """Limits are cgroups that the command joins before it becomes bubblewrap."""

    def __init__(self, profile: Profile, name: str, folder: Path) -> None:
        self._profile = profile
        self._folder = folder
        self._cgroups = cgroup.limit(name, profile.memory, profile.pids)

    def close(self) -> None:
        for folder in self._cgroups:
            cgroup.remove(folder)

    def outer(self) -> list[str]:
        if not self._cgroups:
            return []
        joins = "; ".join(f"echo $$ > {folder}/cgroup.procs" for folder in self._cgroups)
        return ["sh", "-c", f'{joins}; exec "$@"', "sandbox"]

    def inner(self, argv: Sequence[str], folder: str) -> list[str]:
        """It stays in the directory that it is started in."""
        return [*self._prefix(), *argv]

    def _prefix(self) -> list[str]:
        profile = self._profile
        if not (profile.seccomp or profile.read_only or profile.tmpfs or profile.user is not None):
            return []
        prefix = ["bwrap", "--dev-bind", "/", "/"]
        for path in profile.read_only:
            prefix += ["--ro-bind", path, path]
        for path, size in profile.tmpfs.items():
            prefix += ["--size", str(size), "--tmpfs", path]
        if profile.user is not None:
            prefix += ["--unshare-user", "--uid", str(profile.user)]
        if not profile.seccomp:
            return prefix
        program = self._folder / "seccomp.bpf"
        program.write_bytes(compile_filter(profile.seccomp, profile.seccomp_default))
        # bubblewrap reads the program from a descriptor.
        opened = f'exec "$@" 9< {program}'
        return ["bash", "-c", opened, "sandbox", *prefix, "--seccomp", "9"]
