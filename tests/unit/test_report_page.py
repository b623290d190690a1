"""The page of a run is safe, whatever workloads say."""

from __future__ import annotations

import json
from html.parser import HTMLParser

from hypothesis import given, settings
from hypothesis import strategies as st

from collector import report
from collector.report.model import gather
from collector.run import Test
from collector.store import Observation
from probe import report as reports
from probe.coverage import SENSES, Coverage, Losses
from probe.diagnose import Dismissal, Explanation, Finding, make_case
from probe.events import Event, Exec, Exit, File
from probe.span import Span

NASTY = (
    *("</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<!--", "-->", "]]>"),
    *("\"'><b>", "&lt;b&gt;", "\x1b[31m", "\x00", "\u202e", "\u2028", "${run}", "$data", "\\u003c"),
    *("javascript:alert(1)", "{{7*7}}", "`", "</style>", "</title>", "\ud800", "%0A::error::"),
)
HOSTILE = st.lists(st.sampled_from(NASTY) | st.text(max_size=5), min_size=1, max_size=4).map(
    "".join
)


def page_of(words: str) -> str:
    """With those words wherever a workload or a harness has a say."""
    coverage = Coverage(f"x{words}", {**dict.fromkeys(SENSES, "full"), "dns": f"none: {words}"})
    span = Span(
        key=1, run=f"r{words}", test=f"t{words}", command=("sh", words), sandbox=f"s{words}",
        boot="b", pid=10, started_ns=1_000_000_000, ended_ns=2_000_000_000, exit_code=1,
        outcome="failed", message=f"m{words}",
        labels={"application": f"a{words}", "domain": f"d{words}"},
    )  # fmt: skip
    common = {"time_ns": 1_500_000_000, "pid": 10, "ppid": 1, "comm": f"c{words}"}
    events: tuple[Event, ...] = (
        Exec(sequence=1, **common, path=f"/{words}"),  # type: ignore[arg-type]
        File(sequence=2, **common, syscall="openat", path=f"/{words}", errno="EROFS"),  # type: ignore[arg-type]
        Exit(sequence=3, **common, code=1, last_words=f"w{words}"),  # type: ignore[arg-type]
    )
    test = Test(span.test, None, (Observation(span, coverage, Losses({f"l{words}": 3})),))
    texts = (f"why {words}", f"do {words}")
    found = Explanation(
        Finding("memory.cgroup_oom", 0.9, *texts, ("e2",)),
        (Finding("fs.missing", 0.4, *texts),),
        (Dismissal("e1", f"because {words}"),),
    )
    built = reports.build(make_case(span, events, coverage), found)
    return report.render(gather(span.run, [(test, {**built, "match": None})]))


class Structure(HTMLParser):
    """Tags with the names of their attributes, in order; what the script is given."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, tuple[str, ...]]] = []
        self.data = ""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, tuple(name for name, _ in attributes)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] == ("script", ("type", "id")):
            self.data += data


def structure(page: str) -> Structure:
    parsed = Structure()
    parsed.feed(page)
    parsed.close()
    return parsed


HARMLESS = structure(page_of("x"))


@given(HOSTILE)
@settings(max_examples=300)
def test_no_words_change_what_the_page_is_made_of(words: str) -> None:
    page = page_of(words)
    found = structure(page)
    assert found.tags == HARMLESS.tags
    assert all(character.isprintable() or character == "\n" for character in page)
    page.encode()
    [cluster] = json.loads(found.data.partition("\n")[0])["clusters"]
    [test] = cluster["tests"]
    assert test["id"].startswith("t") and test["application"].startswith("a")
    assert len(test["timeline"]["marks"]) == 3
    assert not set("<>&") & set(found.data.partition("\n")[0])


def test_nothing_is_fetched() -> None:
    page = page_of("x")
    for word in ("http:", "https:", "//cdn", "src=", "url(", "@import", "fetch(", "innerHTML"):
        assert word not in page
    assert "default-src &#x27;none&#x27;" in page
