"""A workflow, and the thousand of them that a seed gives."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from collector.campaign.template import Instance, Template, load, shared

CODE = (
    "lifecycle",  # of a sandbox under stress: many short processes, files, signals, restarts
    "files",  # upload, download and file-system work
    "performance",
    "development",  # in Python, Java, C and node; packages and binaries in the right place
    "data",  # analysis and conversion
    "learning",  # training end to end
    "documents",  # and PDF reports
    "web",  # client and server
    "databases",
    "processes",  # and system work
)
BROWSER = ("tabs", "scraping", "screenshots", "downloads", "forms", "login")
_BROWSER_SHARE = 0.2


@dataclass(frozen=True)
class Workflow:
    """Runs in any directory of its own that holds its files and nothing else."""

    id: str  # the same for a seed
    application: str  # code or browser
    domain: str
    language: str
    files: Mapping[str, str]  # relative path: text
    command: tuple[str, ...]  # exits 0 only if its own check of its result holds
    needs: frozenset[str]  # of the vocabulary in needs.py
    bug: bool = False  # a genuine fault of its own: it fails in every sandbox

    def lay(self, folder: Path) -> None:
        """Writes its files into its working directory."""
        for name, text in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="")


def corpus(seed: int = 0, count: int = 1000) -> list[Workflow]:
    """So many workflows, spread evenly over the domains and their templates."""
    browser = round(count * _BROWSER_SHARE)
    found: list[Workflow] = []
    for application, domains, total in (
        ("code", CODE, count - browser),
        ("browser", BROWSER, browser),
    ):
        for domain, size in zip(domains, _shares(total, len(domains)), strict=True):
            found += _of_domain(application, domain, seed, size)
    return found


def _shares(total: int, parts: int) -> list[int]:
    """The total in parts that differ by one at most."""
    return [total // parts + (index < total % parts) for index in range(parts)]


def _of_domain(application: str, domain: str, seed: int, size: int) -> Iterator[Workflow]:
    templates: Sequence[Template] = load(domain)
    for template, count in zip(templates, _shares(size, len(templates)), strict=True):
        # A string, whose hash does not depend on the process.
        rng = random.Random(f"{seed}/{domain}/{template.name}")
        for number, instance in enumerate(template.instances(rng, count), start=1):
            yield _workflow(application, domain, template, number, instance)


def _workflow(
    application: str, domain: str, template: Template, number: int, instance: Instance
) -> Workflow:
    return Workflow(
        id=f"{domain}/{template.name}-{number:03}",
        application=application,
        domain=domain,
        language=template.language,
        files={**{name: shared(name) for name in template.include}, **instance.files},
        command=instance.command,
        needs=instance.needs,
        bug=instance.bug,
    )
