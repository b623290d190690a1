"""A run's overview for people: the groups, the largest first, each with its tests."""

from __future__ import annotations

import shlex
import sys
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from collector.comparison import Change, Comparison
from collector.explanation import Group, Overview
from probe.terminal import Terminal

if TYPE_CHECKING:
    from collector.fuzz import Accuracy

_SHOWN = 20  # tests of a group
_NAMED = 6  # causes of a campaign
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


def render_comparison(found: Comparison, terminal: Terminal) -> None:
    """What broke first, grouped by its cause."""
    terminal.line(
        terminal.style(f"{shlex.quote(found.run_a)} → {shlex.quote(found.run_b)}: ", "bold"),
        terminal.style(f"{len(found.broke)} broke", *(["red"] if found.broke else [])),
        terminal.style(f", {len(found.mended)} mended, {len(found.changed)} for another cause, "),
        terminal.style(f"{found.same} alike"),
    )
    for count, run in ((found.only_a, found.run_a), (found.only_b, found.run_b)):
        if count:
            terminal.text(f"{count} tests are in {shlex.quote(run)} alone", "  ", "dim")
    _changes("broke", found.broke, terminal)
    _changes("fails for another cause", found.changed, terminal)
    _changes("mended", found.mended, terminal)


class Progress:
    """One line that grows on a terminal; elsewhere a line each tenth."""

    def __init__(self, run: str) -> None:
        self._run, self._told = run, -1
        self._terminal = Terminal(sys.stderr)
        self._live = sys.stderr.isatty()

    def __call__(self, done: int, total: int, failed: int) -> None:
        tenth = 10 * done // max(1, total)
        if not self._live and tenth == self._told:
            return
        self._told = tenth
        line = f"{self._run}: {done} of {total}, {failed} failed"
        if self._live and done < total:
            sys.stderr.write(f"\r{self._terminal.style(line)}")
            sys.stderr.flush()
        else:
            self._terminal.line("\r" if self._live else "", self._terminal.style(line))


def render_accuracy(name: str, found: Accuracy, terminal: Terminal) -> None:
    """What a campaign came to, and each explanation that is not what the profile implies."""
    causes = ", ".join(f"{count} {cause}" for cause, count in found.causes.most_common(_NAMED))
    terminal.line(
        terminal.style(f"{name}: ", "bold"),
        terminal.style(f"{found.passed} passed, {found.failed} failed"),
        terminal.style(f" ({causes})" if causes else ""),
        terminal.style(f"; {found.right} of {found.failed} explained as they should be"),
        terminal.style(f", {len(found.false_blame)} sandboxes blamed wrongly"),
    )
    for told in (*found.false_blame, *found.wrong)[:_SHOWN]:
        terminal.text(told, "  ", "yellow")


def _changes(what: str, changes: Sequence[Change], terminal: Terminal) -> None:
    by_cause: dict[str, list[Change]] = defaultdict(list)
    for change in changes:
        told = change.after or change.before
        assert told is not None, "a change has at least one side that failed"
        by_cause[told["cause"]].append(change)
    for cause, alike in sorted(by_cause.items(), key=lambda item: -len(item[1])):
        told = alike[0].after or alike[0].before
        terminal.line()
        terminal.line(
            terminal.style(f"{len(alike):5}  ", "bold"),
            terminal.style(f"{what}: ", "bold"),
            terminal.style(cause, "bold", "red" if what != "mended" else "green"),
        )
        if told is not None and what != "mended":
            terminal.text(told["summary"], " " * 7)
            terminal.text("→ " + told["advice"], " " * 7, "cyan")
        for change in alike[:_SHOWN]:
            terminal.text(change.test, " " * 9, "dim")
        if len(alike) > _SHOWN:
            terminal.text(f"and {len(alike) - _SHOWN} more", " " * 9, "dim")


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
