"""Ends that are the work's own, though something was refused before."""

from __future__ import annotations

import pytest
from test_diagnose import FULL, ROOT, at, cause, ended, span
from test_hearing import CHILD, GRANDCHILD, denied, read_only, started

from probe.diagnose import explain, make_case
from probe.events import Event, Exec, Seccomp, Signal

OWN = "workload.failed"
WATCHDOG = (
    "Timeout (0:00:01.500000)!\nThread 0x00007f8f29c83040 (most recent call first):\n"
    '  File "/usr/lib/python3.11/threading.py", line 1112 in join\n  File "x.py", line 15\n'
)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/home/ci/.viminfo", "workload.failed"),
        ("/home/ci/.python_history", "workload.failed"),
        ("/home/ci/app/__pycache__", "workload.failed"),
        ("/home/ci/app/.pytest_cache/v/cache/nodeids", "workload.failed"),
        ("/tmp/hsperfdata_root", "workload.failed"),
        ("/home/ci/app/cache", "fs.read_only"),
        ("/home/ci/history.db", "fs.read_only"),
    ],
)
def test_nobody_fails_for_what_it_keeps_for_the_next_time(path: str, expected: str) -> None:
    assert cause([read_only(1, 990, path=path), ended(2, 1000)]) == expected


def test_a_hang_that_faulthandler_ended_has_no_refusal_for_a_reason() -> None:
    assert cause([denied(1, 10), ended(2, 1600, last_words=WATCHDOG)]) == "workload.failed"


def stopped(**end: object) -> list[Event]:
    """A script whose one program sends SIGINT to another, which ends in some way."""
    return [
        started(1, 10, CHILD, "/usr/bin/server"),
        started(2, 100, GRANDCHILD, "/usr/bin/serverctl", "stop"),
        Signal(**{**at(3, 200, GRANDCHILD), "ppid": ROOT}, signal="SIGINT", target=CHILD,
               sender="process"),
        ended(4, 300, CHILD, ppid=ROOT, **end),
        ended(5, 310, GRANDCHILD, ppid=ROOT, code=0),
        ended(6, 400),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ({"code": None, "signal": "SIGINT"}, "limit.killed"),
        ({"code": 130}, "limit.killed"),
        ({"code": 1}, "workload.failed"),
    ],
    ids=["killed by it", "told so", "ended as it likes"],
)
def test_who_was_asked_to_end_was_not_killed(end: dict[str, object], expected: str) -> None:
    verdict = explain(make_case(span(), stopped(**end), FULL)).verdict
    assert verdict is not None
    assert verdict.cause == expected


def test_a_crash_whose_words_a_test_runner_repeats_is_a_crash() -> None:
    said = "ring: ring.c:9: main: Assertion `head <= 9' failed."
    events = [
        started(1, 10, CHILD, "/usr/bin/ctest"),
        started(2, 20, GRANDCHILD, "/build/test_ring", parent=CHILD),
        ended(3, 90, GRANDCHILD, ppid=CHILD, code=None, signal="SIGABRT", last_words=said),
        ended(
            4, 100, CHILD, ppid=ROOT, code=8, last_words=f"1/1 Test #1: ring\n{said}\n1 failed\n"
        ),
        ended(5, 110, code=8),
    ]
    verdict = explain(make_case(span(), events, FULL)).verdict
    assert verdict is not None
    assert (verdict.cause, verdict.evidence) == ("workload.crashed", ("e3",))


@pytest.mark.parametrize(
    ("asserted", "expected"),
    [
        ("AssertionError: 3 != 0", "fs.read_only"),
        ("#          got: '768'\n#     expected: '0'", "fs.read_only"),  # of wait(2)
        ("AssertionError: 17 != 0", "workload.failed"),
        ("AssertionError: 'north' != 'south'", "workload.failed"),
    ],
)
def test_an_assertion_is_over_a_status_or_over_something_else(asserted: str, expected: str) -> None:
    told = "pack: [Errno 30] Read-only file system\n"
    events = [
        started(1, 10, CHILD, "/usr/bin/pack"),
        read_only(2, 20, CHILD),
        ended(3, 30, CHILD, ppid=ROOT, code=3, last_words=told),
        ended(4, 600, code=1, last_words=f"{asserted}\n"),
    ]
    assert cause(events) == expected


def test_a_timeout_is_of_what_was_waited_for_and_not_of_what_was_refused_at_once() -> None:
    said = 'Traceback (most recent call last):\n  File "x.py", line 9, in main\nTimeoutError\n'
    assert cause([read_only(1, 10), ended(2, 1600, last_words=said)]) == "workload.failed"


@pytest.mark.parametrize(
    ("diff", "expected"),
    [("3c3\n< total\t8\n---\n> total\t7\n", "workload.failed"), ("", "fs.read_only")],
    ids=["and differs", "alone"],
)
def test_another_child_fails_later_with_the_same_status(diff: str, expected: str) -> None:
    """A shell goes on where a copy could not be made, and a comparison is what counts."""
    events: list[Event] = [
        started(1, 10, CHILD, "/usr/bin/cp", "a", "/srv/out"),
        read_only(2, 20, CHILD),
        ended(
            3, 30, CHILD, ppid=ROOT, code=1, last_words="cp: '/srv/out': Read-only file system\n"
        ),
    ]
    if diff:
        events += [
            started(4, 100, GRANDCHILD, "/usr/bin/diff", "a", "b"),
            ended(5, 110, GRANDCHILD, ppid=ROOT, code=1, duration_s=0.01, last_words=diff),
        ]
    assert cause([*events, ended(6, 120, last_words="not ok\n")]) == expected


