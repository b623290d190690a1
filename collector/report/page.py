"""The page of a run as HTML: one file that asks nobody for anything.

Texts come from workloads, and are hostile: here they go through html.escape or, for the script,
through JSON in which no character means anything to HTML; the script sets nothing but text. A
policy in the page lets a browser run and apply only what is named by its hash.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import math
from collections.abc import Iterable
from html import escape
from importlib import resources
from string import Template

import probe
from collector.report.cluster import Cluster
from collector.report.matrix import Matrix
from collector.report.model import Advice, Crash, Page, Sense
from probe.causes import CAUSES
from probe.events import JsonObject

LEVELS = 7  # of a heat map's scale
LAYER_NAMES = {
    "sandbox": "the sandbox",
    "interface": "the interface",
    "workload": "the work itself",
    "unknown": "unknown",
}
_SHORT = {"interface": "interface", "workload": "the work itself", "unknown": "unknown"}
_HELD = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def render(page: Page) -> str:
    """The whole document."""
    style, script = _resource("page.css"), _resource("page.js")
    return Template(_resource("page.html")).substitute(
        policy=escape(_policy(style, script)),
        style=style,
        script=script,
        data=_data(page),
        title=escape(f"{page.run or 'a run'}: {page.failed} of {page.ran} failed"),
        run=escape(page.run or "(no name)"),
        headline=escape(f"{page.failed} of {page.ran} failed"),
        reasons=escape(reasons(page)).replace(" % ", "&nbsp;%&nbsp;"),
        counts=escape(_counts(page)),
        bar=_bar(page),
        tiles="".join(_tiles(page)),
        advice=_advice(page),
        crashes=_crashes(page),
        applications=_heat_map(page.by_application, "application", "primitive"),
        domains=_heat_map(page.by_domain, "domain", "cause"),
        notes="".join(f'<p class="note">{escape(note)}</p>' for note in _notes(page)),
        senses="".join(map(_sense, page.senses)),
        engines=escape(", ".join(f"{name} ({count})" for name, count in page.engines.items())),
        version=escape(probe.__version__),
    )


def headline(page: Page) -> str:
    """The run in one line: 212 of 1000 failed: 61 % memory, …; 9 interface, 14 the work itself."""
    why = reasons(page)
    return f"{page.failed} of {page.ran} failed" + (f": {why}" if why else "")


def reasons(page: Page) -> str:
    """The sandbox's primitives in percent of all failures, then the other layers' counts."""
    shares = [f"{_share(count, page.failed)} {name}" for name, count in page.primitives.items()]
    others = [
        f"{page.layers[layer]} {name}" for layer, name in _SHORT.items() if page.layers[layer]
    ]
    return "; ".join(", ".join(part) for part in (shares, others) if part)


def _share(count: int, whole: int) -> str:
    """In percent, of which a few are never none."""
    percent = round(100 * count / whole)
    return f"{percent} %" if percent else "<1 %"


def _resource(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """Nothing is fetched, and what workloads smuggle in is neither run nor applied."""
    hashes = {name: _hash(text) for name, text in (("style", style), ("script", script))}
    allowed = "; ".join(f"{name}-src '{value}'" for name, value in hashes.items())
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _data(page: Page) -> str:
    """For the script. ASCII, and without <, > and &."""
    clusters = [_cluster(cluster) for cluster in page.clusters]
    return json.dumps({"clusters": clusters}, separators=(",", ":")).translate(_HELD)


def _cluster(cluster: Cluster) -> JsonObject:
    names = ("cause", "layer", "primitive", "summary", "advice")
    return {
        **{name: cluster.verdict[name] for name in names},
        "count": cluster.count,
        "confidence": cluster.confidence,
        "tests": [dataclasses.asdict(test) for test in cluster.tests],
    }


def _counts(page: Page) -> str:
    passed = "passed or skipped" if page.skips_unknown else "passed"
    told = [f"{page.passed} {passed}"]
    told += [f"{page.skipped} skipped"] if page.skipped else []
    told += [f"{page.running} still running"] if page.running else []
    return ", ".join(told)


def _bar(page: Page) -> str:
    """All failures side by side, by layer."""
    at, parts = 0.0, []
    for layer, count in page.layers.items():
        share = 100 * count / max(1, page.failed)
        parts.append(
            f'<rect class="layer-{layer}" x="{at:.3f}%" width="{share:.3f}%" height="100%">'
            f"<title>{count} {escape(LAYER_NAMES[layer])}</title></rect>"
        )
        at += share
    return "".join(parts)


def _tiles(page: Page) -> Iterable[str]:
    for layer, count in page.layers.items():
        yield (
            f'<li class="tile layer-{layer}"><b>{count}</b> <span>{escape(LAYER_NAMES[layer])}'
            "</span></li>"
        )
    if page.crashed:
        yield f'<li class="tile crash"><b>{page.crashed}</b> <span>in sandbox crashes</span></li>'


def _advice(page: Page) -> str:
    if not page.advice:
        return '<p class="note">Nothing about the sandboxes or the interface needs a change.</p>'
    most = page.advice[0].frees
    items = "".join(_step(step, most) for step in page.advice)
    return f'<ol class="advice">{items}</ol>'


def _step(step: Advice, most: int) -> str:
    causes = " ".join(_cause(cause) for cause in step.causes)
    tests = "test" if step.frees == 1 else "tests"
    share = f"{100 * step.frees / most:.1f}%"
    return (
        f'<li><span class="frees"><b>{step.frees}</b> {tests}'
        f'<svg aria-hidden="true"><rect width="{share}" height="100%"/></svg>'
        f'</span><span class="words">{escape(step.words)}</span>'
        f'<span class="causes">{causes} <span class="dim">{step.confidence:.0%} sure</span></span>'
        "</li>"
    )


def _cause(cause: str) -> str:
    layer = CAUSES[cause].layer
    return f'<code class="cause layer-{layer}">{escape(cause)}</code>'


def _crashes(page: Page) -> str:
    if not page.crashes:
        return ""
    rows = "".join(map(_crash, page.crashes))
    more = page.crashed - sum(crash.count for crash in page.crashes)
    note = f'<p class="note">and {more} tests in other sandboxes</p>' if more else ""
    return (
        '<section class="crashes" aria-labelledby="crashes"><h2 id="crashes">Sandbox crashes '
        f'<span class="number">{page.crashed} tests</span></h2>'
        '<div class="wide"><table><thead><tr><th scope="col">sandbox</th><th scope="col">cause</th>'
        '<th scope="col" class="number">tests</th><th scope="col">what happened</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>{note}</section>"
    )


def _crash(crash: Crash) -> str:
    more = crash.count - len(crash.tests)
    tests = ", ".join([*crash.tests, *([f"{more} more"] if more else [])])
    return (
        f'<tr><th scope="row"><code>{escape(crash.sandbox or "(unknown)")}</code></th>'
        f'<td><code class="cause crash">{escape(crash.cause)}</code></td>'
        f'<td class="number">{crash.count}</td>'
        f"<td><details><summary>{escape(crash.summary)}</summary>"
        f'<span class="dim">{escape(tests)}</span></details></td></tr>'
    )


def _heat_map(found: Matrix, row_name: str, column_name: str) -> str:
    """Cells are buttons, which show their tests alone."""
    if not found.rows:
        return '<p class="note">Nothing failed.</p>'
    head = "".join(
        f'<th scope="col" class="{_column_class(column)}"><span>{escape(column)}</span></th>'
        for column in found.columns
    )
    body = "".join(
        _heat_row(found, number, row_name, column_name) for number in range(len(found.rows))
    )
    sums = [sum(cells) for cells in zip(*found.cells, strict=True)]
    foot = "".join(f'<td class="number">{count}</td>' for count in sums)
    return (
        f'<div class="wide"><table class="heat"><caption>failing tests by {row_name} and '
        f"{column_name}</caption><thead><tr><td></td>{head}"
        '<th scope="col"><span>failed</span></th><th scope="col"><span>of</span></th></tr></thead>'
        f'<tbody>{body}</tbody><tfoot><tr><th scope="row">all</th>{foot}'
        f'<td class="number">{sum(sums)}</td><td class="number dim">{sum(found.ran)}</td>'
        "</tr></tfoot></table></div>"
    )


def _column_class(column: str) -> str:
    """The layer of a cause; a primitive's is that of its causes."""
    layers = [one.layer for one in CAUSES.values() if column in (one.id, one.primitive)]
    return f"layer-{layers[0]}" if layers else ""


