"""The commands, one function each, and the arguments that they take."""

from __future__ import annotations

import argparse
import os
import sys
import time

from probe import __version__
from probe.engine.choice import AUTOMATIC, ENGINES
from probe.problem import Problem

TYPE_CHECKING = False  # not from typing, which takes two milliseconds
if TYPE_CHECKING:
    from typing import Any

    from probe.events import JsonObject
    from probe.watcher import Watcher


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """With a width of its own: argparse would import shutil to find one, at each argument."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=80)


class Parser(argparse.ArgumentParser):
    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=_Formatter, **options)


def parse(arguments: list[str]) -> argparse.Namespace:
    """The options, with the function of the command in `command`."""
    wanted = arguments[0] if arguments and arguments[0] in COMMANDS else None
    return parser(wanted).parse_args(arguments)


def parser(wanted: str | None = None) -> Parser:
    """Of all commands, or of the wanted one alone, which takes less time."""
    top = Parser(prog="probe", description="Says why something failed in a sandbox.")
    top.add_argument("--version", action="version", version=f"probe {__version__}")
    # A given prog keeps argparse from formatting (and importing) for one of its own.
    commands = top.add_subparsers(prog="probe", metavar="COMMAND", required=True)
    for name, (summary, add, command) in COMMANDS.items():
        if wanted in (None, name):
            one = commands.add_parser(name, help=summary, description=summary.capitalize() + ".")
            add(one)
            one.set_defaults(command=command)
    return top


def _add_run(run: Parser) -> None:
    run.usage = "probe run [options] -- CMD [ARG ...]"
    run.epilog = """examples:
  probe run -- make test                     say why it failed, if it does
  probe run --json report.json -- ./job.sh   and keep the whole report
  probe run --run nightly --test t17 --collector collector:50551 -- ./job.sh

exit status: that of CMD; 128+N after signal N; 127 or 126 if it cannot start"""
    run.add_argument("--test", metavar="ID", default="", help="the test that CMD belongs to")
    run.add_argument(
        "--run",
        metavar="ID",
        default=os.environ.get("PROBE_RUN", ""),
        help="the run that the test belongs to (default: $PROBE_RUN)",
    )
    run.add_argument(
        "--label",
        metavar="NAME=TEXT",
        type=_label,
        action="append",
        default=[],
        help="what the collector groups tests by (application, domain …; repeatable)",
    )
    run.add_argument("--json", metavar="FILE", help="write the report there; - for standard output")
    run.add_argument(
        "--explain",
        choices=("auto", "always", "never"),
        default="auto",
        help="whether to explain on stderr; auto: after a failure",
    )
    run.add_argument(
        "--collector",
        metavar="ADDR",
        help="send what was seen there (default: the agent's, else $PROBE_COLLECTOR)",
    )
    _add_access(run)
    _add_redact(run)
    _add_engine(
        run,
        "a running agent, else ",
        ENGINES,
        "; ptrace sees nearly all without BPF, and slows work as strace does",
    )
    run.add_argument("cmd", nargs=argparse.REMAINDER, metavar="CMD")


def _add_engine(command: Parser, first: str, engines: tuple[str, ...], also: str = "") -> None:
    command.add_argument(
        "--engine",
        choices=("auto", *engines),
        default="auto",
        help=f"how to listen; auto: {first}the first of {', '.join(AUTOMATIC)} that can run here"
        + also,
    )


def _add_access(command: Parser) -> None:
    """How to reach the collector; what is not given comes from the environment."""
    for flag, what in (
        ("--ca", "certificates that the collector's must be signed by, in PEM ($PROBE_CA)"),
        ("--cert", "our own certificate, in PEM ($PROBE_CERT)"),
        ("--key", "its key ($PROBE_KEY)"),
        ("--token-file", "holds the token of this sandbox ($PROBE_TOKEN_FILE; or $PROBE_TOKEN)"),
    ):
        command.add_argument(flag, metavar="FILE", help=what)
    command.add_argument(
        "--insecure",
        action="store_true",
        help="plain text to a collector on another machine too ($PROBE_INSECURE)",
    )


def _add_redact(command: Parser) -> None:
    command.add_argument(
        "--redact",
        metavar="FILE",
        default=os.environ.get("PROBE_REDACT"),
        help="regular expressions, one a line, of more that is secret (default: $PROBE_REDACT)",
    )


def _add_agent(agent: Parser) -> None:
    agent.epilog = """examples:
  probe agent &                              watch the sandbox from its start
  probe agent --collector collector:50551 &  and send what is seen

