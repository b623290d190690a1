"""`collector mcp`: the tools of a whole fuzz run, each a question to the database."""

from __future__ import annotations

from collector import comparison, explanation
from collector.store import Store
from probe.events import JsonObject
from probe.mcp_server import (
    COUNT,
    FORMAT,
    LIST,
    PAGE,
    QUOTED,
    REPORT,
    TEXT,
    Tool,
    brief,
    detailed,
    page,
    serve,
    told,
)
from probe.terminal import shorten

_RUNS = 20
_RUN: JsonObject = {"type": "string", "description": "a run; the latest where none is named"}
_NAMED = 5  # tests of a group, or of a list of changes, in the text


def run(store: Store) -> None:
    """Serves on stdio until the client goes."""
    serve("sandbox-collector", Tools(store).tools)


class Tools:
    """What can be asked of one database."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def tools(self) -> tuple[Tool, ...]:
        return (
            Tool(
                "list_failures",
                "List failures",
                "The failing tests of a run, grouped by cause, the largest group first: how many, "
                "why, and what to do.",
                {"run": _RUN, **PAGE},
                {"text": TEXT, "run": TEXT, "groups": LIST, "next": COUNT},
                self._list,
            ),
            Tool(
                "explain_failure",
                "Explain a failure",
                "Why one test of a run failed: the cause, whether the sandbox, the interface or "
                "the work is at fault, and what to do.",
                {"run": _RUN, "test": TEXT, "response_format": FORMAT},
                {"text": TEXT, "run": TEXT, "report": REPORT},
                self._explain,
                required=("test",),
            ),
            Tool(
                "compare_runs",
                "Compare runs",
                "What broke between two runs (images, profiles, weeks): tests that pass in one "
                "and fail in the other, and those that fail for another cause.",
                {"run_a": TEXT, "run_b": TEXT, **PAGE},
                {
                    "text": TEXT,
                    **{
                        name: {"type": "integer"} for name in ("same", "broke", "mended", "changed")
                    },
                    "changes": LIST,
                    "next": COUNT,
                },
                self._compare,
                required=("run_a", "run_b"),
            ),
            Tool(
                "list_runs",
                "List runs",
                "The runs of this database, the one that was begun last first.",
                {},
                {"text": TEXT, "runs": {"type": "array", "items": TEXT}},
                self._runs,
            ),
        )

    def _run(self, arguments: JsonObject) -> str:
        return explanation.choose_run(self._store, arguments.get("run"))

    def _runs(self, arguments: JsonObject) -> JsonObject:
        found = self._store.runs(_RUNS)
        return {"text": ", ".join(found) or "the database knows no run", "runs": found}

    def _list(self, arguments: JsonObject) -> JsonObject:
        run = self._run(arguments)
        overview = explanation.overview(self._store, run)
        groups = [_group(group.as_json()) for group in overview.groups]
        part, after = page(groups, arguments)
        counts = f"run {run}: {overview.failed} failed, {overview.passed} passed"
        lines = [f"{one['count']} {one['cause']}: {one['summary']}" for one in part]
        text = "\n".join([counts, *(shorten(line, QUOTED) for line in lines)])
        return {"text": text, "run": run, "groups": part, "next": after}

    def _explain(self, arguments: JsonObject) -> JsonObject:
        run = self._run(arguments)
        report = explanation.of_test(self._store, run, arguments["test"])
        full = arguments["response_format"] == "detailed"
        shown = detailed(report) if full else brief(report)
        return {"text": told(brief(report)), "run": run, "report": shown}

    def _compare(self, arguments: JsonObject) -> JsonObject:
        found = comparison.compare(self._store, arguments["run_a"], arguments["run_b"])
        kinds = {"broke": found.broke, "mended": found.mended, "changed": found.changed}
        changes = [
            {
                "test": one.test,
                "change": kind,
                "before": _short(one.before),
                "after": _short(one.after),
            }
            for kind, several in kinds.items()
            for one in several
        ]
        part, after = page(changes, arguments)
        counts = {name: len(several) for name, several in kinds.items()}
        told = ", ".join(f"{count} {name}" for name, count in counts.items())
        lines = [f"{one['change']}: {one['test']}" for one in part[:_NAMED]]
        text = "\n".join([f"{told}, {found.same} alike", *lines])
        return {"text": text, "same": found.same, **counts, "changes": part, "next": after}


def _group(group: JsonObject) -> JsonObject:
    kept = {name: group[name] for name in ("cause", "layer", "count")}
    texts = {name: shorten(group[name], QUOTED) for name in ("summary", "advice")}
    return {**kept, **texts, "tests": [shorten(one, QUOTED) for one in group["tests"][:_NAMED]]}


def _short(verdict: JsonObject | None) -> JsonObject | None:
    if verdict is None:
        return None
    return {"cause": verdict["cause"], "summary": shorten(verdict["summary"], QUOTED)}
