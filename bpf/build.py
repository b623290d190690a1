"""Compiles the CO-RE objects: `python bpf/build.py` writes them to probe/engine/objects."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGETS = {"x86_64": "x86", "aarch64": "arm64"}
# What bpf/drift.h tells apart, by the end of the object's name.
VARIANTS = {"": (), "-legacy": ("-DLEGACY",)}
FLAGS = ("-g", "-O2", "-Wall", "-Werror", "-target", "bpf", "-mcpu=v3")


def object_path(machine: str, variant: str) -> Path:
    return ROOT / "probe" / "engine" / "objects" / f"{machine}{variant}.o"


def is_current(target: Path) -> bool:
    sources = max(path.stat().st_mtime for path in (ROOT / "bpf").iterdir())
    return target.exists() and target.stat().st_mtime > sources


def compile_object(machine: str, variant: str) -> None:
    target = object_path(machine, variant)
    target.parent.mkdir(parents=True, exist_ok=True)
    source = ROOT / "bpf" / "probe.bpf.c"
    defines = (f"-D__TARGET_ARCH_{TARGETS[machine]}", *VARIANTS[variant])
    flags = (*FLAGS, *defines, f"-ffile-prefix-map={ROOT}=.")
    subprocess.run(["clang", *flags, "-c", str(source), "-o", str(target)], check=True)
    subprocess.run(["llvm-strip", "--strip-debug", str(target)], check=True)


def main() -> None:
    objects = itertools.product(TARGETS, VARIANTS)
    stale = [names for names in objects if not is_current(object_path(*names))]
    missing = [tool for tool in ("clang", "llvm-strip") if shutil.which(tool) is None]
    if stale and missing:
        sys.exit(f"bpf: {' and '.join(missing)} missing: apt-get install clang llvm libbpf-dev")
    for machine, variant in stale:
        compile_object(machine, variant)


if __name__ == "__main__":
    main()
