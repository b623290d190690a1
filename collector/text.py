"""A run's overview for people: the groups, the largest first, each with its tests."""

from __future__ import annotations

import shlex

from collector.explanation import Group, Overview
from probe.terminal import Terminal

_SHOWN = 20  # tests of a group
GUESSED = "by sandbox and time alone, not by a test's id: less is sure"


def render(overview: Overview, terminal: Terminal) -> None:
    """One line of counts, then a paragraph for each cause."""
    passed = "passed or skipped" if overview.skips_unknown else "passed"
    terminal.line(
        terminal.style(f"run {shlex.quote(overview.run)}: ", "bold"),
        terminal.style(f"{overview.failed} failed", *(["red"] if overview.failed else [])),
        terminal.style(f", {overview.passed} {passed}"),
        terminal.style(f", {overview.skipped} skipped" if overview.skipped else ""),
        terminal.style(f", {overview.running} still running" if overview.running else ""),
    )
    if overview.guessed:
        terminal.text(f"{overview.guessed} of them matched {GUESSED}", "", "yellow")
    for group in overview.groups:
        terminal.line()
        _render(group, terminal)
    if overview.separating:
        terminal.line()
        terminal.line(terminal.style("what failing tests show and passing ones do not:", "bold"))
    for one in overview.separating:
        counts = f"{one.failing} of {overview.failed} failing, {one.passing} of {overview.passed}"
        terminal.text(f"{one.feature}: {counts} passing", " " * 7)


def _render(group: Group, terminal: Terminal) -> None:
    verdict = group.verdict
    terminal.line(
        terminal.style(f"{len(group.tests):5}  ", "bold"),
        terminal.style(group.cause, "bold", "red"),
        terminal.style(f"  ({verdict['layer']}, {verdict['primitive']})", "dim"),
    )
    alike = f" (and {group.alike} alike)" if group.alike else ""
    terminal.text(verdict["summary"] + alike, " " * 7, "bold")
    if verdict["advice"]:
        terminal.text("→ " + verdict["advice"], " " * 7, "cyan")
    for test in group.tests[:_SHOWN]:
        terminal.line(" " * 9, terminal.style(test.test))
    more = len(group.tests) - _SHOWN
    if more > 0:
        terminal.line(
            " " * 9, terminal.style(f"… and {more} more: collector explain --json", "dim")
        )