def _heat_row(found: Matrix, number: int, row_name: str, column_name: str) -> str:
    row = found.rows[number]
    cells = "".join(
        _cell(count, found.most, {row_name: row, column_name: column})
        for column, count in zip(found.columns, found.cells[number], strict=True)
    )
    return (
        f'<tr><th scope="row">{escape(row)}</th>{cells}'
        f'<td class="number">{sum(found.cells[number])}</td>'
        f'<td class="number dim">{found.ran[number]}</td></tr>'
    )


def _cell(count: int, most: int, about: dict[str, str]) -> str:
    if not count:
        return '<td class="none">·</td>'
    # By the root, so that a few are told from none beside a great many.
    level = max(1, math.ceil(LEVELS * math.sqrt(count / most)))
    attributes = "".join(f' data-{name}="{escape(value)}"' for name, value in about.items())
    words = escape(", ".join([f"{count} failed", *about.values()]))
    return (
        f'<td class="level-{level}"><button type="button" tabindex="-1" aria-label="{words}"'
        f"{attributes}>{count}</button></td>"
    )


def _notes(page: Page) -> Iterable[str]:
    if page.left_out:
        yield f"{page.left_out} failing tests are counted, but not shown in full."
    if page.clusters_left_out:
        yield f"{page.clusters_left_out} more explanations, of fewer tests each, are not shown."
    if page.guessed:
        yield (
            f"{page.guessed} failing tests are known by sandbox and time alone, not by an id: "
            "less is sure of them."
        )
    if page.unseen:
        yield f"{page.unseen} of {page.ran} tests were seen by no probe."


def _sense(sense: Sense) -> str:
    reasons = "<br>".join(escape(reason) for reason in sense.reasons)
    lost = f'<td class="number{" lost" if sense.lost else " dim"}">{sense.lost}</td>'
    counts = "".join(
        f'<td class="number{"" if count else " dim"}">{count}</td>'
        for count in (sense.full, sense.partial, sense.none)
    )
    return (
        f'<tr><th scope="row">{escape(sense.name)}</th>{counts}{lost}'
        f'<td class="dim">{reasons}</td></tr>'
    )
