"""The corpus of the campaign: what holds of all workflows, without running any."""

from __future__ import annotations

from collections import Counter
from pathlib import Path, PurePosixPath

import pytest

from collector.campaign import PROFILES, corpus, expected, needs, profile
from collector.campaign.origin import FILES
from collector.campaign.template import filled
from collector.campaign.workflow import BROWSER, CODE, Workflow
from probe.causes import CAUSES

WORKFLOWS = corpus()
LANGUAGES = {"python", "bash", "node", "c", "java", "perl", "ruby"}
MIB = 1 << 20


def tight(workflow: Workflow) -> bool:
    """Whether any profile fails it that would pass without a limit."""
    return any(expected(workflow, name) != expected(workflow, "generous") for name in PROFILES)


def test_a_thousand_with_ids_of_their_own() -> None:
    assert len({workflow.id for workflow in WORKFLOWS}) == len(WORKFLOWS) == 1000


def test_stable_for_a_seed() -> None:
    assert corpus(0) == WORKFLOWS
    other = corpus(1)
    assert [workflow.id for workflow in other] == [workflow.id for workflow in WORKFLOWS]
    assert other != WORKFLOWS


@pytest.mark.parametrize("count", [0, 14, 160, 333])
def test_as_many_as_asked_for(count: int) -> None:
    assert len(corpus(count=count)) == count


def test_spread_over_applications_and_domains() -> None:
    assert Counter(workflow.application for workflow in WORKFLOWS) == {"code": 800, "browser": 200}
    domains = Counter(workflow.domain for workflow in WORKFLOWS)
    assert {domains[name] for name in CODE} == {80}
    assert {domains[name] for name in BROWSER} <= {33, 34}
    assert domains.keys() == {*CODE, *BROWSER}
    for workflow in WORKFLOWS:
        assert workflow.id.startswith(f"{workflow.domain}/")
        assert (workflow.domain in BROWSER) == ("chromium" in workflow.needs)


def test_every_language_is_there() -> None:
    languages = Counter(workflow.language for workflow in WORKFLOWS)
    assert languages.keys() == LANGUAGES
    assert min(languages.values()) >= 20


def test_workflows_of_a_template_differ() -> None:
    programs = Counter((workflow.command, *workflow.files.items()) for workflow in WORKFLOWS)
    assert max(programs.values()) == 1


def test_faults_of_their_own_in_every_domain() -> None:
    bugs = [workflow for workflow in WORKFLOWS if workflow.bug]
    assert len(bugs) >= 40
    assert {workflow.domain for workflow in bugs} == {*CODE, *BROWSER}
    for workflow in bugs:
        assert not tight(workflow), f"{workflow.id} has two reasons to fail"


def test_most_are_not_touched_by_any_limit() -> None:
    touched = Counter(tight(workflow) for workflow in WORKFLOWS)
    assert touched[False] >= 600
    for name in PROFILES[1:]:
        failing = [w for w in WORKFLOWS if not w.bug and expected(w, name) != {"none"}]
        assert len(failing) >= 40, name


def test_needs_are_of_the_vocabulary() -> None:
    for workflow in WORKFLOWS:
        for need in workflow.needs:
            assert needs.valid(need), need
    assert not needs.valid("syscall:") and not needs.valid("memory:much") and not needs.valid("sun")


def test_memory_is_far_from_the_limits() -> None:
    """What touches about as much as a sandbox has would fail only now and then."""
    for workflow in WORKFLOWS:
        limit = profile("tight-memory", workflow.application).memory
        touched = needs.memory(workflow.needs) * MIB
        assert limit is not None
        assert touched == 0 or touched < 0.7 * limit or touched > 1.25 * limit, workflow.id


def test_files_stay_in_their_directory() -> None:
    for workflow in WORKFLOWS:
        for name, text in workflow.files.items():
            path = PurePosixPath(name)
            assert not path.is_absolute() and ".." not in path.parts and name == str(path)
            assert "\0" not in name + text


def test_laying_writes_what_is_described(tmp_path: Path) -> None:
    workflow = WORKFLOWS[0]
    workflow.lay(tmp_path)
    laid = {
        str(path.relative_to(tmp_path)): path.read_bytes().decode()
        for path in tmp_path.rglob("*")
        if path.is_file()
    }
    assert laid == workflow.files


@pytest.mark.parametrize("name", PROFILES)
def test_something_is_expected_of_all(name: str) -> None:
    for workflow in WORKFLOWS:
        causes = expected(workflow, name)
        assert causes and causes <= {"none", *CAUSES}
        assert "none" not in causes or causes == {"none"}
        assert not (workflow.bug and "none" in causes)


def test_in_the_generous_sandbox_only_faults_fail() -> None:
    for workflow in WORKFLOWS:
        assert (expected(workflow, "generous") == {"none"}) == (not workflow.bug)


def test_a_place_without_a_value_is_told() -> None:
    assert filled("@a@ and @b.c@, ada@example.org", {"a": "1", "b.c": "2"}) == (
        "1 and 2, ada@example.org"
    )
    with pytest.raises(KeyError):
        filled("@missing@", {})


def test_the_origin_serves_the_same_each_time() -> None:
    for _, make in FILES.values():
        assert make() == make()
