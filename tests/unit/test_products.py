"""What a command line says that its program is to make."""

from __future__ import annotations

import pytest

from probe.diagnose.products import products


@pytest.mark.parametrize(
    ("argv", "made"),
    [
        ("curl -s -o build/answer.json http://h/status", {"answer.json", "status"}),
        ("wget -q http://h/model.tar -O model.tar", {"model.tar"}),
        ("wget http://h/data.csv", {"data.csv"}),
        ("gcc -O2 -o out/tool tool.c", {"tool"}),
        ("sort --output=sorted.txt in.txt", {"sorted.txt"}),
        ("dd if=/dev/zero of=disk.img bs=1M", {"disk.img"}),
        ("cp -r src/alpha dist/beta", {"beta"}),
        ("tee first.log second.log", {"first.log", "second.log"}),
        ("tar czf site.tgz public", {"site.tgz"}),
        ("git clone https://h/team/repo.git", {"repo"}),
        ("cat in.txt", set()),
        ("head -n 3 in.txt", set()),
        ("true", set()),
        ("", set()),
    ],
)
def test_products(argv: str, made: set[str]) -> None:
    assert set(products(argv.split())) == made


def test_what_a_shell_redirects() -> None:
    script = "./shape > out/got 2>/dev/null; ls >> list.txt 2>&1"
    assert set(products(["sh", "-c", script])) == {"got", "list.txt"}


def test_what_stands_before_the_program_that_makes_it() -> None:
    assert set(products("nice -n 19 ionice -c 3 tar czf backup.tgz data".split())) == {"backup.tgz"}
    assert set(products("timeout 20 curl -s -o page.html http://h/".split())) >= {"page.html"}


def test_any_number_of_programs_before_it() -> None:
    """Not one step of recursion each: who sends a report may say anything."""
    assert "page.html" in set(products(["tee"] * 20_000 + ["page.html"]))
