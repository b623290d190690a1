"""The programs on PATH with their versions, and where packages of Python and Node would go."""

from __future__ import annotations

import contextlib
import functools
import json
import locale
import os
import re
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO

from probe.doctor.parallel import at_once
from probe.doctor.section import Learner, Section, fact

# Program: the arguments that make it say its version; none where asking takes too long.
TOOLS: dict[str, tuple[str, ...] | None] = {
    **dict.fromkeys(
        "bash git curl wget python3 node cargo rustc gcc clang make cmake ruby php perl "
        "docker podman gdb strace rg jq tar rsync psql sqlite3 uv".split(),
        ("--version",),
    ),
    **dict.fromkeys(("pip3", "npm", "yarn", "pnpm", "mvn", "gradle", "javac"), None),
    **dict.fromkeys(("sh", "ps", "ip", "ping", "unzip", "sudo", "ssh", "file", "pytest"), None),
    "java": ("-version",),
    "go": ("version",),
}
# Tools that most work in a sandbox takes for granted.
EXPECTED = ("sh", "bash", "git", "curl", "tar", "ps", "python3")
_NUMBER = re.compile(r"\d+(?:\.\d+)+[\w.+-]*")
_PATIENCE_S = 2.0
_OUTPUT_MAX = 4096

_PYTHON = """
import json, os, sys, sysconfig
paths = sysconfig.get_paths()
print(json.dumps({
    "packages": paths["purelib"],
    "managed": os.path.exists(os.path.join(paths["stdlib"], "EXTERNALLY-MANAGED"))
        and sys.prefix == sys.base_prefix,
    "virtual": sys.prefix != sys.base_prefix,
}))
"""


@dataclass
class Tool:
    path: str = fact(0.1, "what PATH finds first")
    version: str | None = fact(
        0.2, "as it says itself; none where it was not asked, or said none", none_is_unknown=True
    )


@dataclass
class Python:
    packages: str = fact(0.1, "where pip would install to")
    writable: bool = fact(0.4, "whether this user may write there")
    managed: bool = fact(0.4, "whether pip refuses there (EXTERNALLY-MANAGED, PEP 668)")
    virtual: bool = fact(0.1, "whether it is a virtual environment")


@dataclass
class Node:
    packages: str = fact(0.1, "where npm install --global would install to")
    writable: bool = fact(0.3, "whether this user may write there")


@dataclass
class Tools(Section):
    path: list[str] = fact(0.2, "directories that programs are looked for in")
    absent_directories: list[str] = fact(0.1, "of those on PATH")
    tools: dict[str, Tool] = fact(0.5, "well-known programs that are there")
    python: Python | None = fact(0.3, "of the python3 on PATH")
    node: Node | None = fact(0.2, "of the node on PATH")
    encoding: str = fact(0.3, "of text, by the locale's variables")
    preload: str | None = fact(0.3, "LD_PRELOAD")


def examine() -> Tools:
    """Runs what it finds, one version question each, without input and for a short time."""
    learner = Learner()
    path = [one or "." for one in os.environ.get("PATH", os.defpath).split(os.pathsep)]
    places = {name: found for name in TOOLS if (found := shutil.which(name))}
    questions = [functools.partial(_version, name, place) for name, place in places.items()]
    versions = at_once(questions, 4, _PATIENCE_S * 5)
    return Tools(
        path=path,
        absent_directories=[one for one in path if not os.path.isdir(one)],
        tools={
            name: Tool(place, version)
            for (name, place), version in zip(places.items(), versions, strict=True)
        },
        python=learner.learn("python", lambda: _python(places.get("python3"))),
        node=_node(places.get("node")),
        encoding=locale.getpreferredencoding(False),
        preload=os.environ.get("LD_PRELOAD"),
        unknown=learner.unknown,
    )


def _version(name: str, place: str) -> str | None:
    arguments = TOOLS[name]
    said = _said([place, *arguments]) if arguments else ""
    number = _NUMBER.search(said)
    return number[0][:40] if number else None


def _said(command: Sequence[str]) -> str:
    """The first of what a program says; empty where it takes too long. It leaves nobody behind."""
    try:
        process, group = _start(command)
    except OSError:
        return ""
    try:
        return _first_of(process.stdout).decode(errors="replace")
    finally:
        process.kill()
        if group:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _first_of(stream: IO[bytes] | None) -> bytes:
    """Until its end, but no more than is worth looking at, and no longer than we wait."""
    assert stream is not None
    end, said = time.monotonic() + _PATIENCE_S, b""
    poll = select.poll()
    poll.register(stream, select.POLLIN)
    with stream:
        while len(said) < _OUTPUT_MAX and poll.poll(max(0.0, end - time.monotonic()) * 1000):
            piece = os.read(stream.fileno(), _OUTPUT_MAX)
            if not piece:
                break
            said += piece
    return said


def _start(command: Sequence[str]) -> tuple[subprocess.Popen[bytes], bool]:
    """The program, and whether it leads a group of its own, which a filter may refuse it."""
    null, pipe = subprocess.DEVNULL, subprocess.PIPE
    try:
        return subprocess.Popen(
            command, stdin=null, stdout=pipe, stderr=subprocess.STDOUT, start_new_session=True
        ), True
    except PermissionError:
        return subprocess.Popen(command, stdin=null, stdout=pipe, stderr=subprocess.STDOUT), False


def _python(place: str | None) -> Python | None:
    if place is None:
        return None
    answer = _said([place, "-I", "-c", _PYTHON])
    if not answer:
        raise ValueError(f"{place} does not answer")
    said = json.loads(answer)
    packages = str(said["packages"])
    return Python(packages, _writable(packages), bool(said["managed"]), bool(said["virtual"]))


def _node(place: str | None) -> Node | None:
    """npm's global prefix is $NPM_CONFIG_PREFIX, else the directory above that of node."""
    if place is None:
        return None
    prefix = os.environ.get("NPM_CONFIG_PREFIX") or os.path.dirname(os.path.dirname(place))
    packages = os.path.join(prefix, "lib", "node_modules")
    return Node(packages, _writable(packages))


def _writable(folder: str) -> bool:
    """There, or where it would have to be made."""
    while not os.path.lexists(folder) and folder not in ("", "/"):
        folder = os.path.dirname(folder)
    return os.access(folder or "/", os.W_OK | os.X_OK)
