"""The pages of all runs, asked over HTTP."""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from conftest import BIN

from collector.outcomes import Outcome
from collector.store import open_store
from collector.web import serve

ODD = "night/ly \x1b[31m<script>"


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    path = str(tmp_path / "c.db")
    with contextlib.closing(open_store(path)) as store:
        for run in ("r1", ODD):
            store.add_outcomes(
                run, [Outcome("t1", "t1", "failed", "boo"), Outcome("t2", "t2", "passed")]
            )
        server = serve(store, "127.0.0.1:0")
        yield server.server_port
        server.shutdown()


def get(port: int, path: str, **headers: str) -> tuple[int, str, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, body, dict(answer.getheaders())


def test_the_runs(port: int) -> None:
    status, body, headers = get(port, "/")
    assert status == 200 and "Content-Security-Policy" in headers
    assert f'href="/runs/{quote(ODD, safe="")}"' in body and 'href="/runs/r1"' in body
    assert "<script>" not in body and "\x1b" not in body
    _, found, _ = get(port, "/?q=NIGHT")
    assert "night" in found and "/runs/r1" not in found
    _, nothing, _ = get(port, "/?q=%22%3E%3Cb%3E")
    assert "<b>" not in nothing


@pytest.mark.parametrize("run", ["r1", ODD])
def test_a_run(port: int, run: str) -> None:
    status, body, headers = get(port, f"/runs/{quote(run, safe='')}")
    assert status == 200 and headers["Content-Type"].startswith("text/html")
    assert "1 of 2 failed" in body and "Content-Security-Policy" in body
    status, told, headers = get(port, f"/runs/{quote(run, safe='')}/tests/t1")
    assert status == 200 and headers["Content-Type"].startswith("application/json")
    assert json.loads(told)["verdict"]["cause"] == "unknown"


@pytest.mark.parametrize(
    "path", ["/nowhere", "/runs/nowhere", "/runs/r1/tests/nowhere", "/runs/../etc/passwd", "/runs/"]
)
def test_what_is_not_there(port: int, path: str) -> None:
    status, body, _ = get(port, path)
    assert status == 404 and body.count("\n") == 1 and "Traceback" not in body


def test_another_sites_name(port: int) -> None:
    assert get(port, "/", Host="evil.example")[0] == 403
    assert get(port, "/", Host=f"localhost:{port}")[0] == 200


@pytest.mark.parametrize(
    ("address", "words"),
    [("0.0.0.0:8080", "no password"), ("127.0.0.1:x", "--web 127.0.0.1:x")],
)
def test_where_it_does_not_listen(tmp_path: Path, address: str, words: str) -> None:
    command = [BIN / "collector", "serve", "--db", tmp_path / "c.db", "--web", address]
    command += ["--listen", f"unix:{tmp_path}/s"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and words in done.stderr and "Traceback" not in done.stderr
