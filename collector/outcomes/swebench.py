"""SWE-bench: an instance's report.json, and the summary of a run (swebench/harness/reporting.py).

An instance is a test; what it names inside are tests of the repository that it is about.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from collector.outcomes import fields
from collector.outcomes import outcome as kinds
from collector.outcomes.outcome import Outcome

_SUMMARY = {  # later ones win: an instance stands in several lists
    "incomplete_ids": (kinds.SKIPPED, "not submitted"),
    "empty_patch_ids": (kinds.FAILED, "the patch is empty"),
    "unresolved_ids": (kinds.FAILED, None),
    "resolved_ids": (kinds.PASSED, None),
    "error_ids": (kinds.ERROR, "the evaluation broke off"),
}
_NAMED = 20  # failing tests in a message


def recognises(value: Any) -> bool:
    """Whether the document is a summary, or holds nothing but instances."""
    document = fields.mapping(value)
    if "resolved_ids" in document:
        return True
    return bool(document) and all(
        isinstance(one, dict) and isinstance(one.get("resolved"), bool) for one in document.values()
    )


def parse(value: Any) -> list[Outcome]:
    if "resolved_ids" not in value:
        return [_instance(name, report) for name, report in value.items() if name.strip()]
    found: dict[str, Outcome] = {}
    for key, (outcome, message) in _SUMMARY.items():
        for name in filter(fields.text, fields.items(value.get(key))):
            found[name] = Outcome(name, name, outcome, message)
    return list(found.values())


def _instance(name: str, report: Mapping[str, Any]) -> Outcome:
    if report["resolved"]:
        return Outcome(name, name, kinds.PASSED)
    if report.get("patch_is_None") is True or report.get("patch_exists") is False:
        return Outcome(name, name, kinds.FAILED, "there is no patch")
    if report.get("patch_successfully_applied") is False:
        return Outcome(name, name, kinds.ERROR, "the patch could not be applied")
    return Outcome(name, name, kinds.FAILED, _failures(report) or None)


def _failures(report: Mapping[str, Any]) -> str:
    lines = []
    for group, status in fields.mapping(report.get("tests_status")).items():
        failed = [one for one in fields.items(fields.mapping(status).get("failure")) if one]
        if failed and group in ("FAIL_TO_PASS", "PASS_TO_PASS"):
            more = f" and {len(failed) - _NAMED} more" if len(failed) > _NAMED else ""
            lines.append(f"{group}: {', '.join(map(str, failed[:_NAMED]))}{more} failed")
    return "\n".join(lines)
