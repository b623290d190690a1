"""What a command line says that its program is to make: its output files, by name."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Sequence

_OUTPUT = frozenset({"-o", "-O", "--output", "--out", "--output-document", "--outfile", "-outfile"})
_OUTPUT_IN_ONE = re.compile(r"(?:--(?:output|out|outfile|output-document)=|of=)(.+)")
_ARCHIVES = re.compile(r"-?[A-Za-z]*c[A-Za-z]*f")  # tar czf NAME, as tar(1) has it
_REDIRECTED = re.compile(r"(?<![0-9&<>])>{1,2}\s*([^\s&;|<>()'\"]+)")
_COMMANDS = re.compile(r"[;&|\n(){}]+")
_LAST_IS_MADE = frozenset({"cp", "mv", "ln", "install", "rsync", "scp", "zip", "clone"})
_ALL_ARE_MADE = frozenset({"tee", "touch", "mkdir", "mkfifo"})
_FETCHING = frozenset({"wget", "curl"})
_MAKERS = _LAST_IS_MADE - {"clone"} | _ALL_ARE_MADE | _FETCHING | {"tar", "git"}
_PREFIX = 12  # words that another program may have before the one that it starts
SHELLS = frozenset({"sh", "bash", "dash", "ash", "ksh", "zsh"})


def products(argv: Sequence[str]) -> Iterator[str]:
    """The last parts of the paths; what is no name of a file may be among them."""
    for path in _paths(argv):
        name = os.path.basename(path.rstrip("/"))
        if len(name) > 1 and path != "/dev/null":
            yield name


def _paths(argv: Sequence[str]) -> Iterator[str]:
    if not argv:
        return
    program = os.path.basename(argv[0])
    for option, value in itertools.pairwise(argv):
        if option in _OUTPUT:
            yield value
        if program in SHELLS and option.startswith("-") and option.endswith("c"):
            yield from _REDIRECTED.findall(value)
            for command in _COMMANDS.split(value):
                yield from _paths([word.strip("'\"") for word in command.split()])
    for word in argv[1:]:
        told = _OUTPUT_IN_ONE.fullmatch(word)
        if told:
            yield told[1]
    argv = _unwrapped(argv)
    program = os.path.basename(argv[0])
    if program == "tar":
        yield from (name for told, name in itertools.pairwise(argv) if _ARCHIVES.fullmatch(told))
    plain = [word for word in argv[1:] if not word.startswith("-")]
    verb = plain[0] if program == "git" and plain else program
    if verb in _LAST_IS_MADE and plain:
        yield plain[-1].removesuffix(".git")
    if program in _ALL_ARE_MADE:
        yield from plain
    if program in _FETCHING:
        yield from (word for word in plain if "://" in word)


def _unwrapped(argv: Sequence[str]) -> Sequence[str]:
    """Without what stands before the program that makes something: nice -n 19 tar czf NAME."""
    at = 0
    for ahead, word in enumerate(argv[1:], 1):
        if ahead - at >= _PREFIX:
            break
        if os.path.basename(word) in _MAKERS:
            at = ahead
    return argv[at:]
