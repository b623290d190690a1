"""The machines that are emulated, and how programs for each come about.

What is for another machine than this one is never run here: packages are unpacked, not
installed, so no emulation of user programs (binfmt_misc) has to be set up.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """One architecture, by Debian's name."""

    name: str
    emulator: tuple[str, ...]  # the command, up to what says which processor
    console: str
    compiler: str
    compat_compiler: str  # of the program that makes calls of the 32-bit table
    wheels: str  # what pip calls it
    native: bool = False
    engines: tuple[str, ...] = ("core",)  # bcc's LLVM takes minutes on an emulated Arm

    def platforms(self) -> list[str]:
        return [f"{libc}_{self.wheels}" for libc in _LIBCS]


_LIBCS = ("manylinux_2_17", "manylinux2014", "manylinux_2_28")

AMD64 = Machine(
    "amd64",
    ("qemu-system-x86_64", "-cpu", "max"),
    "ttyS0",
    "cc",
    "cc",
    "x86_64",
    native=True,
    engines=("core", "bcc"),
)
# A processor without pointer authentication, which is dear to emulate (QEMU, Arm CPU Features).
ARM64 = Machine(
    "arm64",
    ("qemu-system-aarch64", "-M", "virt", "-cpu", "cortex-a72"),
    "ttyAMA0",
    "aarch64-linux-gnu-gcc",
    "arm-linux-gnueabihf-gcc",
    "aarch64",
)
