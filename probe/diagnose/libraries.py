"""Rules for modules and libraries that an image lacks: what runtimes say of them.

Runtimes list directories instead of looking for one file, so the kernel sees nothing
fail; the words that they print for exactly this are the evidence.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from probe.diagnose.case import Dismissal
from probe.diagnose.story import Story, Suspect
from probe.diagnose.tree import Process
from probe.events import Seccomp

# What is missing, as a noun, and how the runtime says so. Names that begin with a dot or
# a slash are the work's own files.
_SAID = (
    ("Python module", r"ModuleNotFoundError: No module named '(\w+)'"),
    ("Python module", r"(?m)^\S*python[\d.]*: No module named (\w+)$"),
    ("Node package", r"Cannot find (?:module|package) '((?![./])[^']+)'"),
    ("Ruby library", r"cannot load such file -- ((?![./])\S+)"),
    ("Perl module", r"Can't locate (\S+\.pm) in @INC"),
    ("R package", r"there is no package called .(\w[\w.]*)"),
    ("shared library", r"error while loading shared libraries: (\S+): cannot open"),
    ("library", r"(?m)cannot find -l([\w+.-]+)"),
    ("Java class", r"Could not find or load main class (\S+)"),
    ("Lua module", r"module '([\w.]+)' not found:"),
)
_PATTERNS = tuple((noun, re.compile(pattern)) for noun, pattern in _SAID)
# One of these is in each of them; most words hold none, and there may be thousands.
_HINT = re.compile("odule|package|cannot (load|find)|locate|shared libraries|main class")


def suspects(story: Story) -> Iterator[Suspect | Dismissal]:
    for process in story.tree.processes.values():
        if process.exit is None or not process.failed or not process.weight:
            continue
        suspect = _missing(story, process)
        if suspect is not None:
            yield suspect


def _missing(story: Story, process: Process) -> Suspect | None:
    ended = process.exit
    assert ended is not None
    said = story.own_words(process.pid)
    if not _HINT.search(said):
        return None
    found = [(noun, match) for noun, pattern in _PATTERNS for match in pattern.finditer(said)]
    if not found:
        return None
    noun, match = max(found, key=lambda one: one[1].start())
    name = match[1]
    if noun == "Python module" and _is_misspelt(name):
        return None
    return Suspect(
        cause="fs.missing",
        event=ended,
        prior=0.4 if _could_not_look(story, process) else 0.85,
        summary=f"{story.who(ended)} needs the {noun} {name}, which is not installed here",
        advice=f"install {name} in the sandbox image",
        mentions=(name,),
        spellings=(match[0],),
    )


_LOOKING = re.compile(r"getdents|^open|stat|readlink|^read")


def _could_not_look(story: Story, process: Process) -> bool:
    """Reading directories and files was refused to it: it may well be there."""
    return any(
        event.pid == process.pid and _LOOKING.search(event.syscall) for event in story.all(Seccomp)
    )


def _is_misspelt(name: str) -> bool:
    """Nearly the name of a module that every Python has: letters swapped, doubled or left out.

    Between the same ends: ujson and pathlib2 are packages of their own.
    """
    return name not in sys.stdlib_module_names and any(
        name[0] == module[0]
        and (
            sorted(name) == sorted(module)
            or (name[-1] == module[-1] and _one_letter_apart(name, module))
        )
        for module in sys.stdlib_module_names
    )


def _one_letter_apart(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return len(long) == len(short) + 1 and any(
        long[:at] + long[at + 1 :] == short for at in range(len(long))
    )
