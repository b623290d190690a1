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
import sys
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
PACKAGES = "python3,python3-venv"
# What the images are built on comes from no registry: the root above stands in for it.
BASES = ("docker.io/library/python:3.11-slim", "docker.io/library/debian:bookworm-slim")


def codename() -> str:
    return platform.freedesktop_os_release()["VERSION_CODENAME"]


def root() -> Path:
    """A Debian of the host's own release, so that its Python fits the installed packages."""
    folder = CACHE / f"{codename()}-venv"
    if not folder.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        making = CACHE / f"{folder.name}.{os.getpid()}"
        subprocess.run(
            ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", codename(), making],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        run(["chroot", making, "apt-get", "clean"])
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
        self.environment = {**os.environ, "CONTAINERS_CONF": str(settings)}
        self.storage = (f"--root={self._folder}/storage", "--runroot=/run/probe-test-podman")
        self.provide(IMAGE, root())

    def __call__(self, *arguments: str | Path) -> str:
        """What podman says; its complaint where it fails."""
        return run(["podman", *self.storage, *arguments], env=self.environment)

    def start(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """What became of a new container, however it ended."""
        command = ["podman", *self.storage, "run", "--rm", "--network=none", *arguments]
        return subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=False
        )

    @contextlib.contextmanager
    def running(self, *arguments: str | Path) -> Iterator[str]:
        """The id of a container for as long as it is needed."""
        name = self("run", "--detach", "--network=none", *arguments).strip()
        try:
            yield name
        finally:
            self("rm", "--force", "--time=5", name)

    def provide(self, image: str, folder: Path) -> None:
        """Imports a root under the name of an image, if there is none of that name."""
        known = self("images", "--format", "{{.Repository}}:{{.Tag}}").split()
        if image in known or f"{image}:latest" in known:
            return
        with tempfile.NamedTemporaryFile(suffix=".tar") as archive:
            run(["tar", "-C", folder, "-cf", archive.name, "."])
            self("import", archive.name, image)

    def examine(self, *options: str, command: Sequence[str] = COMMAND) -> dict[str, Any]:
        """The examination of a container that is made with these options, or another report."""
        settings = [f"--env={name}={value}" for name, value in ENVIRONMENT.items()]
        settings += [f"--volume={source}:{path}:ro" for path, source in MOUNTS.items()]
        said = self("run", "--rm", "--network=none", *settings, *options, IMAGE, *command)
        report: dict[str, Any] = json.loads(said)
        return report


class Buildah:
    """Builds images into podman's storage, with this machine's ways to the package indexes."""

    def __init__(self, podman: Podman, folder: Path) -> None:
        """`folder` holds the settings that a build gets to see."""
        self._podman = podman
        podman("image", "prune", "--force", "--filter=until=24h")  # what older sources left
        for base in BASES:
            podman.provide(base, root())
        pip, apt = folder / "pip.conf", folder / "apt.conf"
        pip.write_text("[global]\n" + "".join(f"{n} = {v}\n" for n, v in pip_settings().items()))
        apt.write_text(run(["apt-config", "dump", "Acquire::http", "Acquire::https"]))
        self._mounts = [(pip, "/etc/pip.conf"), (apt, "/etc/apt/apt.conf.d/99host")]
        certificate = pip_settings().get("cert")
        if certificate:
            self._mounts.append((Path(certificate), certificate))

    def build(self, image: str, folder: Path, *options: str) -> None:
        """Builds the Dockerfile in the folder."""
        command = ["buildah", *self._podman.storage, "bud", "--isolation=chroot", "--pull-never"]
        command += ["--layers", "--format=docker", f"--tag={image}"]
        command += [f"--volume={source}:{place}:ro" for source, place in self._mounts]
        run([*command, *options, folder], env=self._podman.environment)


def pip_settings() -> dict[str, str]:
    """How pip reaches its index on this machine."""
    found: dict[str, str] = {}
    for line in run([sys.executable, "-m", "pip", "config", "list"]).splitlines():
        name, _, value = line.partition("=")
        name = name.removeprefix(":env:.").removeprefix("global.").removeprefix("default-")
        if name in ("cert", "index-url", "proxy", "timeout", "trusted-host"):
            found.setdefault(name, value.strip("'"))  # the environment comes first
    return found