signals: SIGTERM sends what is left and ends it"""
    agent.add_argument(
        "--collector",
        metavar="ADDR[,ADDR]",
        default=os.environ.get("PROBE_COLLECTOR"),
        help="host:port or unix:/path of a collector, or several of one database "
        "(default: $PROBE_COLLECTOR)",
    )
    _add_access(agent)
    _add_redact(agent)
    agent.add_argument(
        "--spool",
        metavar="DIR",
        default=os.environ.get("PROBE_SPOOL"),
        help="keep there what the collector has not acknowledged "
        "(default: $PROBE_SPOOL, else /var/lib/probe/spool)",
    )
    agent.add_argument(
        "--spool-size", metavar="MIB", type=_positive, default=64, help="at most (%(default)s)"
    )
    agent.add_argument(
        "--spool-age", metavar="HOURS", type=_positive, default=24, help="at most (%(default)s)"
    )
    _add_engine(agent, "", AUTOMATIC)
    agent.add_argument("--socket", metavar="PATH", help="default: /run/probe/agent.sock")
    agent.add_argument(
        "--keep-minutes",
        metavar="N",
        type=_positive_or_none,
        default=30,
        help="remember what everybody did for so long, for probe why; 0 for spans alone "
        "(%(default)s)",
    )
    agent.add_argument(
        "--keep-size", metavar="MIB", type=_positive, default=8, help="at most (%(default)s)"
    )
    agent.add_argument(
        "--group", metavar="NAME", help="its members see what all users did; else only root does"
    )


def _add_why(why: Parser) -> None:
    why.epilog = """examples:
  probe why                the last failed command of this terminal
  probe why 4711           a process that is gone
  probe why --last 3       the last three failed commands
  probe why --test t17     a test that ran under probe run or the pytest plugin
  probe why --brief        one line, for a prompt or an agent

exit status: 0 when there is an explanation; 1 when nothing that failed is remembered"""
    which = why.add_mutually_exclusive_group()
    which.add_argument("pid", metavar="PID", nargs="?", type=_positive, help="what this was")
    which.add_argument("--last", metavar="N", type=_positive, help="the last N failed commands")
    which.add_argument("--test", metavar="ID", help="a failed test")
    how = why.add_mutually_exclusive_group()
    how.add_argument("--json", action="store_true", help="whole reports, a line each")
    how.add_argument("--brief", action="store_true", help="one line")


def why_command(options: argparse.Namespace) -> int:
    from probe.asking import why_command

    return why_command(options)


def _add_watch(watch: Parser) -> None:
    watch.epilog = """examples:
  probe watch --failed                      what goes wrong, as it happens
  probe watch --kind connect --kind dns     who talks to whom
  probe watch --json | jq .                 for programs"""
    watch.add_argument(
        "--kind", metavar="K", action="append", default=[], help="only these (repeatable)"
    )
    watch.add_argument("--failed", action="store_true", help="only what went wrong")
    watch.add_argument("--json", action="store_true", help="an event a line, for programs")


def watch_command(options: argparse.Namespace) -> int:
    from probe.asking import watch_command

    return watch_command(options)


def _add_span(span: Parser) -> None:
    span.epilog = """examples:
  key=$(probe span begin --test t17 --label domain=data)
  ./step-one && ./step-two
  probe span end $key --outcome passed        or failed, error, timeout

