"""The pages of all runs, for a browser: `collector serve --web`.

Only reads, and only what the report shows. Without a password of its own it is for this machine,
or for behind something that has one.
"""

from __future__ import annotations

import html
import ipaddress
import json
import threading
import time
from collections import OrderedDict
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote, unquote, urlsplit

import structlog

from collector import explanation, report
from collector.store import Store
from probe.problem import Problem
from probe.terminal import escape

RUNS = 200  # that the first page lists
_SEARCHED = 10_000  # the latest ones, where some are asked for
FRESH_S = 10.0  # how long a page is shown again as it is
_PAGES = 8  # that are kept
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'"
_INDEX = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Runs</title>
<style>
:root {{ color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }}
body {{ max-width: 50rem; margin: 2rem auto; padding: 0 1rem }}
li {{ padding: .2rem 0 }} ul {{ list-style: none; padding: 0 }}
input {{ font: inherit; padding: .3rem .5rem; width: 20rem; max-width: 100% }}
</style>
<h1>Runs</h1>
<form><input name="q" value="{query}" placeholder="name of a run, or part of it" autofocus></form>
<ul>{runs}</ul><p>{told}</p></html>"""


class Pages:
    """What the addresses show. Its methods may be called from several threads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._rendered: OrderedDict[str, tuple[float, str]] = OrderedDict()

    def index(self, query: str) -> str:
        latest = self._store.runs(_SEARCHED if query else RUNS)
        known = [run for run in latest if query.lower() in run.lower()][:RUNS]
        links = (f'<li><a href="/runs/{_path(run)}">{_html(run)}</a></li>' for run in known)
        told = f"{len(known)} runs, at most {RUNS}; tests are found on a run's own page"
        return _INDEX.format(query=_html(query), runs="".join(links), told=told)

    def run(self, name: str) -> str:
        """Problem where there is no such run."""
        with self._lock:  # of many that ask for the same page one makes it
            made, text = self._rendered.get(name, (0.0, ""))
            if not text or time.monotonic() - made > FRESH_S:
                run = explanation.choose_run(self._store, name)
                text = report.render(report.build(self._store, run))
                self._rendered[name] = time.monotonic(), text
                self._rendered.move_to_end(name)
                if len(self._rendered) > _PAGES:
                    self._rendered.popitem(last=False)
        return text

    def test(self, run: str, test: str) -> str:
        """Its report (docs/report.md). Problem where there is no such run or test."""
        return json.dumps(explanation.of_test(self._store, run, test), indent=1)


def serve(store: Store, address: str) -> ThreadingHTTPServer:
    """Answers in threads of its own, until `shutdown`. Problem where it cannot listen."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    try:
        server = ThreadingHTTPServer((host, int(port)), _handler(Pages(store), host))
    except (OSError, ValueError, OverflowError) as error:
        why = error.strerror if isinstance(error, OSError) else "no address"
        raise Problem(f"--web {address}: {why}", "name another HOST:PORT") from None
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="web", daemon=True).start()
    return server


def _handler(pages: Pages, host: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server_version, sys_version = "collector", ""

        def do_GET(self) -> None:
            if not _is_own_name(self.headers.get("Host", ""), host):
                # Another site's name that was made to point here (DNS rebinding).
                self._answer(HTTPStatus.FORBIDDEN, "text/plain", "not by this name\n")
                return
            try:
                kind, text = _page(pages, self.path)
            except Problem as problem:
                self._answer(HTTPStatus.NOT_FOUND, "text/plain", escape(str(problem)) + "\n")
            except KeyError:
                self._answer(HTTPStatus.NOT_FOUND, "text/plain", "no such page\n")
            else:
                self._answer(HTTPStatus.OK, kind, text)

        def _answer(self, status: HTTPStatus, kind: str, text: str) -> None:
            body = text.encode("utf-8", "replace")
            self.send_response(status)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("Referrer-Policy", "no-referrer")
            self.send_header("Cache-Control", "no-store")
            if '<meta http-equiv="Content-Security-Policy"' not in text:  # a run's page has its own
                self.send_header("Content-Security-Policy", _POLICY)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            structlog.get_logger("web").debug("asked", path=self.path)

    return Handler


def _page(pages: Pages, target: str) -> tuple[str, str]:
    """KeyError where nothing is there."""
    address = urlsplit(target)
    parts = [unquote(part) for part in address.path.split("/")[1:]]
    if parts == [""]:
        return "text/html", pages.index(parse_qs(address.query).get("q", [""])[0])
    if len(parts) == 2 and parts[0] == "runs":
        return "text/html", pages.run(parts[1])
    if len(parts) == 4 and (parts[0], parts[2]) == ("runs", "tests"):
        return "application/json", pages.test(parts[1], parts[3])
    raise KeyError(target)


def _is_own_name(given: str, host: str) -> bool:
    name = given.rpartition(":")[0] if given.rpartition(":")[2].isdigit() else given
    name = name.strip("[]")
    if name in ("localhost", host):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _path(name: str) -> str:
    return quote(name, safe="")


def _html(text: str) -> str:
    return html.escape(escape(text), quote=True)
