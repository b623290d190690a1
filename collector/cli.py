"""The command line of the collector."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import re
import shlex
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from collector import output
from collector.outcomes.outcome import NAME_LIMIT
from collector.outcomes.read import FORMATS
from collector.output import Output
from collector.sandbox.making import DRIVERS
from collector.store import Away, Pruned, Store, open_store
from probe.access import from_options, is_local
from probe.completion import SHELLS, script
from probe.events import JsonObject
from probe.problem import EXIT_STATUS, Problem

if TYPE_CHECKING:
    from collector.server import Door

DEFAULT_LISTEN = "127.0.0.1:50551"
DEFAULT_DB = "collector.db"
DEFAULT_WEB = "127.0.0.1:8080"
DEFAULT_METRICS = "127.0.0.1:9464"
PATIENCE_S = 15.0  # with a database that is away when a collector starts
_AGE_S = {"s": 1, "min": 60, "h": 3_600, "d": 86_400}
_RUNS = 5  # that a status names
_EXPORTS = ("ctrf", "otlp", "github")


_SERVE_EXAMPLES = """\
  collector serve --listen 0.0.0.0:50551 --db runs.db
  collector serve --listen unix:/run/collector.sock"""
_TOKEN_EXAMPLES = """\
  collector token sandbox-17 --tokens tokens.json
  collector token sandbox-17 --tokens tokens.json --hours 12"""
_IMPORT_EXAMPLES = """\
  collector import report.xml --run nightly --db runs.db
  pytest --junitxml=/dev/stdout -q | collector import - --run nightly"""
_EXPLAIN_EXAMPLES = """\
  collector explain --run nightly          every failing test, by cause
  collector explain --run nightly t17      one of them in full
  collector explain --json t17             of the latest run, for programs"""
_REPORT_EXAMPLES = """\
  collector report --run nightly -o nightly.html
  collector report -o - | gzip > latest.html.gz"""
_EXPORT_EXAMPLES = """\
  collector export --run nightly --format ctrf -o ctrf.json
  collector export --run nightly --format github
  collector export --format otlp | curl -H 'Content-Type: application/json' \\
      --data-binary @- http://localhost:4318/v1/traces"""
_DIFF_EXAMPLES = """\
  collector diff nightly-0417 nightly-0418 --db runs.db"""
_MCP_EXAMPLES = """\
  claude mcp add runs -- collector mcp --db runs.db"""
_SANDBOX_EXAMPLES = """\
  claude mcp add sandbox -- collector sandbox-mcp --profile offline
  collector sandbox-mcp --driver podman --secret API_KEY=/run/secrets/key"""
_FUZZ_EXAMPLES = """\
  collector fuzz --limit 200 --db fuzz.db             200 workflows in each profile
  collector fuzz --profile offline --domain web       one kind, in one of them
  collector explain --run fuzz-offline --db fuzz.db"""
_HEALTH_EXAMPLES = """\
  collector health                         of the collector on this machine
  collector health collector.internal:50551 --ca ca.pem"""
_STATUS_EXAMPLES = """\
  collector status --db runs.db"""
_PRUNE_EXAMPLES = """\
  collector prune --older-than 14d
  collector prune --run nightly-0417 --run nightly-0418"""
_BACKUP_EXAMPLES = """\
  collector backup saved.db --db runs.db"""
_COMPLETION_EXAMPLES = """\
  source <(collector completion bash)      in ~/.bashrc
  source <(collector completion zsh)       in ~/.zshrc, after compinit
  collector completion fish > ~/.config/fish/completions/collector.fish"""


def main(arguments: Sequence[str] | None = None) -> int:
    """The console script `collector`; its exit status."""
    output.settle()
    try:
        try:
            options = parser().parse_args(arguments)
            status: int = options.command(options)
            return status
        finally:
            output.flush()
    except Problem as problem:
        output.note(f"collector: {problem}")
        return EXIT_STATUS
    except BrokenPipeError:  # nothing is left to say (signal(7), SIGPIPE)
        return 141
    except KeyboardInterrupt:
        return 130


