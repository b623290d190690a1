"""Templates of workflows: programs as people read them, and what varies from one to the next.

A template is a TOML file in templates/<domain>/:

    language  what the program is written in
    command   what is run in the directory of the files
    needs     what it needs of the sandbox (needs.py)
    include   files of templates/shared that it gets as well
    [vary]    name = [values]; each instance takes one of each
    [data]    name = {kind = ..., ...}; data made for each instance, see data.py
    [files]   name = text
    [[bugs]]  file, find, replace: an edit that makes one instance fail by itself

In texts, file names, the command and the needs, @name@ stands for a value and @name.part@ for a
part of made data. A value of [vary] may be a table, whose entries are parts too, and may name
others.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from collector.campaign import data, toml

_PLACE = re.compile(r"@([a-z_]+(?:\.[a-z_]+)?)@")
_FIRST_BUG, _BUG_DISTANCE = 4, 5  # numbers of the instances that are spoilt
_TRIES = 50  # to find values that no instance has had


@dataclass(frozen=True)
class Bug:
    """An edit of a program that was right."""

    file: str
    find: str
    replace: str


@dataclass(frozen=True)
class Instance:
    files: Mapping[str, str]
    command: tuple[str, ...]
    needs: frozenset[str]
    bug: bool


@dataclass(frozen=True)
class Template:
    name: str
    language: str
    command: Sequence[str]
    files: Mapping[str, str]
    needs: Sequence[str] = ()
    include: Sequence[str] = ()
    vary: Mapping[str, Sequence[Any]] | None = None
    data: Mapping[str, Mapping[str, Any]] | None = None
    bugs: Sequence[Bug] = ()

    def instances(self, rng: random.Random, count: int) -> Iterator[Instance]:
        spoilt = dict(zip(range(_FIRST_BUG, count + 1, _BUG_DISTANCE), self.bugs, strict=False))
        for number, values in enumerate(self._values(rng, count), start=1):
            yield self._instance(values, spoilt.get(number))

    def _values(self, rng: random.Random, count: int) -> Iterator[dict[str, str]]:
        """Of one instance each; the choices are repeated only when they are used up."""
        seen: set[str] = set()
        for _ in range(count):
            for _ in range(_TRIES):
                chosen = {name: rng.choice(among) for name, among in (self.vary or {}).items()}
                if repr(chosen) not in seen:
                    break
            seen.add(repr(chosen))
            values = dict(_flat(chosen))
            values["seed"] = str(rng.randrange(1000, 1_000_000))
            for name, wanted in (self.data or {}).items():
                settings = {key: _filled_setting(value, values) for key, value in wanted.items()}
                values.update(_flat({name: data.make(rng, **settings)}))
            yield {name: filled(value, values) for name, value in values.items()}

    def _instance(self, values: Mapping[str, str], bug: Bug | None) -> Instance:
        texts = dict(self.files)
        if bug is not None:
            assert bug.find in texts[bug.file], f"{self.name}: no {bug.find!r} in {bug.file}"
            texts[bug.file] = texts[bug.file].replace(bug.find, bug.replace)
        return Instance(
            files={filled(name, values): filled(text, values) for name, text in texts.items()},
            command=tuple(filled(word, values) for word in self.command),
            needs=frozenset(filled(need, values) for need in self.needs),
            bug=bug is not None,
        )


def filled(text: str, values: Mapping[str, str]) -> str:
    """With values in their places. KeyError where there is none."""
    return _PLACE.sub(lambda place: values[place[1]], text)


def _filled_setting(value: Any, values: Mapping[str, str]) -> Any:
    return filled(value, values) if isinstance(value, str) else value


def _flat(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}.{part}", str(within)) for part, within in value.items())
        else:
            yield name, str(value)


@functools.cache
def load(domain: str) -> list[Template]:
    """All templates of a domain, by name."""
    folder = resources.files(__package__) / "templates" / domain
    files = sorted((file for file in folder.iterdir()), key=lambda file: file.name)
    return [
        _template(file.name.removesuffix(".toml"), toml.read(file.read_text(encoding="utf-8")))
        for file in files
    ]


def _template(name: str, content: Mapping[str, Any]) -> Template:
    bugs = tuple(Bug(**bug) for bug in content.get("bugs", ()))
    return Template(name=name, **{**content, "bugs": bugs})


@functools.cache
def shared(name: str) -> str:
    """A file that several templates include; a text here, for nothing of ours imports it."""
    folder = resources.files(__package__) / "templates" / "shared"
    return (folder / f"{name}.txt").read_text(encoding="utf-8")
