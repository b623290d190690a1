"""Real container runtimes, each as a way to run the probe in a sandbox that a test describes.

The root of all is one Debian, made once by debootstrap and kept in a cache; the probe
and what it needs are mounted read-only beside it.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import subprocess
import sysconfig
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import probe

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or "/var/cache") / "sandbox-probe"
PROFILE = Path("/usr/share/containers/seccomp.json")  # golang-github-containers-common
CODE = Path(probe.__file__).parent.parent
SITE = sysconfig.get_path("purelib")
COMMAND = ("/usr/bin/python3", "-m", "probe.cli", "doctor", "--json")
# A failure under watch, and its report, by a shell that ends well.
WATCHED = (
    '/usr/bin/python3 -m probe.cli run --engine "$1" --json /tmp/report -- sh -c "$0";'
    " cat /tmp/report"
)
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "PYTHONPATH": "/opt/probe:/opt/site",
    "PYTHONDONTWRITEBYTECODE": "1",
    "LANG": "C.UTF-8",
    "HOME": "/root",
}
MOUNTS = {"/opt/probe": str(CODE), "/opt/site": SITE}
IMAGE = "localhost/sandbox-probe-test"


def root() -> Path:
    """A Debian of the host's own release, so that its Python fits the installed packages."""
    codename = platform.freedesktop_os_release()["VERSION_CODENAME"]
    folder = CACHE / codename
    if not folder.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        making = CACHE / f"{codename}.{os.getpid()}"
        subprocess.run(
            ["debootstrap", "--variant=minbase", "--include=python3", codename, making],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        making.rename(folder)
    return folder


def applicable(profile: dict[str, Any], capabilities: set[str]) -> list[dict[str, Any]]:
    """The entries of a container engine's profile that hold for a container's capabilities."""
    found = []
    for entry in profile["syscalls"]:
        wanted, unwanted = entry.get("includes") or {}, entry.get("excludes") or {}
        if not set(wanted.get("caps", [])) <= capabilities:
            continue
        if wanted.get("arches") and "amd64" not in wanted["arches"]:
            continue
        if unwanted.get("caps") and set(unwanted["caps"]) <= capabilities:
            continue
        if "amd64" in unwanted.get("arches", []):
            continue
        found.append(entry)
    return found


def run(command: Sequence[str | Path], **options: Any) -> str:
    """What a command says; its complaint where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{command}: {done.stderr}{done.stdout}"
    return done.stdout


@contextlib.contextmanager
def bundle(specification: dict[str, Any]) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(specification))
        yield Path(folder)


def specification(
    capabilities: Sequence[str] = (),
    seccomp: dict[str, Any] | None = None,
    resources: dict[str, Any] | None = None,
    mounts: Sequence[dict[str, Any]] = (),
    rlimits: dict[str, tuple[int, int]] | None = None,
    read_only: bool = False,
    no_new_privileges: bool = True,
    user: tuple[int, int] = (0, 0),
) -> dict[str, Any]:
    """An OCI runtime specification on top of what `runc spec` writes."""
    with tempfile.TemporaryDirectory() as folder:
        run(["runc", "spec"], cwd=folder)
        made: dict[str, Any] = json.loads((Path(folder) / "config.json").read_text())
    process, linux = made["process"], made["linux"]
    process["terminal"] = False
    process["args"] = list(COMMAND)
    process["env"] = [f"{name}={value}" for name, value in ENVIRONMENT.items()]
    process["user"] = {"uid": user[0], "gid": user[1]}
    process["capabilities"] = {
        kind: list(capabilities) for kind in ("bounding", "effective", "permitted")
    }
    process["noNewPrivileges"] = no_new_privileges
    process["rlimits"] = [
        {"type": f"RLIMIT_{name.upper()}", "soft": soft, "hard": hard}
        for name, (soft, hard) in (rlimits or {}).items()
    ]
    made["root"] = {"path": str(root()), "readonly": read_only}
    made["mounts"] += [_bound(path, source) for path, source in MOUNTS.items()]
    made["mounts"] += mounts
    linux["resources"].update(resources or {})
    if seccomp is not None:
        linux["seccomp"] = seccomp
    return made


def _bound(path: str, source: str) -> dict[str, Any]:
    options = ["bind", "ro"]
    return {"destination": path, "type": "bind", "source": source, "options": options}


def in_runc(made: dict[str, Any]) -> dict[str, Any]:
    """The examination of a sandbox that runc makes."""
    name = f"probe-{uuid.uuid4().hex[:12]}"
    with bundle(made) as folder:
        report: dict[str, Any] = json.loads(run(["runc", "run", "--bundle", folder, name]))
    return report


def watched(script: str, engine: str = "auto") -> list[str]:
    """The command that runs a shell script under `probe run` and shows the report."""
    return ["/bin/sh", "-c", WATCHED, script, engine]


def in_gvisor(made: dict[str, Any]) -> dict[str, Any]:
    """The report of a sandbox that runsc makes, with a kernel of its own."""
    name = f"probe-{uuid.uuid4().hex[:12]}"
    with bundle(made) as folder, tempfile.TemporaryDirectory() as state:
        command = ["runsc", "--root", state, "--platform=ptrace", "--network=none"]
        command += ["--ignore-cgroups", "run", "--bundle", str(folder), name]
        report: dict[str, Any] = json.loads(run(command))
    return report


class Podman:
    """With storage of its own, so that nothing of the user's is touched; never on a bridge."""

    def __init__(self) -> None:
        self._folder = CACHE / "podman"
        self._folder.mkdir(parents=True, exist_ok=True)
        settings = self._folder / "containers.conf"
        settings.write_text(
            '[containers]\ndefault_ulimits = ["nofile=20000:20000", "nproc=4096:4096"]\n'
            '[engine]\ncgroup_manager = "cgroupfs"\nruntime = "runc"\nevents_logger = "none"\n'
        )
        self._environment = {**os.environ, "CONTAINERS_CONF": str(settings)}
        if IMAGE not in self._podman("images", "--format", "{{.Repository}}"):
            self._import()

    def _podman(self, *arguments: str) -> str:
        storage = ["--root", str(self._folder / "storage"), "--runroot", "/run/probe-test-podman"]
        return run(["podman", *storage, *arguments], env=self._environment)

    def _import(self) -> None:
        with tempfile.NamedTemporaryFile(suffix=".tar") as archive:
            run(["tar", "-C", root(), "-cf", archive.name, "."])
            self._podman("import", archive.name, IMAGE)

    def examine(self, *options: str, command: Sequence[str] = COMMAND) -> dict[str, Any]:
        """The examination of a container that is made with these options, or another report."""
        settings = [f"--env={name}={value}" for name, value in ENVIRONMENT.items()]
        settings += [f"--volume={source}:{path}:ro" for path, source in MOUNTS.items()]
        said = self._podman("run", "--rm", "--network=none", *settings, *options, IMAGE, *command)
        report: dict[str, Any] = json.loads(said)
        return report
