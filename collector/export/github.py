"""Workflow commands of GitHub Actions: an annotation for each explanation, the largest first.

GitHub shows ten errors and ten warnings of a step, so there is one for all tests with the same
explanation, and what goes beyond is counted in a last one.
"""

from __future__ import annotations

from collections.abc import Iterator

from collector import report
from collector.report.cluster import Cluster
from collector.report.page import headline
from collector.store import Store
from probe.terminal import escape, shorten

_SHOWN = 10  # annotations of one level that GitHub takes from a step
_NAMED = 5  # tests
_LIMIT = 2000  # characters of a message
_LEVELS = {"unknown": "warning"}  # all else is an error


def render(store: Store, run: str) -> str:
    """One command a line; none where nothing failed."""
    page = report.build(store, run)
    if not page.failed:
        return ""
    return (
        "\n".join([*_clusters(page.clusters), _command("notice", f"run {run}", headline(page))])
        + "\n"
    )


def _clusters(clusters: tuple[Cluster, ...]) -> Iterator[str]:
    shown: dict[str, int] = {"error": 0, "warning": 0}
    left = 0
    for cluster in clusters:
        level = _LEVELS.get(cluster.verdict["layer"], "error")
        shown[level] += 1
        if shown[level] > _SHOWN:
            left += 1
            continue
        tests = "test" if cluster.count == 1 else "tests"
        yield _command(level, f"{cluster.cause}: {cluster.count} {tests}", _message(cluster))
    if left:
        yield _command("notice", "sandbox-probe", f"{left} more explanations: collector explain")


def _message(cluster: Cluster) -> str:
    named = [test.id for test in cluster.tests[:_NAMED]]
    more = cluster.count - len(named)
    tests = ", ".join([*named, *([f"{more} more"] if more else [])])
    verdict = cluster.verdict
    lines = [verdict["summary"], f"→ {verdict['advice']}" if verdict["advice"] else "", tests]
    return "\n".join(line for line in lines if line)


def _command(level: str, title: str, message: str) -> str:
    """https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands"""
    name = _data(escape(title)).replace(":", "%3A").replace(",", "%2C")
    lines = "\n".join(escape(line) for line in shorten(message, _LIMIT).split("\n"))
    return f"::{level} title={name}::{_data(lines)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