what this shell starts in between is of the test; in Python: probe.spans.span()"""
    steps = span.add_subparsers(prog="probe span", metavar="begin|end", required=True)
    begin = steps.add_parser("begin", help="print the key of a new span")
    begin.add_argument("--test", metavar="ID", required=True)
    begin.add_argument("--run", metavar="ID", default=os.environ.get("PROBE_RUN", ""))
    begin.add_argument("--label", metavar="NAME=TEXT", type=_label, action="append", default=[])
    begin.add_argument("--pid", metavar="PID", type=_positive, help="default: what calls this")
    begin.set_defaults(step="begin")
    end = steps.add_parser("end", help="end it, and say what became of it")
    end.add_argument("key", metavar="KEY", type=_key)
    end.add_argument(
        "--outcome", choices=("passed", "failed", "error", "timeout"), default="passed"
    )
    end.add_argument("--message", metavar="TEXT", help="the harness's own words")
    end.set_defaults(step="end")


def span_command(options: argparse.Namespace) -> int:
    from probe import spans

    if options.step == "begin":
        key = spans.begin(options.test, options.run, dict(options.label), options.pid)
        try:
            sys.stdout.write(f"{key}\n")
            sys.stdout.flush()
        except OSError as error:
            spans.end(key, "error", None)
            raise Problem(f"cannot print the key: {error.strerror}", "mend stdout") from error
    else:
        spans.end(options.key, options.outcome, options.message)
    return 0


def _key(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) >= 1 << 63:
        raise Problem(f"{text!r}: no key of a span", "give what probe span begin printed")
    return int(text)


def _add_mcp(mcp: Parser) -> None:
    mcp.epilog = """examples:
  claude mcp add sandbox -- probe mcp
  { "mcpServers": { "sandbox": { "command": "probe", "args": ["mcp"] } } }

needs the extra: pip install 'sandbox-probe[mcp]'"""


def mcp_command(options: argparse.Namespace) -> int:
    from probe import mcp_tools

    mcp_tools.run()
    return 0


def _add_hook(hook: Parser) -> None:
    hook.epilog = """examples:
  source <(probe hook bash)      in ~/.bashrc: probe why shows the command as it was typed
  source <(probe hook zsh)       in ~/.zshrc
  probe hook fish | source       in ~/.config/fish/config.fish"""
    hook.add_argument("shell", choices=("bash", "zsh", "fish"), metavar="SHELL")


def hook_command(options: argparse.Namespace) -> int:
    from probe.hook import HOOKS

    sys.stdout.write(HOOKS[options.shell])
    return 0


def _add_doctor(doctor: Parser) -> None:
    doctor.epilog = """examples:
  probe doctor                         what is likely to break here, worst first
  probe doctor --reach db:5432         and whether that can be connected to
  probe doctor --json > laptop.json    for another sandbox to compare with
  probe doctor --diff laptop.json      only what differs from there

