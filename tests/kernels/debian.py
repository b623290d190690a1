"""Debian's cloud kernels and a small root file system, from the mirror that apt here uses.

Fetched once and kept (`cache`); to have newer ones, remove that folder.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import zlib
from dataclasses import dataclass
from pathlib import Path

from machine import AMD64, ARM64, Machine

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
SUITE = "bookworm"  # of the root file system; its Python is PYTHON
PYTHON = "3.11"
PACKAGES = (
    *("python3", "python3-venv", "libbpf1", "libseccomp2", "bubblewrap", "strace", "nftables"),
    *("iproute2", "kmod", "hostname"),
)
LIBBCC = "python3-bpfcc"
# What installation brings along by itself, and the program of the initial RAM disk.
UNPACKED = ("?essential", "mount", "procps", "e2fsprogs", "busybox-static")
_MERGED = "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr"


@dataclass(frozen=True)
class Kernel:
    """One release line, and where Debian has it."""

    name: str
    suite: str
    package: str = "linux-image-cloud-amd64"
    machine: Machine = AMD64

    def folder(self) -> Path:
        """Its packages, unpacked."""
        folder = cache() / "kernels" / self.name
        if not folder.exists():
            _fetch(self, folder)
        return folder

    def image(self) -> Path:
        return next(self.folder().glob("**/vmlinuz*"))

    def modules(self) -> Path:
        return next(self.folder().glob("**/lib/modules/*"))


KERNELS = (
    Kernel("5.10", "bullseye-security"),
    Kernel("6.1", "bookworm-security"),
    Kernel("6.12", "bookworm-security", "linux-image-6.12-cloud-amd64"),
    Kernel("7", "trixie-backports"),
    # Of arm64 the security archive has lists of bullseye, and no longer the packages.
    Kernel("arm64-5.10", "bullseye", "linux-image-cloud-arm64", ARM64),
    Kernel("arm64-6.1", "bookworm-security", "linux-image-cloud-arm64", ARM64),
    Kernel("arm64-7", "trixie-backports", "linux-image-cloud-arm64", ARM64),
)


def cache() -> Path:
    """XDG_CACHE_HOME is for users; root has /var/cache (file-hierarchy(7))."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "/var/cache") / "sandbox-probe"


def _mirror(suite: str) -> str:
    """The address that this machine's apt has of Debian, or of its security archive."""
    listed = _run("apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME)")
    known = dict(reversed(line.split()) for line in listed.splitlines() if line)
    for codename, address in known.items():
        if codename.endswith("-security") == suite.endswith("-security"):
            return address
    raise LookupError(f"apt knows no Debian archive that could have {suite}")


def _run(*command: str | Path, **environment: str) -> str:
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {done.stdout}{done.stderr}")
    return done.stdout


def _fetch(kernel: Kernel, folder: Path) -> None:
    """Downloads with an apt of its own, which knows this one suite and has nothing installed."""
    apt = cache() / "apt" / kernel.name
    for part in ("lists/partial", "archives/partial", "debs"):
        (apt / part).mkdir(parents=True, exist_ok=True)
    (apt / "status").touch()
    (apt / "sources.list").write_text(
        f"deb [signed-by={KEYRING}] {_mirror(kernel.suite)} {kernel.suite} main\n"
    )
    configuration = apt / "apt.conf"
    configuration.write_text(
        f'Dir::State "{apt}"; Dir::State::lists "{apt}/lists"; Dir::Cache "{apt}";\n'
        f'Dir::State::status "{apt}/status"; APT::Sandbox::User "root";\n'
        f'APT::Architecture "{kernel.machine.name}"; APT::Architectures "";\n'
        f'Dir::Etc::sourcelist "{apt}/sources.list"; Dir::Etc::sourceparts "/dev/null";\n'
    )
    private = {"APT_CONFIG": str(configuration)}
    _run("apt-get", "-qq", "update", **private)
    names = _packages(kernel.package, private)
    subprocess.run(
        ["apt-get", "-qq", "download", *names],
        cwd=apt / "debs",
        env={**os.environ, **private},
        check=True,
    )
    partial = folder.parent / f"{folder.name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    for package in (apt / "debs").glob("*.deb"):
        _run("dpkg", "-x", package, partial)
    shutil.rmtree(apt)
    # Debian's 7 has them under /usr, and the index of modules is made at installation.
    modules = next(partial.glob("**/lib/modules/*"))
    _run("depmod", "-b", modules.parent.parent.parent, modules.name)
    partial.rename(folder)


def _packages(package: str, private: dict[str, str]) -> list[str]:
    """What the metapackage stands for: since 7.2 image, modules and more are apart."""
    depends = _run("apt-cache", "depends", "--recurse", "--important", package, **private)
    return sorted(set(re.findall(r"^linux-(?:image|binary|modules)-\d\S+", depends, re.MULTILINE)))


def root_tree(machine: Machine) -> Path:
    """A root file system with PACKAGES, as a folder."""
    packages = PACKAGES if machine.native else (*PACKAGES, *UNPACKED)
    packages += (LIBBCC,) * ("bcc" in machine.engines)
    content = zlib.crc32(" ".join((SUITE, machine.name, *packages)).encode())
    folder = cache() / f"guest-{content:08x}"
    if not folder.exists():
        partial = folder.parent / f"{folder.name}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        bootstrap = ["mmdebstrap", "--mode=root"]
        bootstrap += ["--variant=minbase"] if machine.native else ["--variant=extract", _MERGED]
        bootstrap += [f"--architectures={machine.name}", f"--include={','.join(packages)}"]
        _run(*bootstrap, SUITE, partial, _mirror(SUITE))
        if not machine.native:
            _settle(partial)
        partial.rename(folder)
    return folder


def _settle(tree: Path) -> None:
    """What the scripts of unpacked packages would have done."""
    for name in ("passwd", "group"):
        shutil.copy(tree / "usr" / "share" / "base-passwd" / f"{name}.master", tree / "etc" / name)
    (tree / "mnt").mkdir()
