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
        prefix = [*self._staged(), "bwrap", "--dev-bind", "/", "/", *self._mounts()]
        if profile.user is not None:
            prefix += ["--unshare-user", "--uid", str(profile.user)]
        if not profile.seccomp:
            return prefix
        program = self._folder / "seccomp.bpf"
        program.write_bytes(compile_filter(profile.seccomp, profile.seccomp_default))
        # bubblewrap reads the program from a descriptor.
        opened = f'exec "$@" 9< {program}'
        return ["bash", "-c", opened, "sandbox", *prefix, "--seccomp", "9"]

    def _mounts(self) -> list[str]:
        profile = self._profile
        mounts = {path: ["--ro-bind", path, path] for path in profile.read_only}
        for path, size in profile.tmpfs.items():
            mounts[path] = ["--size", str(size), "--tmpfs", path]
        for path in profile.noexec:
            mounts[path] = ["--bind", str(self._stage(path)), path]
        mounts.update({path: ["--bind", path, path] for path in profile.shared})
        # A mount hides what was mounted beneath it before.
        return [word for path in sorted(mounts) for word in mounts[path]]

    def _staged(self) -> list[str]:
        """bubblewrap itself mounts no tmpfs with noexec, but keeps the flags of what it binds."""
        if not self._profile.noexec:
            return []
        steps = []
        for path in self._profile.noexec:
            stage = self._stage(path)
            stage.mkdir(parents=True, exist_ok=True)
            options = f"noexec,nosuid,nodev,size={self._profile.tmpfs[path]}"
            steps.append(f"mount -t tmpfs -o {options} tmpfs {stage}")
        return ["unshare", "--mount", "sh", "-c", f'{" && ".join(steps)} && exec "$@"', "sandbox"]

    def _stage(self, path: str) -> Path:
        return self._folder / "noexec" / path.strip("/").replace("/", "-")
