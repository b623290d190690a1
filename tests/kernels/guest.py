"""A virtual machine that boots a kernel, does one job, and hands back the files it left.

By emulation alone (QEMU's TCG): there is no KVM where this runs.
"""

from __future__ import annotations

import io
import lzma
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from debian import PYTHON, Kernel, cache, root_tree
from machine import Machine

HERE = Path(__file__).parent
REPOSITORY = HERE.parent.parent
PROGRAMS = REPOSITORY / "tests" / "integration" / "programs"
VENV = "/opt/probe"
SOURCE = "/opt/source"
# What the tests need in the guest besides the probe itself.
TEST_PACKAGES = ("pytest", "pytest-timeout", "jsonschema", "hypothesis", "psycopg[binary]")
PIP = (sys.executable, "-m", "pip", "-q", "--disable-pip-version-check")
_DRIVERS = ("virtio_pci", "virtio_blk")
_EXCHANGE_BYTES = 32 << 20  # the disk that brings the job and takes the results


def root_image(machine: Machine, folder: Path) -> Path:
    """The root file system with the wheel, the tests and their programs, as a disk."""
    tree = root_tree(machine)
    run(*PIP, "wheel", "--no-deps", "-w", folder, REPOSITORY)
    wheel = next(folder.glob("*.whl"))
    if machine.native:
        _install_wheel(tree, wheel, machine)
    else:
        _unpack_wheel(tree, wheel, machine)
    _install_tests(tree, machine)
    shutil.copy(HERE / "guest", tree / "sbin" / "guest")
    (tree / "usr" / "lib" / "modules").mkdir(exist_ok=True)
    return disk(tree, folder / f"root-{machine.name}.img")


def _foreign(machine: Machine) -> list[object]:
    """What pip of this machine must be told to take packages for the guest's Python."""
    platforms = [f"--platform={platform}" for platform in machine.platforms()]
    return [
        *(*platforms, "--only-binary=:all:", f"--python-version={PYTHON}"),
        *("-c", REPOSITORY / "requirements.lock"),
    ]


def _install_wheel(tree: Path, wheel: Path, machine: Machine) -> None:
    """pip of this machine downloads, pip of the tree installs: that one needs no network."""
    wheels = tree / "opt" / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    run(*PIP, "download", *_foreign(machine), "-d", wheels, wheel, *TEST_PACKAGES)
    if not (tree / VENV[1:]).exists():
        run("chroot", tree, "python3", "-m", "venv", VENV)
    install = [f"{VENV}/bin/pip", "-q", "--disable-pip-version-check", "install", "--no-index"]
    install += ["--find-links=/opt/wheels"]
    run("chroot", tree, *install, *TEST_PACKAGES, "sandbox-probe")
    run("chroot", tree, *install, "--no-deps", "--force-reinstall", "sandbox-probe")
    shutil.rmtree(wheels)


