"""Shell completion, generated from the definition of a command line (argparse)."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Option:
    flags: tuple[str, ...]
    help: str
    takes: str = ""  # what its value is: empty for none, else the metavar
    choices: tuple[str, ...] = ()

    @property
    def takes_file(self) -> bool:
        return self.takes == "FILE"


@dataclass(frozen=True)
class Command:
    name: str
    help: str
    options: list[Option]
    takes: str = ""  # the metavar of what may follow
    choices: tuple[str, ...] = ()
    commands: list[Command] = field(default_factory=list)


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """What `shell` (one of SHELLS) is to source to complete the parser's command line."""
    return SHELLS[shell](_described(parser, parser.prog, ""))


def _described(parser: argparse.ArgumentParser, name: str, summary: str) -> Command:
    options: list[Option] = []
    commands: list[Command] = []
    takes, choices = "", tuple[str, ...]()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            commands = [
                _described(one, inner, helps.get(inner, ""))
                for inner, one in action.choices.items()
            ]
        elif action.option_strings:
            options.append(_option(action))
        else:
            takes = str(action.metavar or action.dest)
            choices = tuple(map(str, action.choices or ()))
    return Command(name, summary, options, takes, choices, commands)


def _option(action: argparse.Action) -> Option:
    text = (action.help or "").replace("%(default)s", str(action.default))
    takes = "" if action.nargs == 0 else str(action.metavar or action.dest.upper())
    return Option(tuple(action.option_strings), text, takes, tuple(map(str, action.choices or ())))


def _flags(command: Command) -> str:
    return " ".join(flag for option in command.options for flag in option.flags)


def _bash(top: Command) -> str:
    names = " ".join(command.name for command in top.commands)
    lines = [
        f"_{top.name}() {{",
        "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} one",
        "    local IFS=$' \\t\\n'",
        "    if ((COMP_CWORD == 1)); then",
        f'        COMPREPLY=($(compgen -W "{names} {_flags(top)}" -- "$word"))',
        "        return",
        "    fi",
        # What stands behind -- is a command line of its own.
        '    for one in "${COMP_WORDS[@]:2:COMP_CWORD-2}"; do',
        "        [[ $one == -- ]] && return",
        "    done",
        '    case "${COMP_WORDS[1]} $before" in',
    ]
    for command in top.commands:
        for option in filter(lambda one: one.takes, command.options):
            patterns = " | ".join(f'"{command.name} {flag}"' for flag in option.flags)
            lines.append(f"    {patterns}) {_bash_values(option)} ;;")
    lines += ["    esac", '    case "${COMP_WORDS[1]}" in']
    for command in top.commands:
        words = " ".join([_flags(command), *command.choices])
        lines.append(f'    {command.name}) COMPREPLY=($(compgen -W "{words}" -- "$word")) ;;')
    lines += ["    esac", "}", f"complete -o default -F _{top.name} {top.name}"]
    return "\n".join(lines) + "\n"


def _bash_values(option: Option) -> str:
    if option.choices:
        return f'COMPREPLY=($(compgen -W "{" ".join(option.choices)}" -- "$word")); return'
    # Files are what bash completes by default, where we have no answer.
    return "return" if option.takes_file else 'COMPREPLY=("$word"); return'


def _zsh(top: Command) -> str:
    lines = [f"#compdef {top.name}", f"_{top.name}() {{", "    local -a commands", "    commands=("]
    for command in top.commands:
        lines.append(f"        {shlex.quote(f'{command.name}:{command.help}')}")
    lines += [
        "    )",
        "    if ((CURRENT == 2)); then",
        "        _describe command commands && return",
        f"        compadd -- {_flags(top)}",
        "        return",
        "    fi",
        "    local chosen=$words[2]",
        "    shift words",
        "    ((CURRENT--))",
        "    case $chosen in",
    ]
    for command in top.commands:
        lines.append(f"    {command.name})")
        lines.append("        _arguments -S \\")
        lines += [f"            {argument} \\" for argument in _zsh_arguments(command)]
        lines.append("        ;;")
    lines += ["    esac", "}", f"compdef _{top.name} {top.name}"]
    return "\n".join(lines) + "\n"


def _zsh_arguments(command: Command) -> Iterator[str]:
    for option in command.options:
        text = option.help.translate(str.maketrans("[]:", "() "))
        value = f":{option.takes}:{_zsh_values(option)}" if option.takes else ""
        for flag in option.flags:
            yield shlex.quote(f"*{flag}[{text}]{value}")
    if command.takes == "CMD":
        yield shlex.quote("*::command:_normal")
    elif command.choices:
        yield shlex.quote(f"1:{command.takes}:({' '.join(command.choices)})")
    elif command.takes == "FILE":
        yield shlex.quote("*:file:_files")


def _zsh_values(option: Option) -> str:
    return f"({' '.join(option.choices)})" if option.choices else "_files" * option.takes_file


def _fish(top: Command) -> str:
    start = f"complete -c {top.name}"
    lines = [f"{start} -f"]
    for option in top.options:
        lines.append(f"{start} -n __fish_use_subcommand {_fish_option(option)}")
    for command in top.commands:
        what = shlex.quote(command.help)
        lines.append(f"{start} -n __fish_use_subcommand -a {command.name} -d {what}")
    for command in top.commands:
        inner = f"{start} -n '__fish_seen_subcommand_from {command.name}'"
        lines += [f"{inner} {_fish_option(option)}" for option in command.options]
        if command.takes == "CMD":
            lines.append(f"{inner} -a '(__fish_complete_subcommand)'")
        elif command.choices:
            lines.append(f"{inner} -a '{' '.join(command.choices)}'")
        elif command.takes == "FILE":
            lines.append(f"{inner} -F")
    return "\n".join(lines) + "\n"


def _fish_option(option: Option) -> str:
    flags = " ".join(
        f"-{'l' if flag[:2] == '--' else 's'} {flag.lstrip('-')}" for flag in option.flags
    )
    values = ""
    if option.choices:
        values = f" -x -a '{' '.join(option.choices)}'"
    elif option.takes:
        values = " -r -F" if option.takes_file else " -x"
    return f"{flags}{values} -d {shlex.quote(option.help)}"


SHELLS: dict[str, Callable[[Command], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