class _Parser(argparse.ArgumentParser):
    def print_help(self, file: object = None) -> None:
        Output().write(self.format_help())

    def error(self, message: str) -> NoReturn:
        raise Problem(message, f"see {self.prog} --help")


def parser() -> argparse.ArgumentParser:
    """All commands with their options."""
    whole = _Parser(prog="collector", description=__doc__, allow_abbrev=False)
    commands = whole.add_subparsers(metavar="COMMAND", required=True)

    def add(name: str, summary: str, examples: str) -> argparse.ArgumentParser:
        return commands.add_parser(
            name,
            help=summary,
            description=summary.capitalize() + ".",
            epilog=f"examples:\n{examples}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    serve = add("serve", "receive what probes see, until SIGTERM", _SERVE_EXAMPLES)
    serve.add_argument(
        "--listen",
        metavar="ADDR",
        default=_listen(),
        help="host:port or unix:/path; port 0 means any free one "
        f"($COLLECTOR_LISTEN, else {DEFAULT_LISTEN})",
    )
    _add_access(serve)
    serve.add_argument(
        "--metrics",
        metavar="ADDR",
        nargs="?",
        const=DEFAULT_METRICS,
        help=f"tell Prometheus at this HOST:PORT (without one, {DEFAULT_METRICS})",
    )
    serve.add_argument(
        "--web",
        metavar="ADDR",
        nargs="?",
        const=DEFAULT_WEB,
        help=f"show the reports of all runs at this HOST:PORT (without one, {DEFAULT_WEB})",
    )
    serve.set_defaults(command=_serve)

    token = add("token", "make a token for a sandbox, and print it", _TOKEN_EXAMPLES)
    token.add_argument("sandbox", metavar="SANDBOX", type=_new_sandbox, help="its $PROBE_SANDBOX")
    token.add_argument("--tokens", metavar="FILE", required=True, help="keeps its hash")
    token.add_argument("--hours", type=_positive, help="until it expires (default: never)")
    token.set_defaults(command=_token)

    import_ = add("import", "add test outcomes to a run", _IMPORT_EXAMPLES)
    import_.add_argument(
        "files", nargs="+", metavar="FILE", help=f"{FORMATS}; - for standard input"
    )
    import_.add_argument(
        "--run", required=True, type=_new_run, help="the run that these are outcomes of"
    )
    import_.set_defaults(command=_import)

    explain = add("explain", "say why tests failed", _EXPLAIN_EXAMPLES)
    explain.add_argument("test", nargs="?", metavar="TEST", type=_name, help="all failing ones")
    explain.add_argument("--run", type=_name, help="the latest one")
    explain.add_argument("--json", action="store_true", help="for programs")
    explain.set_defaults(command=_explain)

    report = add("report", "put a run on one page of HTML", _REPORT_EXAMPLES)
    report.add_argument("--run", type=_name, help="the latest one")
    report.add_argument(
        "-o", "--output", metavar="FILE", required=True, help="- for standard output"
    )
    report.set_defaults(command=_report)

    export = add("export", "write a run for other tools", _EXPORT_EXAMPLES)
    export.add_argument("--run", type=_name, help="the latest one")
    export.add_argument(
        "--format",
        required=True,
        choices=_EXPORTS,
        help="ctrf: test reports; otlp: traces; github: annotations",
    )
    export.add_argument(
        "-o", "--output", metavar="FILE", default="-", help="(default: standard output)"
    )
    export.set_defaults(command=_export)

    diff = add("diff", "say what one run broke, against another", _DIFF_EXAMPLES)
    diff.add_argument("run_a", metavar="RUN_A", type=_name)
    diff.add_argument("run_b", metavar="RUN_B", type=_name)
    diff.add_argument("--json", action="store_true", help="for programs")
    diff.set_defaults(command=_diff)

    mcp = add("mcp", "answer the same to agents, on stdio", _MCP_EXAMPLES)
    mcp.set_defaults(command=_mcp)

    box = add("sandbox-mcp", "a sandbox for a coding agent, on stdio", _SANDBOX_EXAMPLES)
    box.add_argument("--profile", metavar="P", default="generous", help="as of collector fuzz")
    box.add_argument(
        "--driver", choices=tuple(DRIVERS), default="bubblewrap", help="what makes it (%(default)s)"
    )
    box.add_argument("--run", type=_new_run, default="sandbox", help="that its calls belong to")
    box.add_argument(
        "--secret",
        metavar="NAME=FILE",
        action="append",
        default=[],
        type=_secret,
        help="a variable that programs there get, and that nothing shows (repeatable)",
    )
    box.set_defaults(command=_sandbox_mcp)

    fuzz = add("fuzz", "run a thousand workflows in a sandbox, and explain", _FUZZ_EXAMPLES)
    fuzz.add_argument(
        "--profile",
        action="append",
        metavar="P",
        help="a sandbox profile (repeatable; all of them where none is named)",
    )
    fuzz.add_argument("--jobs", type=_positive, metavar="N", default=os.cpu_count() or 1)
    fuzz.add_argument("--limit", type=_positive, metavar="M", help="so many workflows of each")
    fuzz.add_argument("--domain", action="append", metavar="D", help="only these (repeatable)")
    fuzz.add_argument("--seed", type=int, metavar="S", default=0, help="of the corpus (0)")
    fuzz.add_argument("--run", type=_new_run, default="fuzz", help="its runs are RUN-PROFILE")
    fuzz.set_defaults(command=_fuzz)

    complete = add(
        "completion",
        "print what a shell is to source to complete collector",
        _COMPLETION_EXAMPLES,
    )
    complete.add_argument("shell", choices=tuple(SHELLS), metavar="SHELL", help=", ".join(SHELLS))
    complete.set_defaults(command=_completion)

    status = add("status", "what lies in the database, and who is heard", _STATUS_EXAMPLES)
    status.add_argument("--json", action="store_true", help="for programs")
    status.set_defaults(command=_status)

    health = add("health", "ask a collector whether it serves, for a supervisor", _HEALTH_EXAMPLES)
    health.add_argument(
        "address",
        metavar="ADDR[,ADDR]",
        nargs="?",
        default=_own_address(_listen()),
        help=f"host:port or unix:/path ($COLLECTOR_LISTEN on this machine, else {DEFAULT_LISTEN})",
    )
    for flag, what in (
        ("--ca", "certificates that its own must be signed by, in PEM ($PROBE_CA)"),
        ("--cert", "a certificate to show, in PEM ($PROBE_CERT)"),
        ("--key", "its key ($PROBE_KEY)"),
    ):
        health.add_argument(flag, metavar="FILE", help=what)
    health.add_argument("--insecure", action="store_true", help="plain text to another machine too")
    health.set_defaults(command=_health)

    prune = add("prune", "remove what is old, or whole runs", _PRUNE_EXAMPLES)
    prune.add_argument(
        "--older-than",
        metavar="AGE",
        type=_age_ns,
        help="sandboxes not heard for so long (90min, 12h, 14d), and runs without any left",
    )
    prune.add_argument("--run", action="append", default=[], type=_name, help="may be repeated")
    prune.set_defaults(command=_prune)

    backup = add("backup", "copy a SQLite database, also while it is served", _BACKUP_EXAMPLES)
    backup.add_argument("file", metavar="FILE", help="that does not exist yet")
    backup.set_defaults(command=_backup)

    with_database = (serve, import_, explain, report, export, diff, mcp, fuzz)
    for command in (*with_database, status, prune, backup):
        command.add_argument(
            "--db",
            metavar="URL",
            default=os.environ.get("COLLECTOR_DB") or DEFAULT_DB,
            help=f"a SQLite file, or postgresql://USER@HOST/DATABASE ($COLLECTOR_DB, "
            f"else {DEFAULT_DB} in this directory)",
        )
    return whole


def _listen() -> str:
    return os.environ.get("COLLECTOR_LISTEN") or DEFAULT_LISTEN


def _own_address(address: str) -> str:
    """Where what listens on every address is reached from this machine."""
    host, _, port = address.rpartition(":")
    return {"0.0.0.0": "127.0.0.1:", "[::]": "[::1]:"}.get(host, f"{host}:") + port


def _completion(options: argparse.Namespace) -> int:
    Output().write(script(options.shell, parser()))
    return 0


def _add_access(serve: argparse.ArgumentParser) -> None:
    """Who may speak to the server, and how much."""
    from collector import quota

    serve.add_argument("--tls-cert", metavar="FILE", help="speak TLS, with this certificate (PEM)")
    serve.add_argument("--tls-key", metavar="FILE", help="its key (PEM)")
    serve.add_argument(
        "--client-ca",
        metavar="FILE",
        help="let in only whose certificate is signed by one of these (PEM); "
        "without --tokens, it names the sandbox",
    )
    serve.add_argument(
        "--tokens", metavar="FILE", help="let in only who has one of these (collector token)"
    )
    serve.add_argument(
        "--insecure", action="store_true", help="plain text to other machines, where it is safe"
    )
    serve.add_argument(
        "--rate",
        metavar="N",
        type=_positive,
        default=quota.RATE,
        help="slow a sandbox down that sends more events (or KiB) a second (%(default)s)",
    )
    serve.add_argument(
        "--streams",
        metavar="N",
        type=_positive,
        default=quota.STREAMS,
        help="of one sandbox at once (%(default)s)",
    )


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 0 < int(text) < 1 << 31:
        raise Problem(f"{text!r}: no number above 0", "give a whole one")
    return int(text)


def _new_sandbox(text: str) -> str:
    if not text.strip():
        raise Problem("SANDBOX: the name is empty", "give what $PROBE_SANDBOX is there")
    return _name(text)


def _name(text: str) -> str:
    """A run or a test: arguments that are not UTF-8 name none."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Problem(f"{text!r}: not UTF-8", "no run and no test has such a name") from None
    return text


def _new_run(text: str) -> str:
    if not text.strip():
        raise Problem("--run: the name is empty", "give the run a name")
    _name(text)
    if len(text.encode()) > NAME_LIMIT:
        raise Problem("--run: the name is too long", f"{NAME_LIMIT} bytes are taken")
    return text


def _age_ns(text: str) -> int:
    found = re.fullmatch(r"(\d{1,6})(s|min|h|d)", text, re.ASCII)
    if not found:
        raise Problem(f"{text!r}: no age", "give 90min, 12h or 14d")
    return int(found[1]) * _AGE_S[found[2]] * 1_000_000_000


@contextlib.contextmanager
def _store(options: argparse.Namespace, *, create: bool) -> Iterator[Store]:
    with contextlib.closing(open_store(options.db, create=create)) as store:
        yield store


def _serve(options: argparse.Namespace) -> int:
    # gRPC's own complaints on stderr add nothing to ours; it reads this when it is imported.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    import asyncio

    from collector import server
    from probe import log

    log.configure()
    door = _door(options)
    if options.web and not options.insecure and not is_local(options.web):
        raise Problem(
            f"--web {options.web}: it has no password, and others could read along",
            "give an address of this machine, or --insecure where the network is trusted",
        )
    with contextlib.closing(_awaited(options.db)) as store:
        asyncio.run(server.serve(store, door, options.metrics, options.web))
    return 0


def _awaited(url: str) -> Store:
    """It may be starting, as everything does when a machine does."""
    import structlog

    limit = time.monotonic() + PATIENCE_S
    while True:
        try:
            return open_store(url)
        except Away as problem:
            if time.monotonic() > limit:
                raise
            structlog.get_logger("server").warning("waiting for the database", reason=str(problem))
        time.sleep(1)


def _door(options: argparse.Namespace) -> Door:
    from collector.gate import Gate, Tokens
    from collector.quota import Quota
    from collector.server import Door
    from collector.tls import Tls

    tls = None
    if options.tls_cert or options.tls_key:
        tls = Tls(options.tls_cert, options.tls_key, options.client_ca)
    elif options.client_ca:
        raise Problem("--client-ca takes TLS", "give --tls-cert and --tls-key too")
    tokens = Tokens(Path(options.tokens)) if options.tokens else None
    return Door(
        options.listen,
        Gate(tokens, certificates=options.client_ca is not None),
        Quota(rate=options.rate, streams=options.streams),
        tls,
        options.insecure,
    )


def _token(options: argparse.Namespace) -> int:
    from collector.gate import grant

    terminal = Output()
    terminal.write(grant(Path(options.tokens), options.sandbox, options.hours) + "\n")
    return 0


def _import(options: argparse.Namespace) -> int:
    from collector.outcomes import read

    terminal = Output()
    outcomes = [outcome for file in options.files for outcome in read(file)]
    with _store(options, create=True) as store:
        store.add_outcomes(options.run, outcomes)
    kinds = {outcome.test: outcome.outcome for outcome in outcomes}
    terminal.line(terminal.style(f"imported {_counted(kinds)} into run {options.run}"))
    return 0


def _counted(kinds: dict[str, str]) -> str:
    if not kinds:
        return "no outcomes (the files name no test)"
    counts = sorted(Counter(kinds.values()).items())
    details = ", ".join(f"{count} {outcome}" for outcome, count in counts)
    return f"{len(kinds)} outcome{'s'[: len(kinds) > 1]} ({details})"


def _status(options: argparse.Namespace) -> int:
    from collector import status

    terminal = Output()
    with _store(options, create=False) as store:
        found, runs = store.status(), store.runs(_RUNS)
    if options.json:
        terminal.write(json.dumps(status.as_json(found, runs), indent=2) + "\n")
    else:
        status.render(found, runs, terminal)
    return 0


def _health(options: argparse.Namespace) -> int:
    """1 where one does not serve."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from collector import health

    obstacle = health.obstacle(from_options(options, options.address))
    if obstacle:
        output.note(f"collector: {obstacle}")
    return 1 if obstacle else 0


def _prune(options: argparse.Namespace) -> int:
    if options.older_than is None and not options.run:
        raise Problem("nothing to prune is named", "give --older-than AGE or --run RUN")
    terminal = Output()
    pruned = Pruned()
    with _store(options, create=False) as store:
        known = {run: store.has_run(run) for run in options.run}
    unknown = [run for run, there in known.items() if not there]
    if unknown:
        raise Problem(f"no run {unknown[0]!r}", "collector status names the latest")
    with _store(options, create=True) as store:
        for run in known:
            pruned = pruned.plus(store.prune_run(run))
        if options.older_than is not None:
            pruned = pruned.plus(store.prune(time.time_ns() - options.older_than))
    counts = dataclasses.asdict(pruned).items()
    words = ", ".join(f"{count} {name}" for name, count in counts if count) or "nothing"
    terminal.line(terminal.style(f"pruned {words}"))
    return 0


def _backup(options: argparse.Namespace) -> int:
    terminal = Output()
    with _store(options, create=False) as store:
        store.backup(options.file)
    terminal.line(terminal.style(f"copied to {options.file}"))
    return 0


def _explain(options: argparse.Namespace) -> int:
    from collector import explanation

    terminal = Output()
    with _store(options, create=False) as store:
        run = explanation.choose_run(store, options.run)
        if options.test is not None:
            _show_test(explanation.of_test(store, run, options.test), terminal, options.json)
        elif options.json:
            _write_run(store, run, terminal)
        else:
            from collector import text

            text.render(explanation.overview(store, run), terminal)
    output.flush()
    _tell_latest(options, run)
    return 0


def _tell_latest(options: argparse.Namespace, run: str) -> None:
    if options.run is None:
        output.note(f"collector: the latest run is {shlex.quote(run)}", "dim")


def _report(options: argparse.Namespace) -> int:
    from collector import report

    return _written(options, lambda store, run: report.render(report.build(store, run)))


def _export(options: argparse.Namespace) -> int:
    from collector.export import FORMATS

    return _written(options, FORMATS[options.format])


def _written(options: argparse.Namespace, render: Callable[[Store, str], str]) -> int:
    """What `render` makes of the run, in the file that is asked for."""
    from collector import explanation

    with _store(options, create=False) as store:
        run = explanation.choose_run(store, options.run)
        text = render(store, run)
    if options.output == "-":
        Output().write(text)
        output.flush()
    else:
        output.write_file(Path(options.output), text)
    _tell_latest(options, run)
    return 0


def _diff(options: argparse.Namespace) -> int:
    from collector import comparison, text

    terminal = Output()
    with _store(options, create=False) as store:
        found = comparison.compare(store, options.run_a, options.run_b)
    if options.json:
        terminal.write(json.dumps(found.as_json(), indent=2) + "\n")
    else:
        text.render_comparison(found, terminal)
    return 0


def _sandbox_mcp(options: argparse.Namespace) -> int:
    from collector import sandbox_mcp
    from collector.campaign.profiles import PROFILES, profile

    if options.profile not in PROFILES:
        known = ", ".join(PROFILES)
        raise Problem(f"no profile {options.profile!r}", f"there are {known}")
    allowed = dataclasses.replace(profile(options.profile), driver=options.driver)
    sandbox_mcp.run(allowed, options.profile, options.run, dict(options.secret))
    return 0


def _secret(text: str) -> tuple[str, str]:
    name, separator, path = text.partition("=")
    if not name.isidentifier() or not separator:
        raise Problem(f"--secret {text!r}: no NAME=FILE", "give the name of a variable and a file")
    try:
        return name, Path(path).read_text(encoding="utf-8").rstrip("\n")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise Problem(f"--secret {path}: {why}", "name a file with the value in it") from None


def _fuzz(options: argparse.Namespace) -> int:
    """1 where an explanation was wrong."""
    from collector import fuzz, text
    from collector.campaign.profiles import PROFILES
    from collector.campaign.workflow import BROWSER, CODE, corpus

    profiles = options.profile or list(PROFILES)
    for named, known, what in (
        (profiles, PROFILES, "profile"),
        (options.domain or [], (*CODE, *BROWSER), "domain"),
    ):
        for one in named:
            if one not in known:
                raise Problem(f"no {what} {one!r}", f"there are {', '.join(known)}")
    every = [
        one for one in corpus(options.seed) if not options.domain or one.domain in options.domain
    ]
    chosen = fuzz.choose(every, options.limit)
    terminal, wrong = Output(), 0
    with _store(options, create=True) as store:
        for name in profiles:
            campaign = fuzz.Campaign(f"{options.run}-{name}", name, chosen, options.jobs)
            fuzz.fuzz(store, options.db, campaign, text.Progress(campaign.run))
            found = fuzz.accuracy(store, campaign)
            text.render_accuracy(name, found, terminal)
            output.flush()
            wrong += len(found.wrong) + len(found.false_blame)
    return 1 if wrong else 0


def _mcp(options: argparse.Namespace) -> int:
    from collector import mcp_tools

    with _store(options, create=False) as store:
        mcp_tools.run(store)
    return 0


def _show_test(report: JsonObject, terminal: Output, as_json: bool) -> None:
    if as_json:
        terminal.write(json.dumps(report, indent=2) + "\n")
        return
    from collector.match import TIME
    from collector.text import GUESSED
    from probe.text import render

    render(report, terminal)
    if report["match"] == TIME:
        terminal.text(f"matched {GUESSED}", "  ", "yellow")


def _write_run(store: Store, run: str, terminal: Output) -> None:
    """One JSON object; its reports, one a line, wait in a file until all are there."""
    from collector import explanation

    with tempfile.TemporaryFile("w+", encoding="utf-8") as reports:
        try:
            found = explanation.overview(
                store, run, lambda report: reports.write(json.dumps(report) + "\n")
            )
            reports.seek(0)
        except OSError as error:
            mend = "free some space, or name another place with TMPDIR"
            raise Problem(f"{tempfile.gettempdir()}: {error.strerror}", mend) from None
        whole = json.dumps(found.as_json(), indent=2)
        terminal.write(whole.removesuffix("\n}") + ',\n  "reports": [')
        for number, line in enumerate(reports):
            terminal.write((",\n" if number else "\n") + line.rstrip("\n"))
        terminal.write("\n  ]\n}\n")


if __name__ == "__main__":
    sys.exit(main())
