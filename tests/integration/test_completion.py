"""Completion in the shells themselves: what they offer is what the command line takes."""

from __future__ import annotations

import os
import pty
import select
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import BIN, wait_for

SHELLS = ("bash", "zsh", "fish")


def source(command: str, shell: str) -> str:
    done = subprocess.run(
        [BIN / command, "completion", shell], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout


def in_bash(command: str, line: str, folder: Path) -> set[str]:
    words = line.split(" ")
    script = (
        f"{source(command, 'bash')}\nCOMP_WORDS=({shlex.join(words)})\n"
        f"COMP_CWORD={len(words) - 1}\n_{command}\n"
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", script], capture_output=True, text=True, check=True, cwd=folder
    )
    assert done.stderr == ""
    return set(done.stdout.split())


def in_fish(command: str, line: str, folder: Path) -> set[str]:
    script = f"{source(command, 'fish')}\ncomplete -C {shlex.quote(line)}"
    done = subprocess.run(
        ["fish", "--no-config", "-c", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
        env={**os.environ, "HOME": str(folder)},
    )
    assert done.stderr == ""
    return {one.split("\t")[0] for one in done.stdout.splitlines()}


# Notes what the completion system is given, and when it has finished.
ZSH = r"""
autoload -U compinit; compinit -u -D
source ./completion
compadd() {
    local -a matching
    if [[ " $* " != *" -"[ADO]" "* ]]; then
        builtin compadd -A matching "$@"
        print -rl -- $matching >> offered
    fi
    builtin compadd "$@"
}
finished() { print end >> offered }
comppostfuncs=(finished)
PROMPT=rea""dy  # shown when the terminal is set to take keys one by one
"""


def in_zsh(command: str, line: str, folder: Path) -> set[str]:
    """What zsh is given to list, on a terminal, where the end of the line is asked for."""
    (folder / "completion").write_text(source(command, "zsh"))
    (folder / "setup").write_text(ZSH)
    offered = folder / "offered"
    offered.write_text("")
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.environ.update(TERM="dumb", HOME=str(folder))
        os.execvp("zsh", ["zsh", "-f", "-i"])
    said = b""

    def until(condition: Callable[[], bool]) -> bool:
        nonlocal said
        if select.select([terminal], [], [], 0.05)[0]:
            said += os.read(terminal, 4096)
        return condition()

    try:
        os.write(terminal, b"source ./setup\n")
        wait_for(lambda: until(lambda: b"ready" in said))
        os.write(terminal, line.encode() + b"\x04")
        wait_for(lambda: until(lambda: "end" in offered.read_text().split()))
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)
    return set(offered.read_text().split()) - {"end"}


IN = {"bash": in_bash, "zsh": in_zsh, "fish": in_fish}


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if shutil.which(name) is None:
        pytest.skip(f"no {name} here")
    return name


@pytest.mark.parametrize(
    ("command", "line", "offered", "not_offered"),
    [
        ("probe", "probe ", {"run", "doctor", "agent", "completion"}, {"serve"}),
        ("probe", "probe run --", {"--test", "--json", "--explain"}, {"--reach"}),
        ("probe", "probe run --explain ", {"auto", "always", "never"}, {"--test"}),
        ("probe", "probe doctor --diff ", set(), {"--json", "auto"}),
        ("probe", "probe completion ", {"bash", "zsh", "fish"}, {"run"}),
        ("collector", "collector ", {"serve", "import", "explain"}, {"doctor"}),
        ("collector", "collector explain --", {"--run", "--json", "--db"}, {"--listen"}),
        ("collector", "collector export --format ", {"ctrf", "otlp", "github"}, {"--run"}),
    ],
)
def test_offers(
    shell: str, command: str, line: str, offered: set[str], not_offered: set[str], tmp_path: Path
) -> None:
    found = IN[shell](command, line, tmp_path)
    assert offered <= found
    assert not not_offered & found - set(line.split())


@pytest.mark.parametrize("command", ["probe", "collector"])
def test_the_script_is_one_that_the_shell_can_read(
    shell: str, command: str, tmp_path: Path
) -> None:
    path = tmp_path / "script"
    path.write_text(source(command, shell))
    done = subprocess.run([shell, "-n", path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "arguments",
    [("probe", one) for one in ("run", "agent", "doctor", "completion")]
    + [
        ("collector", one)
        for one in ("serve", "import", "explain", "report", "export", "completion")
    ],
)
def test_help_has_examples_and_fits_eighty_columns(arguments: tuple[str, str]) -> None:
    done = subprocess.run(
        [BIN / arguments[0], arguments[1], "--help"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "80"},
    )
    assert "examples:\n  " in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_a_shell_that_is_not_known() -> None:
    for command in ("probe", "collector"):
        done = subprocess.run(
            [BIN / command, "completion", "tcsh"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 2 and "tcsh" in done.stderr and done.stdout == ""
