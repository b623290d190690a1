"""What the page of a run says, against counts that were found another way."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import demo_run
import pytest
from demo_run import FULL, Made

from collector import explanation, report
from collector.outcomes import Outcome
from collector.report import labels, model
from collector.report.cluster import FULL as FULL_TESTS
from collector.report.cluster import LEAST, SHOWN, alike
from collector.report.matrix import OTHERS, matrix
from collector.report.model import CRASHES, Page, gather
from collector.report.page import headline
from collector.report.timeline import LANES, MARKS, Timeline, timeline
from collector.run import Test
from collector.store import Observation, open_store
from probe import report as reports
from probe.causes import CAUSES
from probe.coverage import Losses
from probe.diagnose import Explanation, Finding, make_case
from probe.events import Event, Exec, Exit, JsonObject, Loss
from probe.span import Span

START = 1_700_000_000_000_000_000
MS = 1_000_000


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[list[Made], Page]]:
    path = str(tmp_path_factory.mktemp("run") / "c.db")
    made = demo_run.fill(path)
    with contextlib.closing(open_store(path)) as store, demo_run.told_by_clients():
        yield made, report.build(store, demo_run.RUN)


def failing(made: list[Made]) -> list[tuple[Made, str]]:
    return [(one, one.cause) for one in made if one.cause is not None]


def test_totals(run: tuple[list[Made], Page]) -> None:
    made, page = run
    causes = Counter(cause for _, cause in failing(made))
    layers = Counter(CAUSES[cause].layer for _, cause in failing(made))
    assert (page.failed, page.ran) == (causes.total(), len(made))
    assert page.causes == causes
    assert page.layers == layers
    assert set(page.layers) == {"sandbox", "interface", "workload", "unknown"}
    sandbox = Counter(
        CAUSES[cause].primitive for _, cause in failing(made) if CAUSES[cause].layer == "sandbox"
    )
    assert page.primitives == sandbox
    assert page.crashed == sum(causes[cause] for cause in CRASHES) > 0


def test_matrices(run: tuple[list[Made], Page]) -> None:
    made, page = run
    by_domain = Counter((one.domain, cause) for one, cause in failing(made))
    found = page.by_domain
    for row, cells, ran in zip(found.rows, found.cells, found.ran, strict=True):
        assert ran == sum(one.domain == row for one in made)
        for column, count in zip(found.columns, cells, strict=True):
            assert count == by_domain[row, column]
    by_application = Counter(
        (one.application, CAUSES[cause].primitive) for one, cause in failing(made)
    )
    found = page.by_application
    assert {
        (row, column): count
        for row, cells in zip(found.rows, found.cells, strict=True)
        for column, count in zip(found.columns, cells, strict=True)
        if count
    } == by_application


def test_clusters_and_advice(run: tuple[list[Made], Page]) -> None:
    made, page = run
    want = {one.test: cause for one, cause in failing(made)}
    found = {test.id: cluster.cause for cluster in page.clusters for test in cluster.tests}
    assert found == want
    assert page.left_out == 0
    assert [one.count for one in page.clusters] == sorted(
        (one.count for one in page.clusters), reverse=True
    )
    programs = {one.verdict["advice"] for one in page.clusters if one.cause == "exec.not_found"}
    assert len(programs) == 2  # each is a thing of its own to mend
    assert page.advice[0].frees == max(
        count
        for cause, count in page.causes.items()
        if CAUSES[cause].layer in ("sandbox", "interface")
    )
    assert not {"workload.failed", "unknown"} & {
        cause for one in page.advice for cause in one.causes
    }


def test_coverage_and_losses(run: tuple[list[Made], Page]) -> None:
    made, page = run
    files = next(one for one in page.senses if one.name == "files")
    assert files.full + files.none == len(made)
    assert files.none == page.engines["portable"] >= page.causes["unknown"]
    assert files.reasons == ("none: no BPF LSM",)
    assert files.lost > 0
    assert page.unseen == page.guessed == 0


def test_losses_that_events_tell_of() -> None:
    lost = Loss(sequence=1, time_ns=START, pid=100, sense="exec", count=7)
    test = a_test()
    page = gather("r", [(test, told(test, (lost,)))])
    assert {one.name: one.lost for one in page.senses if one.lost} == {"exec": 7}


def test_the_headline(run: tuple[list[Made], Page]) -> None:
    _, page = run
    said = headline(page)
    assert said.startswith(f"{page.failed} of 600 failed: ")
    assert f"{page.primitives['memory'] / page.failed:.0%}".replace("%", " % memory") in said
    assert f"; {page.layers['interface']} interface, " in said
    assert f"{page.layers['workload']} the work itself" in said


def a_test(test: str = "t", events: tuple[Event, ...] = (), **fields: object) -> Test:
    values = {"exit_code": 1, "ended_ns": START + 1000 * MS, "outcome": "failed", **fields}
    span = Span(1, "r", test, ("x",), "s", "b", 100, START, **values)  # type: ignore[arg-type]
    return Test(test, None, (Observation(span, FULL, Losses()),))


def told(
    test: Test, events: tuple[Event, ...] = (), cause: str = "fs.missing", advice: str = "do"
) -> JsonObject:
    """A report with that verdict, which rests on the first event."""
    evidence = tuple(event.id for event in events[:1])
    found = Explanation(Finding(cause, 0.9, f"why {test.id}", advice, evidence))
    return {**reports.build(make_case(test.span("r"), events, FULL), found), "match": None}


def test_nothing_failed() -> None:
    page = gather("r", [(a_test(exit_code=0, outcome="passed"), None)])
    assert (page.failed, page.passed, page.clusters, page.by_domain.rows) == (0, 1, (), ())
    assert headline(page) == "0 of 1 failed"
    assert "Nothing failed." in report.render(page)


def test_a_test_that_no_probe_saw() -> None:
    test = Test("suite/t", Outcome("suite/t", "t", "failed", message="boo"))
    [(_, found)] = [(test, {**told(test), "match": None})]
    page = gather("r", [(test, found)])
    assert page.unseen == 1
    [detail] = page.clusters[0].tests
    assert (detail.application, detail.domain, detail.message) == ("tests", "suite", "boo")
    assert detail.timeline == Timeline(0)


@pytest.mark.parametrize(
    ("test", "domain"),
    [("a/b.py::t", "a"), ("a::b", "a"), ("a.b", "a"), ("./x/y", "x"), ("t", "t"), ("/", "tests")],
)
def test_the_domain_without_a_label(test: str, domain: str) -> None:
    assert labels.domain(a_test(test)) == domain
    assert labels.application(a_test(test)) == "tests"


def test_labels_come_first() -> None:
    test = a_test("a/b", labels={"application": "shop", "domain": "pay"})
    assert (labels.application(test), labels.domain(test)) == ("shop", "pay")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("raise /box-17 to 1.5 GiB", "raise /box-4 to 64 MiB", True),
        ("see 3fa9c2d41b7e", "see 0b1c2d3e4f5a", True),
        (
            "raise the memory limit of /box-x_qyb to 1.5 GiB",
            "raise the memory limit of /a/irue.scope to 64 MiB",
            True,
        ),
        ("raise pids.max of /box-x_qyb above 64", "raise pids.max of /a above 9", True),
        ("change the owner of /srv", "change the owner of /opt", False),
        ("start 127.0.0.1:5432", "start 127.0.0.1:6379", False),
        ("install jq", "install yq", False),
        ("use libssl.so.1.1", "use libssl.so.3.0", False),
    ],
)
def test_what_is_alike(one: str, other: str, same: bool) -> None:
    assert (alike(one) == alike(other)) is same


def test_a_matrix_has_a_bounded_size() -> None:
    pairs = [(f"r{n % 30:02}", f"c{n % 7}") for n in range(1000)]
    ran = Counter({f"r{n:02}": 100 for n in range(40)})
    found = matrix(pairs, ran, 5, 3, lambda name: (0, name))
    assert (len(found.rows), len(found.columns)) == (6, 4)
    assert found.rows[-1] == found.columns[-1] == OTHERS
    assert sum(sum(cells) for cells in found.cells) == 1000
    assert sum(found.ran) == 3000  # of the rows in which something failed


def test_a_large_run_is_shown_in_part() -> None:
    def tests() -> Iterator[tuple[Test, JsonObject]]:
        for number in range(FULL_TESTS + 500):
            test = a_test(f"a{number}")
            yield test, told(test, advice="mend the one thing")
        for number in range(LEAST + 3):
            test = a_test(f"b{number}")
            yield test, told(test, advice="mend another thing")

    page = gather("r", tests())
    large, small = page.clusters
    assert (large.count, small.count) == (FULL_TESTS + 500, LEAST + 3)
    assert len(large.tests) + len(small.tests) == FULL_TESTS
    assert len(small.tests) == LEAST
    assert page.left_out == 508
    assert "508 failing tests are counted, but not shown in full." in report.render(page)


def test_very_many_explanations_are_shown_in_part() -> None:
    def tests() -> Iterator[tuple[Test, JsonObject]]:
        for number in range(FULL_TESTS + 1000):
            test = a_test(f"a{number}")
            word = "".join(chr(ord("a") + int(digit)) for digit in str(number))
            yield test, told(test, advice=f"install {word}")

    page = gather("r", tests())
    assert len(page.clusters) == SHOWN
    assert page.clusters_left_out == FULL_TESTS + 1000 - SHOWN
    assert page.failed == FULL_TESTS + 1000
    assert page.left_out >= page.failed - SHOWN
    assert "more explanations, of fewer tests each, are not shown" in report.render(page)


def test_a_long_story_is_shown_in_part() -> None:
    common = {"ppid": 100, "comm": "sh"}
    events: list[Event] = []
    for number in range(200):
        pid, at = 101 + number, START + number * MS
        events.append(Exec(sequence=2 * number, time_ns=at, pid=pid, path="/bin/x", **common))  # type: ignore[arg-type]
        events.append(
            Exit(
                sequence=2 * number + 1, time_ns=at + 10, pid=pid, code=int(number == 150), **common
            )  # type: ignore[arg-type]
        )
    root = Exit(sequence=999, time_ns=START + 300 * MS, pid=100, ppid=1, comm="sh", code=1)
    report_ = told(a_test(), (*events, root))
    report_["verdict"]["evidence"] = ["e300"]
    found = timeline(report_)
    assert len(found.lanes) == LANES
    assert len(found.marks) <= MARKS
    assert found.lanes_left_out == 201 - LANES
    assert found.marks_left_out == 401 - len(found.marks)
    assert (found.lanes[0].pid, found.lanes[0].depth, found.lanes[0].ended) == (100, 0, "exit 1")
    assert all(lane.depth == 1 for lane in found.lanes[1:])
    roles = {(found.lanes[mark.lane].pid, mark.role) for mark in found.marks}
    assert {(251, "evidence"), (251, "failure"), (100, "failure")} <= roles
    assert [mark.at for mark in found.marks] == sorted(mark.at for mark in found.marks)


def test_processes_in_a_circle() -> None:
    """Numbers that were used again make parents of each other's children."""
    events = tuple(
        Exit(sequence=number, time_ns=START, pid=pid, ppid=parent, comm="x", code=1)
        for number, (pid, parent) in enumerate([(5, 6), (6, 5), (7, 7)])
    )
    found = timeline(told(a_test(), events))
    assert {lane.pid for lane in found.lanes} == {5, 6, 7}


def test_every_test_and_the_reports_of_those_that_failed(tmp_path: Path) -> None:
    path = str(tmp_path / "c.db")
    made = demo_run.fill(path, 40)
    with contextlib.closing(open_store(path)) as store:
        found = {test.id: report for test, report in explanation.each(store, demo_run.RUN)}
    assert found.keys() == {one.test for one in made}
    assert {name for name, report in found.items() if report} == {
        one.test for one, _ in failing(made)
    }


def test_the_order_of_causes_is_that_of_the_vocabulary(run: tuple[list[Made], Page]) -> None:
    _, page = run
    order = [model._CAUSE_ORDER[cause] for cause in page.by_domain.columns]
    assert order == sorted(order)