def killed(*told: str) -> list[Event]:
    """A helper that the filter kills, and a script with words and a status of its own."""
    return [
        started(1, 10, CHILD, "/usr/bin/helper"),
        Seccomp(**{**at(2, 20, CHILD), "ppid": ROOT}, syscall="ptrace", action="kill_process"),
        ended(3, 21, CHILD, ppid=ROOT, code=None, signal="SIGSYS"),
        ended(4, 400, code=3, last_words="".join(f"{line}\n" for line in told)),
    ]


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (["bash: line 3: 101 Bad system call  helper"], "seccomp.denied"),
        (["helper ended with -31"], "seccomp.denied"),
        (["bash: line 3: 101 Bad system call  helper", "BUCKET: unbound variable"], OWN),
        (["helper died with -31, going on without it", "totals of the south lack"], OWN),
    ],
)
def test_who_tells_of_a_death_may_end_for_another_reason(told: list[str], expected: str) -> None:
    assert cause(killed(*told)) == expected


@pytest.mark.parametrize(("status", "expected"), [(404, OWN), (422, OWN), (502, "fs.read_only")])
def test_a_server_says_whose_fault_it_is(status: int, expected: str) -> None:
    said = f"curl: (22) The requested URL returned error: {status}\n"
    assert cause([read_only(1, 990), ended(2, 1000, code=22, last_words=said)]) == expected


def test_what_a_compiler_cannot_find_is_no_file() -> None:
    said = "App.java:6: error: cannot find symbol\n  symbol:   method sorted()\n1 error\n"
    assert cause([ended(1, 1000, last_words=said, missing=("./java", "/opt/symbol"))]) == OWN


def test_workers_that_met_with_the_same_are_no_rivals() -> None:
    events: list[Event] = []
    for number in range(2):
        pid, ms = CHILD + number, 10 + 20 * number
        events += [
            started(10 * number + 1, ms, pid, "/usr/bin/tag"),
            denied(10 * number + 2, ms + 5, pid, call="setxattr"),
            ended(10 * number + 3, ms + 8, pid, ppid=ROOT, code=255, duration_s=0.008),
        ]
    assert cause([*events, ended(30, 100, last_words="tagging failed\n")]) == "seccomp.denied"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("words: expected 3, got 2\nreport: [Errno 30] Read-only file system: '/srv/out'\n", OWN),
        ("report: [Errno 30] Read-only file system: '/srv/out'\n", "fs.read_only"),
    ],
)
def test_what_is_met_with_on_the_way_out_comes_after_the_reason(said: str, expected: str) -> None:
    assert cause([read_only(1, 990), ended(2, 1000, last_words=said)]) == expected


@pytest.mark.parametrize(
    ("status", "expected"), [(3, OWN), (None, "seccomp.denied")], ids=["its child's", "its own"]
)
def test_a_shell_ends_with_the_status_of_its_last_program(
    status: int | None, expected: str
) -> None:
    """A builtin that is refused something tells of it, and the shell goes on."""
    events: list[Event] = [
        started(1, 10, ROOT, "/usr/bin/bash", "launch.sh", parent=1),
        denied(2, 20, ROOT, call="prlimit64"),
    ]
    if status is not None:
        events += [
            started(3, 100, CHILD, "/build/encoder"),
            ended(4, 110, CHILD, ppid=ROOT, code=status, duration_s=0.01,
                  last_words="self-test: the pair of the last byte is not there\n"),
        ]  # fmt: skip
    said = "launch.sh: line 1: ulimit: open files: Operation not permitted\n"
    assert cause([*events, ended(5, 120, code=3, last_words=said)]) == expected


def test_what_a_shell_could_not_start_comes_before_what_a_child_did_without() -> None:
    """chmod f || true; frobnicate"""
    events: list[Event] = [
        started(1, 10, CHILD, "/usr/bin/chmod", "600", "f"),
        denied(2, 20, CHILD, call="fchmodat"),
        ended(3, 22, CHILD, ppid=ROOT, code=1, duration_s=0.012,
              last_words="chmod: changing permissions of 'f': Operation not permitted\n"),
        Exec(**{**at(4, 50), "ppid": 1}, path="/bin/frobnicate", argv=("frobnicate",),
             errno="ENOENT", reason="exec.not_found", searched=("/bin",)),
        ended(5, 60, code=127, last_words="bash: line 1: frobnicate: command not found\n"),
    ]  # fmt: skip
    assert cause(events) == "exec.not_found"


def test_an_expectation_of_what_an_error_kept_away_is_over_the_error() -> None:
    events: list[Event] = [
        started(1, 10, CHILD, "/usr/bin/post"),
        read_only(2, 20, CHILD),
        ended(3, 30, CHILD, ppid=ROOT, code=126, last_words="post: Read-only file system\n"),
        ended(4, 60, code=1, last_words="post: status '', wanted 201\n"),
    ]
    assert cause(events) == "fs.read_only"


def test_what_make_could_not_find_is_nothing_that_the_linker_misses() -> None:
    """The words of those above are heard as well, of programs that they looked for."""
    tool = "/usr/local/bin/jemalloc-config"
    events: list[Event] = [
        started(1, 10, CHILD, "/usr/bin/make"),
        started(2, 20, GRANDCHILD, "/usr/bin/gcc", "-o", "tool", parent=CHILD),
        ended(3, 90, GRANDCHILD, ppid=CHILD, code=1, missing=("/usr/lib/gcc/12/crtn.o",)),
        ended(4, 100, CHILD, ppid=ROOT, code=2, missing=(tool,),
              last_words="make: jemalloc-config: No such file or directory\nmake: *** Error 1\n"),
        ended(5, 110, code=2),
    ]  # fmt: skip
    assert cause(events) != "fs.missing"
