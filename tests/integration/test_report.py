"""`collector report` and `collector export` from a database, the page in a real browser."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import demo_run
import pytest
from conftest import BIN
from demo_run import Made

from collector import cli
from collector.store import open_store

BROWSER = "chromium"
TALL = "1400,3600"
LIGHT, DARK = "1", "0"  # Blink's preferredColorScheme


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the database, and its page beside it."""
    path = tmp_path_factory.mktemp("report")
    demo_run.fill(str(path / "c.db"))
    with demo_run.told_by_clients():
        told = ["report", "--run", demo_run.RUN, "-o", str(path / "run.html")]
        assert cli.main([*told, "--db", str(path / "c.db")]) == 0
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[Made]:
    return demo_run.fill(str(tmp_path_factory.mktemp("made") / "c.db"))


def browse(page: Path, folder: Path, *options: str) -> tuple[str, str]:
    """What a browser prints, and what it logs of the page's console."""
    if shutil.which(BROWSER) is None:
        pytest.skip(f"no {BROWSER} here")
    command = [
        *(BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
        *("--disable-background-networking", "--no-first-run", "--disable-dev-shm-usage"),
        *("--enable-logging=stderr", "--v=0", "--virtual-time-budget=5000"),
        *("--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={folder / 'profile'}"),
        *(*options, page.as_uri()),
    ]
    done = subprocess.run(command, capture_output=True, timeout=100, check=True)
    log = done.stderr.decode(errors="replace")
    return done.stdout.decode(), "\n".join(re.findall(r".*CONSOLE.*", log))


class Rendered(HTMLParser):
    """What a browser made of the page: the words of each element with a class, and addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[tuple[str, str]] = []
        self.addresses: list[str] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        self._open.append(values.get("class") or tag)
        addresses = ("src", "href", "action", "data", "poster", "srcset")
        self.addresses += [values[name] or "" for name in addresses if name in values]

    def handle_data(self, data: str) -> None:
        if self._open and data.strip():
            self.words.append((self._open[-1], data))

    def of(self, kind: str) -> list[str]:
        return [words for found, words in self.words if found == kind]


def test_a_browser_shows_it(folder: Path, made: list[Made], tmp_path: Path) -> None:
    dumped, console = browse(folder / "run.html", tmp_path, "--dump-dom")
    assert console == ""
    page = Rendered()
    page.feed(dumped)
    causes = Counter(one.cause for one in made if one.cause)
    assert page.of("h1") == [f"{causes.total()} of {len(made)} failed"]
    assert set(causes) <= set(page.of("cause layer-sandbox")) | set(
        page.of("cause layer-interface")
    ) | set(page.of("cause layer-workload")) | set(page.of("cause layer-unknown"))
    assert sum(map(int, page.of("count number"))) == causes.total()
    largest = causes.most_common(1)[0][1]
    assert page.of("count number")[0] == str(largest)
    opened = [name for name in page.of("lane-name") if name.startswith("java ")]
    assert opened  # the first timeline stands open, with its processes
    assert "chosen by the OOM killer (cgroup /sandbox)" in page.of("what")
    assert page.addresses == ["#failures"]


def test_the_page_names_nobody_outside(folder: Path) -> None:
    page = (folder / "run.html").read_text()
    assert not re.search(r"(https?|wss?|ftp):|url\(|@import|//[a-z0-9-]+\.[a-z]", page)


@pytest.mark.parametrize("scheme", [LIGHT, DARK])
def test_both_colour_schemes(folder: Path, scheme: str, tmp_path: Path) -> None:
    """Kept where $SCREENSHOTS says, for whoever wants to look at them."""
    shots = Path(os.environ.get("SCREENSHOTS") or tmp_path)
    shot = shots / f"report-{'light' if scheme == LIGHT else 'dark'}.png"
    options = (f"--blink-settings=preferredColorScheme={scheme}", f"--window-size={TALL}")
    _, console = browse(folder / "run.html", tmp_path, *options, f"--screenshot={shot}")
    assert console == ""
    assert shot.read_bytes()[:4] == b"\x89PNG"
    assert shot.stat().st_size > 100_000  # an empty page has a tenth of that


KEYS = """
<script>
(() => {
  const say = (name, value) => document.body.append(
    Object.assign(document.createElement("output"), { className: name, textContent: value }));
  const press = (key, target) => (target ?? document.activeElement).dispatchEvent(
    new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  const shown = () => document.getElementById("matching").textContent;
  press("j", document.body);
  say("said-first", document.activeElement.querySelector(".cause").textContent);
  press("j");
  say("said-second", document.activeElement.closest(".test") ? "test" : "cluster");
  press("ArrowLeft");
  press("ArrowLeft");
  say("said-up", document.activeElement.closest(".test") ? "test" : "cluster");
  const timeline = document.querySelector(".timeline");
  press("ArrowRight", timeline);
  press("ArrowRight", timeline);
  say("said-event", document.querySelectorAll(".events li.now").length
    + " " + document.querySelectorAll(".track .mark.now").length);
  const cell = document.querySelector(".heat button[data-cause='net.refused']");
  cell.click();
  say("said-chosen", `${cell.textContent} tests, 1 explanations` === shown()
    || `${cell.textContent} test, 1 explanations` === shown());
  press("ArrowDown", cell);
  say("said-cell", document.activeElement.dataset.cause ?? "");
  press("Escape", document.body);
  say("said-all", shown());
})();
</script>
"""


def test_the_keyboard(folder: Path, made: list[Made], tmp_path: Path) -> None:
    text = (folder / "run.html").read_text()
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    copy = tmp_path / "keys.html"
    copy.write_text(text.replace("</body>", f"{KEYS}</body>"))
    dumped, console = browse(copy, tmp_path, "--dump-dom")
    assert console == ""
    page = Rendered()
    page.feed(dumped)
    causes = Counter(one.cause for one in made if one.cause)
    said = {name: page.of(f"said-{name}") for name in ("first", "second", "up", "event", "chosen")}
    assert said == {
        "first": [causes.most_common(1)[0][0]],
        "second": ["test"],
        "up": ["cluster"],
        "event": ["1 1"],
        "chosen": ["true"],
    }
    assert page.of("said-cell") == ["net.refused"]
    assert page.of("said-all")[0].startswith(f"{causes.total()} tests, ")


def test_a_policy_stops_what_is_smuggled_in(folder: Path, tmp_path: Path) -> None:
    text = (folder / "run.html").read_text()
    copy = tmp_path / "smuggled.html"
    smuggled = "<script>document.title = 'owned'</script><img src='http://192.0.2.1/x.png'>"
    copy.write_text(text.replace("</body>", f"{smuggled}</body>"))
    dumped, console = browse(copy, tmp_path, "--dump-dom")
    assert "<title>owned" not in dumped
    assert console.count("Content Security Policy") >= 2


def test_the_latest_run_on_standard_output(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["report", "-o", "-", "--db", str(folder / "c.db")]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("<!DOCTYPE html>") and captured.out.endswith("</html>\n")
    assert f"the latest run is {demo_run.RUN}" in captured.err


def test_a_file_is_replaced_as_a_whole(folder: Path, tmp_path: Path) -> None:
    target, link = tmp_path / "target.html", tmp_path / "link.html"
    target.write_text("before")
    link.symlink_to(target)
    assert cli.main(["report", "-o", str(link), "--db", str(folder / "c.db")]) == 0
    assert link.is_symlink() and target.read_text().endswith("</html>\n")
    assert stat.S_IMODE(target.stat().st_mode) & 0o600 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.html", "target.html"]


@pytest.mark.parametrize("format_", ["ctrf", "otlp"])
def test_export(folder: Path, format_: str, tmp_path: Path) -> None:
    target = tmp_path / "run.json"
    command = [BIN / "collector", "export", "--run", demo_run.RUN, "--format", format_]
    told = [*command, "-o", target, "--db", folder / "c.db"]
    subprocess.run(told, check=True, timeout=60)
    printed = subprocess.run(
        [*command, "--db", folder / "c.db"], capture_output=True, check=True, timeout=60
    )
    assert json.loads(target.read_bytes()) == json.loads(printed.stdout)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["report", "--run", "r9", "-o", "{}/x"], "no run 'r9'"),
        (["report", "-o", "{}/none/x"], "none/x: No such file or directory"),
        (["report", "-o", "{}"], "Is a directory"),
        (["report"], "-o/--output"),
        (["export", "-o", "x"], "--format"),
        (["export", "--format", "xml"], "invalid choice: 'xml'"),
        (["export", "--format", "ctrf", "--run", "r9"], "no run 'r9'"),
        (["export", "--format", "github", "-o", "/dev/full"], "No space left on device"),
    ],
)
def test_bad_input_is_named(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    demo_run.fill(str(tmp_path / "c.db"), 20)
    given = [argument.format(tmp_path) for argument in arguments]
    assert cli.main([*given, "--db", str(tmp_path / "c.db")]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert words in captured.err


def test_a_page_that_cannot_be_written_leaves_what_was_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    demo_run.fill(str(tmp_path / "c.db"), 20)
    target = tmp_path / "run.html"
    target.write_text("before")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert cli.main(["report", "-o", str(target), "--db", str(tmp_path / "c.db")]) == 2
    assert "run.html: No space left on device" in capsys.readouterr().err
    assert target.read_text() == "before"
    assert not list(tmp_path.glob(".run.html*"))


def test_a_database_without_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    open_store(str(tmp_path / "c.db")).close()
    for told in (["report", "-o", "-"], ["export", "--format", "ctrf"]):
        assert cli.main([*told, "--db", str(tmp_path / "c.db")]) == 2
        assert capsys.readouterr().err.count("\n") == 1
