"""Reads the gallery and runs one of its scenarios under watch."""

from __future__ import annotations

import dataclasses
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

INTERPRETERS = {
    "bash": ["bash", "-c"],
    "python": ["/usr/bin/python3", "-c"],
    "node": ["node", "-e"],
    "perl": ["perl", "-e"],
    "php": ["php", "-r"],
    "ruby": ["ruby", "-e"],
}
_COMMANDS = {"bubblewrap": "bwrap"}  # of drivers that are not called as their command is
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PROBE = Path(sys.executable).parent / "probe"
TIMEOUT_S = 60
_NUMBERS = itertools.count()
_FILES = (
    "gallery adversarial workflows examined invented third fourth fifth sixth seventh eighth "
    "ninth tenth eleventh twelfth thirteenth fourteenth fifteenth sixteenth "
    "services containers"
)
# The first one is part of every test run.
GALLERIES = tuple(Path(__file__).parent / f"{name}.toml" for name in _FILES.split())
RIDDLES = Path(__file__).with_name("riddles.toml")
NAMESERVER = ("/usr/bin/python3", str(Path(__file__).parent / "nameserver.py"))


@dataclass(frozen=True)
class Scenario:
    name: str
    cause: str
    run: str = ""
    accept: tuple[str, ...] = ()  # other causes that may be named as well
    lang: str = "bash"
    sandbox: Profile | None = None
    needs: tuple[str, ...] = ()
    demo: bool = False
    setup: str | None = None  # what is done before, outside of the sandbox
    text: str | None = None  # of the file `work`, which the interpreter is given instead of `run`
    hard: bool = False  # known to be judged wrongly, or rightly by a hair
    why: str | None = None

    def missing(self) -> list[str]:
        driver = self.sandbox.driver if self.sandbox else "bubblewrap"
        needs = (*self.needs, INTERPRETERS[self.lang][0], _COMMANDS.get(driver, driver))
        return [program for program in needs if shutil.which(program, path=PATH) is None]


def load(path: Path) -> list[Scenario]:
    entries = tomllib.loads(path.read_text())["scenario"]
    return [from_entry(dict(entry)) for entry in entries]


def from_entry(entry: dict[str, Any]) -> Scenario:
    """Of what TOML made of a table."""
    sandbox = entry.pop("sandbox", None)
    if sandbox and sandbox.get("nameserver"):
        sandbox["nameserver"] = NAMESERVER
    needs, accept = tuple(entry.pop("needs", ())), tuple(entry.pop("accept", ()))
    return Scenario(
        sandbox=Profile(**sandbox) if sandbox else None, needs=needs, accept=accept, **entry
    )


@dataclass(frozen=True)
class Riddle:
    """Two works that look the same from outside of them, though they fail for different causes.

    In both, the sandbox refuses the same thing, and the same is said of it. `followed` fails
    through that; `ignored` goes on, and comes to the same end by itself. Only the text of the
    program tells which, so that at most one of the two can be judged rightly.
    """

    name: str
    followed: Scenario
    ignored: Scenario

    @property
    def both(self) -> tuple[Scenario, Scenario]:
        return self.followed, self.ignored


def load_riddles() -> list[Riddle]:
    return [_riddle(dict(entry)) for entry in tomllib.loads(RIDDLES.read_text())["riddle"]]


def _riddle(entry: dict[str, Any]) -> Riddle:
    name, cause, own = entry.pop("name"), entry.pop("cause"), entry.pop("own", "workload.failed")
    followed, ignored = entry.pop("followed"), entry.pop("ignored")
    return Riddle(
        name,
        from_entry({**entry, "name": f"{name}, followed", "cause": cause, "text": followed}),
        from_entry({**entry, "name": f"{name}, ignored", "cause": own, "text": ignored}),
    )


def watch(scenario: Scenario, folder: Path, *options: str) -> dict[str, Any]:
    """Runs the scenario under `probe run`; its report."""
    folder.mkdir(exist_ok=True)
    values = {"port": closed_port(), "dir": folder}
    prepare(scenario, values)
    argv = argv_of(scenario, values)
    report = folder.parent / f"{folder.name}.json"
    name = f"scenario-{os.getpid()}-{next(_NUMBERS)}"
    with Sandbox(profile_of(scenario, values), name) as sandbox:
        command = [str(PROBE), "run", "--test", scenario.name, "--json", str(report), *options]
        command += ["--explain", "never", "--", *sandbox.command(argv)]
        # No pipes, which what a scenario leaves running would hold open.
        with report.with_suffix(".out").open("wb") as output:
            subprocess.run(
                command,
                env=environment(),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=TIMEOUT_S,
                check=False,
            )
    content: dict[str, Any] = json.loads(report.read_text())
    return content


def environment() -> dict[str, str]:
    """Without what a developer has on the PATH: it differs from machine to machine."""
    return {**os.environ, "PATH": PATH}


Values = dict[str, Any]


def argv_of(scenario: Scenario, values: Values) -> list[str]:
    """What is run in the sandbox."""
    interpreter = INTERPRETERS[scenario.lang]
    if scenario.text is not None:
        return [interpreter[0], "work"]
    return [*interpreter, filled(scenario.run, values)]


def prepare(scenario: Scenario, values: Values) -> None:
    if scenario.text is not None:
        (values["dir"] / "work").write_text(filled(scenario.text, values))
    if scenario.setup is not None:
        script = ["bash", "-ec", filled(scenario.setup, values)]
        subprocess.run(script, cwd=values["dir"], stdin=subprocess.DEVNULL, check=True)


def profile_of(scenario: Scenario, values: Values) -> Profile:
    """The scenario's sandbox, with the values in its rules and paths."""
    profile = scenario.sandbox or Profile()
    firewall = filled(profile.firewall, values) if profile.firewall is not None else None
    return dataclasses.replace(
        profile,
        firewall=firewall,
        shared=[] if profile.driver == "bubblewrap" else [str(values["dir"])],
        read_only=[filled(path, values) for path in profile.read_only],
        tmpfs={filled(path, values): size for path, size in profile.tmpfs.items()},
        landlock=profile.landlock and [filled(path, values) for path in profile.landlock],
    )


def filled(template: str, values: Values) -> str:
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
