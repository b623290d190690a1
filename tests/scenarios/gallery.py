"""Reads the gallery and runs one of its scenarios under watch."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collector.sandbox import Profile, Sandbox

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

INTERPRETERS = {"bash": ["bash", "-c"], "python": ["/usr/bin/python3", "-c"]}
PROBE = Path(sys.executable).parent / "probe"
TIMEOUT_S = 60
_NUMBERS = itertools.count()
NAMESERVER = ("/usr/bin/python3", str(Path(__file__).parent / "nameserver.py"))


@dataclass(frozen=True)
class Scenario:
    name: str
    run: str
    cause: str
    lang: str = "bash"
    sandbox: Profile | None = None
    needs: tuple[str, ...] = ()
    demo: bool = False

    def missing(self) -> list[str]:
        return [program for program in self.needs if shutil.which(program) is None]


def load(path: Path) -> list[Scenario]:
    entries = tomllib.loads(path.read_text())["scenario"]
    return [_scenario(dict(entry)) for entry in entries]


def _scenario(entry: dict[str, Any]) -> Scenario:
    sandbox = entry.pop("sandbox", None)
    if sandbox and sandbox.get("nameserver"):
        sandbox["nameserver"] = NAMESERVER
    needs = tuple(entry.pop("needs", ()))
    return Scenario(sandbox=Profile(**sandbox) if sandbox else None, needs=needs, **entry)


def watch(scenario: Scenario, folder: Path, *options: str) -> dict[str, Any]:
    """Runs the scenario under `probe run`; its report."""
    folder.mkdir(exist_ok=True)
    values = {"port": closed_port(), "dir": folder}
    argv = [*INTERPRETERS[scenario.lang], filled(scenario.run, values)]
    profile = scenario.sandbox or Profile()
    if profile.firewall is not None:
        profile = Profile(**{**vars(profile), "firewall": filled(profile.firewall, values)})
    report = folder.parent / f"{folder.name}.json"
    with Sandbox(profile, f"scenario-{os.getpid()}-{next(_NUMBERS)}") as sandbox:
        command = [str(PROBE), "run", "--test", scenario.name, "--json", str(report), *options]
        command += ["--explain", "never", "--", *sandbox.command(argv)]
        # Not captured: what a scenario leaves running would hold the pipes open.
        quiet = subprocess.DEVNULL
        subprocess.run(command, stdout=quiet, stderr=quiet, timeout=TIMEOUT_S, check=False)
    content: dict[str, Any] = json.loads(report.read_text())
    return content


def filled(template: str, values: dict[str, Any]) -> str:
    """Puts values in; braces that are not placeholders may be doubled or stand alone."""
    for name, value in values.items():
        template = template.replace("{" + name + "}", str(value))
    return template.replace("{{", "{").replace("}}", "}")


def closed_port() -> int:
    """A loopback port that was free a moment ago and belongs to nobody."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def cause(report: dict[str, Any]) -> str:
    return report["verdict"]["cause"] if report["verdict"] else "none"
