"""bcc in a process of its own, which hands over what it compiled and goes.

LLVM takes a hundred MiB, so it must not stay in the probe's memory. What it made lives on in
the descriptors: those of the maps, and those that keep the programs attached.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import importlib.machinery
import importlib.util
import os
import signal
import socket
import sys
import tempfile
from typing import Any

from probe import abi
from probe.engine.errors import EngineError, not_permitted

MAPS = (
    *("configured", "calls", "ring", "unread", "tasks", "fresh_task"),
    *("sockets", "losses", "folds", "tellers"),  # the last is emptied when nobody holds it
)
_PROGRAM = "probe.bcc.c"
# Where Debian has its module; PyPI's package of the same name is another thing altogether.
_PLACES = ["/usr/lib/python3/dist-packages"]
_MEND = "apt-get install python3-bpfcc"
_FOLDERS = ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")
_LIMIT_S = 60
_NUMBERED = ("exit", "exit_group", "execve", "execveat")
_NUMBERED_NATIVE = (
    "brk",
    "socket",
    "getsockopt",
    "close",
    "dup",
    "fcntl",
    "dup2",
    "dup3",
    "prctl",
    "seccomp",
    "chdir",
)
_NONE = 0xFFFF  # no call has this number
_CLONE_NEWNS = 0x00020000
_MS_PRIVATE_RECURSIVE = 1 << 18 | 1 << 14

# In the order of enum teller.
_TELLERS = (
    *("connect", "bind", "exec", "fork", "file", "call", "words", "vector", "transfer"),
    *("transfer_error", "descriptor"),
)

Handed = dict[str, int]


def compiled() -> tuple[Handed, list[int]]:
    """Descriptors of the maps by name, and those that keep the programs attached.

    EngineError where bcc is not installed, or the kernel does not take its programs.
    """
    module = _find()
    ours, theirs = socket.socketpair()
    with ours, theirs, tempfile.TemporaryFile() as said:
        pid = os.fork()
        if pid == 0:
            ours.close()
            _be_compiler(module, theirs, said.fileno())
        theirs.close()
        ours.settimeout(_LIMIT_S)
        try:
            descriptors = _receive(ours)
        except (OSError, ValueError) as error:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise _refusal(said.fileno()) from error
        os.waitpid(pid, 0)
    return dict(zip(MAPS, descriptors, strict=False)), descriptors[len(MAPS) :]


def _find() -> importlib.machinery.ModuleSpec:
    spec = importlib.machinery.PathFinder.find_spec("bcc", _PLACES)
    if spec is None or spec.loader is None:
        raise EngineError("bcc is not installed", _MEND)
    return spec


def _receive(ours: socket.socket) -> list[int]:
    """ValueError where the compiler went without a word."""
    size = array.array("i").itemsize
    message, ancillary, _, _ = ours.recvmsg(1, socket.CMSG_SPACE(64 * size))
    if not message:
        raise ValueError("the compiler has ended")
    descriptors = array.array("i")
    for _level, _kind, data in ancillary:
        descriptors.frombytes(data[: len(data) - len(data) % size])
    return list(descriptors)


def _refusal(said: int) -> EngineError:
    os.lseek(said, 0, os.SEEK_SET)
    lines = os.read(said, 1 << 20).decode(errors="replace").splitlines()
    telling = [line.strip() for line in lines if "error:" in line or "Error" in line]
    words = (telling or lines[-1:] or ["it said nothing"])[0]
    if "Operation not permitted" in "".join(lines):
        return not_permitted()
    return EngineError(f"bcc cannot compile and attach its programs: {words}")


def _be_compiler(spec: importlib.machinery.ModuleSpec, theirs: socket.socket, said: int) -> None:
    """In the child; never returns."""
    try:
        os.dup2(said, 1)
        os.dup2(said, 2)
        _show_tracepoints()
        bpf = _compile(spec)
        maps = [bpf[name].map_fd for name in MAPS]
        kept = [*bpf.tracepoint_fds.values(), *bpf.raw_tracepoint_fds.values()]
        theirs.sendmsg(
            [b"m"],
            [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [*maps, *kept]))],
        )
    except BaseException as error:
        os.write(2, f"\n{type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(0)


def _show_tracepoints() -> None:
    """Mounts tracefs where this process alone sees it, unless it is there already."""
    if any(os.path.exists(f"{folder}/events") for folder in _FOLDERS):
        return
    libc = ctypes.CDLL(None, use_errno=True)
    _check(libc.unshare(_CLONE_NEWNS))
    _check(libc.mount(b"none", b"/", None, _MS_PRIVATE_RECURSIVE, None))
    _check(libc.mount(b"none", _FOLDERS[0].encode(), b"tracefs", 0, None))


def _check(result: int) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"tracefs cannot be mounted: {os.strerror(code)}")


def _compile(spec: importlib.machinery.ModuleSpec) -> Any:
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["bcc"] = module
    spec.loader.exec_module(module)
    folder = _sources()
    os.environ["BCC_KERNEL_SOURCE"] = os.path.join(folder, "bcc", "stubs")
    with open(os.path.join(folder, "bcc", _PROGRAM), encoding="utf-8") as file:
        text = file.read()
    flags = [f"-I{folder}", "-DBCC", *_numbers()]
    bpf = module.BPF(text=text, cflags=flags)
    for place, name in enumerate(_TELLERS):
        program = bpf.load_func(f"tell_{name}", module.BPF.RAW_TRACEPOINT)
        bpf["tellers"][ctypes.c_int(place)] = ctypes.c_int(program.fd)
    return bpf


def _sources() -> str:
    """Beside this package in a wheel; in a work tree where they are written."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for folder in (os.path.join(here, "sources"), os.path.join(here, "..", "..", "bpf")):
        if os.path.exists(os.path.join(folder, "bcc", _PROGRAM)):
            return os.path.realpath(folder)
    raise FileNotFoundError(f"no {_PROGRAM} beside {here}")


def _numbers() -> list[str]:
    machine = abi.machine()
    native, compat = (abi.syscall_numbers(of) for of in (machine, abi.COMPAT[machine]))
    defined = {f"NR_{name.upper()}": native.get(name, _NONE) for name in _NUMBERED_NATIVE}
    for name in _NUMBERED:
        defined[f"NR_{name.upper()}"] = native.get(name, _NONE)
        defined[f"NR_COMPAT_{name.upper()}"] = compat.get(name, _NONE)
    return [f"-D{name}={number}" for name, number in defined.items()]