exit status: 0 whatever is found; 2 for a file or a target that cannot be used"""
    doctor.add_argument("--json", action="store_true", help="the whole report, for programs")
    doctor.add_argument(
        "--diff",
        metavar="FILE",
        help="only what differs from another sandbox, whose --json report is in FILE",
    )
    doctor.add_argument(
        "--reach",
        metavar="HOST:PORT",
        action="append",
        default=[],
        help="see whether this can be connected to (repeatable); without it, only the "
        "configured name servers and proxies are asked",
    )


def doctor_command(options: argparse.Namespace) -> int:
    from probe import doctor
    from probe.doctor import difference, text
    from probe.terminal import Terminal

    there = difference.load(options.diff) if options.diff else None
    examination = doctor.examine(options.reach)
    terminal = Terminal(sys.stdout)
    if there is not None:
        found = difference.differences(examination.as_json(), there)
        if options.json:
            _print_json(difference.as_json(found))
        else:
            text.render_differences(found, terminal)
    elif options.json:
        _print_json(examination.as_json())
    else:
        text.render(examination, terminal)
    return 0


def _add_completion(completion: Parser) -> None:
    completion.epilog = """examples:
  source <(probe completion bash)            in ~/.bashrc
  source <(probe completion zsh)             in ~/.zshrc, after compinit
  probe completion fish > ~/.config/fish/completions/probe.fish"""
    completion.add_argument("shell", choices=("bash", "zsh", "fish"), metavar="SHELL")


def completion_command(options: argparse.Namespace) -> int:
    from probe.completion import script

    sys.stdout.write(script(options.shell, parser()))
    return 0


def _print_json(content: JsonObject) -> None:
    import json

    try:
        with open(1, "w", encoding="utf-8", closefd=False) as stdout:
            stdout.write(json.dumps(content, indent=1) + "\n")
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Problem(f"the report was not written: {error.strerror}") from error


def agent_command(options: argparse.Namespace) -> int:
    from probe.agent import serve

    serve(options)
    return 0


def _label(text: str) -> tuple[str, str]:
    name, separator, told = text.partition("=")
    if not name or not separator:
        raise Problem(f"{text!r}: no label", "give NAME=TEXT")
    return name, told


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 0 < int(text) < 1 << 22:
        raise Problem(f"{text!r}: no number above 0", "give a whole one")
    return int(text)


def _positive_or_none(text: str) -> int:
    return 0 if text == "0" else _positive(text)


def run_command(options: argparse.Namespace) -> int:
    from probe import local, run, watcher

    command = options.cmd[1:] if options.cmd[:1] == ["--"] else options.cmd
    if not command:
        raise Problem("no command given", "probe run [options] -- CMD [ARG ...]")
    watch = watcher.choose(options.engine, options)
    try:
        child = run.Child(command, watch.prepare)
    except OSError as error:
        # The limits that we are to explain may leave no room for a child beside us.
        _say(f"blind: {error.strerror} while forking, so {command[0]} runs unwatched")
        run.become(command)
    labels = dict(options.label)
    watch.begin(local.begin_request(options.run, options.test, command, child, labels), child.pidfd)
    warned = watch.warning
    if warned and options.explain != "never":
        _say(warned)
    child.release()
    status = child.wait()
    # From here on nothing of ours may change what the command said with its status.
    try:
        _conclude(watch, status, options, warned)
    except Exception as error:
        _say(f"the failure could not be explained: {type(error).__name__}: {error}")
    return run.exit_status(status)


def _conclude(watch: Watcher, status: int, options: argparse.Namespace, warned: str | None) -> None:
    ended_ns = time.time_ns()
    explained = options.explain == "always" or (options.explain == "auto" and status != 0)
    report = watch.end(status, ended_ns, explained or options.json is not None)
    if watch.warning and watch.warning != warned and options.explain != "never":
        _say(watch.warning)
    if report is not None:
        _tell(report, explained, options.json)


def _say(text: str) -> None:
    from probe.terminal import Terminal

    terminal = Terminal(sys.stderr)
    terminal.line(terminal.style(f"probe: {text}"))


def _tell(report: JsonObject, explained: bool, path: str | None) -> None:
    if explained:
        from probe import text
        from probe.terminal import Terminal

        text.render(report, Terminal(sys.stderr), "probe: ")
    if path is None:
        return
    import json

    content = json.dumps(report) + "\n"
    try:
        if path == "-":
            os.write(1, content.encode())
        else:
            with open(path, "w", encoding="utf-8") as file:
                file.write(content)
    except OSError as error:
        _say(f"the report was not written to {path}: {error.strerror}")


COMMANDS = {
    "run": ("run a command under watch and explain its failure", _add_run, run_command),
    "doctor": ("say what this sandbox can do and what will break", _add_doctor, doctor_command),
    "why": ("explain what failed last in this terminal", _add_why, why_command),
    "watch": ("show what happens in this sandbox", _add_watch, watch_command),
    "span": ("begin and end a test in a shell", _add_span, span_command),
    "mcp": ("answer the same to agents, on stdio", _add_mcp, mcp_command),
    "agent": ("the daemon of a sandbox image", _add_agent, agent_command),
    "hook": ("print what a shell is to source, for probe why", _add_hook, hook_command),
    "completion": (
        "print what a shell is to source to complete probe",
        _add_completion,
        completion_command,
    ),
}