def _unpack_wheel(tree: Path, wheel: Path, machine: Machine) -> None:
    """pip of this machine does it all: that of the tree cannot run here."""
    venv = tree / VENV[1:]
    shutil.rmtree(venv, ignore_errors=True)
    packages = venv / "lib" / f"python{PYTHON}" / "site-packages"
    run(*PIP, "install", "--target", packages, *_foreign(machine), wheel, *TEST_PACKAGES)
    (venv / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (packages / "bin").rename(venv / "bin")
    for script in (venv / "bin").iterdir():
        _, _, rest = script.read_text().partition("\n")
        script.write_text(f"#!{VENV}/bin/python\n{rest}")
    (venv / "bin" / "python").symlink_to("/usr/bin/python3")


def _install_tests(tree: Path, machine: Machine) -> None:
    source = tree / SOURCE[1:]
    shutil.rmtree(source, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(REPOSITORY / "tests", source / "tests", ignore=ignored)
    shutil.copy(REPOSITORY / "pyproject.toml", source)
    programs = source / "programs"
    programs.mkdir()
    for path in (*PROGRAMS.glob("*.c"), REPOSITORY / "bench" / "storm.c"):
        if not path.name.endswith(".bpf.c"):
            compiler = machine.compat_compiler if path.stem == "compat" else machine.compiler
            run(compiler, "-static", "-pthread", "-o", programs / path.stem, path)


def disk(tree: Path, image: Path) -> Path:
    """An ext4 file system with the contents of a folder and some room."""
    used = int(run("du", "-sm", tree).split()[0])
    image.unlink(missing_ok=True)
    run("mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-d", tree, image, f"{used + 256}M")
    return image


def ram_disk(kernel: Kernel, folder: Path) -> Path:
    """busybox, the drivers of the disks, and init."""
    tree = folder / "initrd"
    for name in ("bin", "dev", "proc", "root", "modules"):
        (tree / name).mkdir(parents=True, exist_ok=True)
    busybox = Path(shutil.which("busybox") or "/bin/busybox")
    if not kernel.machine.native:
        busybox = root_tree(kernel.machine) / "bin" / "busybox"
    shutil.copy(busybox, tree / "bin" / "busybox")
    for applet in ("sh", "mount", "umount", "insmod", "switch_root"):
        (tree / "bin" / applet).symlink_to("busybox")
    for number, module in enumerate(_in_order(kernel.modules(), _DRIVERS)):
        raw = module.read_bytes()
        plain = lzma.decompress(raw) if module.suffix == ".xz" else raw
        (tree / "modules" / f"{number:02}").write_bytes(plain)
    shutil.copy(HERE / "init", tree / "init")
    names = "\n".join(str(path.relative_to(tree)) for path in sorted(tree.rglob("*")))
    image = folder / "initrd.img"
    with image.open("wb") as file:
        packer = ["cpio", "-o", "-H", "newc", "--quiet", "-R", "0:0"]
        subprocess.run(packer, cwd=tree, input=names.encode(), stdout=file, check=True)
    return image


def _in_order(modules: Path, names: tuple[str, ...]) -> list[Path]:
    """The modules, each after those it needs; without those that are built in (modules.dep(5))."""
    needs: dict[str, list[str]] = {}
    for line in (modules / "modules.dep").read_text().splitlines():
        path, _, others = line.partition(":")
        needs[Path(path).name.partition(".")[0]] = [*reversed(others.split()), path]
    paths = [path for name in names for path in needs.get(name, [])]
    return [modules / path for path in dict.fromkeys(paths)]


def boot(kernel: Kernel, root: Path, job: str, folder: Path, limit_s: float) -> dict[str, bytes]:
    """Runs `job`, a shell script, as root; the files that it left in /tmp/out.

    RuntimeError, with the end of the console, where the guest did not come to its end:
    QEMU's own exit status is 0 after a panic too.
    """
    modules = cache() / "kernels" / f"{kernel.name}.img"
    if not modules.exists():
        disk(kernel.modules().parent, modules)
    exchange, console = folder / "exchange", folder / "console"
    with exchange.open("wb") as file:
        file.write(job.encode())
        file.truncate(_EXCHANGE_BYTES)
    command = [*kernel.machine.emulator, "-nodefaults", "-no-reboot", "-display", "none"]
    # With several threads of emulation kernels panic now and then.
    command += ["-accel", "tcg,thread=single", "-smp", "1", "-m", "2048"]
    command += ["-serial", f"file:{console}", "-kernel", str(kernel.image())]
    command += ["-initrd", str(ram_disk(kernel, folder))]
    # Without ACPI: its interpreter has time limits that an emulation on a busy machine exceeds.
    words = f"console={kernel.machine.console} quiet panic=-1 mitigations=off acpi=off"
    command += ["-append", words]
    for image, kept in ((root, False), (modules, False), (exchange, True)):
        options = f"file={image},format=raw,if=virtio,snapshot={'off' if kept else 'on'}"
        command += ["-drive", options]
    try:
        subprocess.run(command, timeout=limit_s, check=True, capture_output=True, text=True)
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
        raise RuntimeError(f"{error} {error.stderr or ''}\n{_end(console)}") from error
    if "guest: done" not in console.read_text(errors="replace"):
        raise RuntimeError(f"the guest did not finish:\n{_end(console)}")
    with tarfile.open(fileobj=io.BytesIO(exchange.read_bytes())) as archive:
        files = [member for member in archive if member.isfile()]
        return {
            member.name.removeprefix("./"): reader.read()
            for member in files
            if (reader := archive.extractfile(member))
        }


def _end(console: Path) -> str:
    return console.read_text(errors="replace")[-4000:] if console.exists() else ""


def run(*command: object) -> str:
    """What it printed; RuntimeError with its words where it failed."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stdout}{done.stderr}")
    return done.stdout
