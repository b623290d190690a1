"""What is said of a refusal, and by whom, on stories told here."""

from __future__ import annotations

import pytest
from test_diagnose import FULL, ROOT, at, cause, ended, span

from probe.diagnose import faults, make_case, words
from probe.diagnose.explain import suspects
from probe.diagnose.story import Story, Suspect
from probe.diagnose.weighing import grounds
from probe.events import Connect, Event, Exec, File, Seccomp

CHILD, GRANDCHILD = 101, 102
THREADS = "no shared memory, threads it is: [Errno 30] Read-only file system\n"
TRACE = 'Traceback (most recent call last):\n  File "x.py", line 8, in <module>\n'
CONTEXT = "\nDuring handling of the above exception, another exception occurred:\n\n"
THROWN = "terminate called after throwing an instance of 'std::{}'\n  what():  {}\n"
GCC = "app.c:2:42: error: 'struct point' has no member named 'z'\n"
GO = './app.go:3:17: cannot use "ten" (untyped string constant) as int value\n'
JAVAC = "src/Main.java:2: error: error while writing Main: could not create parent directories\n"


def denied(sequence: int, ms: int, pid: int = ROOT, call: str = "sched_setattr") -> Seccomp:
    parent = ROOT if pid == CHILD else CHILD if pid == GRANDCHILD else 1
    return Seccomp(**{**at(sequence, ms, pid), "ppid": parent}, syscall=call, errno="EPERM")


def read_only(sequence: int, ms: int, pid: int = ROOT, path: str = "/srv/out") -> File:
    where = {**at(sequence, ms, pid), "ppid": 1 if pid == ROOT else ROOT}
    return File(**where, syscall="mkdir", path=path, errno="EROFS", mount="/srv")


def started(sequence: int, ms: int, pid: int, path: str, *argv: str, parent: int = ROOT) -> Exec:
    where = {**at(sequence, ms, pid), "ppid": parent}
    return Exec(**where, path=path, argv=(path.rsplit("/", 1)[-1], *argv))


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (THREADS + TRACE + "IndexError: list index out of range\n", "workload.failed"),
        # In one chain of exceptions, the first is the reason of the last.
        (TRACE + THREADS + CONTEXT + TRACE + "KeyError: 'a'\n", "fs.read_only"),
        (TRACE + "OSError: [Errno 30] Read-only file system: '/srv/out'\n", "fs.read_only"),
    ],
    ids=["another", "a chain", "itself"],
)
def test_an_exception_that_comes_after_what_was_told(said: str, expected: str) -> None:
    events = [read_only(1, 900), ended(2, 1000, last_words=said)]
    assert cause(events) == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (THROWN.format("out_of_range", "map::at"), "workload.crashed"),
        (THROWN.format("system_error", "Operation not permitted"), "seccomp.denied"),
    ],
)
def test_an_exception_of_cpp_tells_whether_it_is_of_the_system(said: str, expected: str) -> None:
    events = [denied(1, 990), ended(2, 1000, code=None, signal="SIGABRT", last_words=said)]
    assert cause(events) == expected


def made(told: str, fault: str, **end: object) -> list[Event]:
    """make, to which a call is refused, and a compiler that fails."""
    return [
        started(1, 10, CHILD, "/usr/bin/make", "-s"),
        denied(2, 20, CHILD),
        started(3, 500, GRANDCHILD, "/usr/lib/gcc/cc1", "app.c", parent=CHILD),
        ended(4, 900, GRANDCHILD, ppid=CHILD, last_words=fault, **end),
        ended(5, 950, CHILD, ppid=ROOT, code=2, last_words=told),
        ended(6, 1000, code=2),
    ]


@pytest.mark.parametrize("fault", [GCC, GO])
def test_make_fails_for_the_status_that_it_tells(fault: str) -> None:
    assert cause(made("make: *** [Makefile:2: app.o] Error 1\n", fault)) == "workload.failed"


def test_make_tells_a_signal_by_its_name() -> None:
    told = "make: *** [Makefile:2: check] Segmentation fault\n"
    events = made(told, "", code=None, signal="SIGSEGV")
    assert cause(events) == "workload.crashed"
    assert words.statuses(told) == {139}


def test_a_compiler_that_cannot_write_has_no_fault_in_its_source() -> None:
    assert cause([read_only(1, 900), ended(2, 1000, last_words=JAVAC)]) == "fs.read_only"
    assert faults.of_work("src/Main.java:2: error: cannot find symbol")


def test_a_test_runner_reports_on_stdout() -> None:
    events: list[Event] = [
        started(1, 10, CHILD, "/usr/bin/pytest", "-q"),
        read_only(2, 900, CHILD, "/srv/.pytest_cache"),
        ended(3, 950, CHILD, ppid=ROOT, last_output="E   assert [1, 3] == [1, 2, 3]\n1 failed\n"),
        ended(4, 1000, last_words="FAILED\n"),
    ]
    assert cause(events) == "workload.failed"


@pytest.mark.parametrize(
    ("told", "expected"),
    [("no lock, going on\n", "workload.failed"), ("cannot make lock\n", "fs.read_only")],
)
def test_who_goes_on_without_a_thing_does_not_miss_it(told: str, expected: str) -> None:
    events: list[Event] = [
        started(1, 10, CHILD, "/usr/bin/mkdir", "/srv/lock"),
        read_only(2, 20, CHILD, "/srv/lock"),
        ended(3, 30, CHILD, ppid=ROOT, silenced=True),
        started(4, 500, GRANDCHILD, "/usr/bin/awk", "END { exit 1 }", "rows.csv"),
        ended(5, 990, GRANDCHILD, ppid=ROOT),
        started(6, 5, ROOT, "/bin/bash", "-c", "..."),
        ended(7, 1000, last_words=told),
    ]
    assert cause(sorted(events, key=lambda event: event.time_ns)) == expected


def test_what_a_shell_takes_a_binary_for_is_no_program() -> None:
    """execvp(3) hands to it what is ENOEXEC, and it looks its first bytes up."""
    binary = "\x7fELF\x02\x01"
    refused = Exec(
        **{**at(1, 900, CHILD), "ppid": ROOT},
        path="./tool",
        argv=("./tool",),
        errno="ENOEXEC",
        reason="exec.wrong_architecture",
    )
    looked = tuple(f"{folder}/{binary}" for folder in ("/usr/local/bin", "/usr/bin", "/bin"))
    events: list[Event] = [
        refused,
        started(2, 901, CHILD, "/bin/sh", "./tool"),
        ended(
            3,
            910,
            CHILD,
            ppid=ROOT,
            code=127,
            last_words=f"./tool: 1: {binary}: not found\n",
            missing=looked,
        ),
        ended(4, 1000, last_words="build failed\n"),
    ]
    assert cause(events) == "exec.wrong_architecture"


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (("--dump-dom", "http://127.0.0.1:8080/"), "net.refused"),
        (("--dump-dom", "file:///srv/page.html"), "workload.failed"),
    ],
    ids=["asked for", "of its own accord"],
)
def test_what_was_fetched_in_vain_is_missed_in_the_product(
    argv: tuple[str, ...], expected: str
) -> None:
    """A browser ends well with a page of its own on the error."""
    where = {**at(2, 400, CHILD), "ppid": ROOT}
    browser = Exec(
        **{**at(1, 10, CHILD), "ppid": ROOT},
        path="/usr/bin/chromium",
        argv=("chromium", *argv),
        stdout="dom.html",
    )
    events: list[Event] = [
        browser,
        Connect(**where, family="ipv4", address="127.0.0.1", port=8080, errno="ECONNREFUSED"),
        ended(3, 500, CHILD, ppid=ROOT, code=0),
        started(4, 600, GRANDCHILD, "/usr/bin/grep", "-q", "2 items", "dom.html"),
        ended(5, 610, GRANDCHILD, ppid=ROOT, duration_s=0.01),
        ended(6, 700, last_words="assertion failed: text '2 items' not on page\n"),
    ]
    assert cause(events) == expected


DRIVER = "helper: lock: Operation not permitted\na 1\nb 2\n"
PANIC = """panic: runtime error: index out of range [1] with length 1

goroutine 1 [running]:
main.main()
\t/w/main.go:16 +0x298
exit status 2
"""
JAVA = """no revision: flock: Operation not permitted
Exception in thread "main" java.util.ConcurrentModificationException
\tat java.base/java.util.ArrayList$Itr.next(ArrayList.java:967)
\tat Main.main(Main.java:9)
"""


def helped(said: str, **end: object) -> list[Event]:
    """A driver whose helper is refused something, and which fails later."""
    return [
        started(1, 10, CHILD, "/usr/bin/flock", "-n", "lock", "true"),
        denied(2, 20, CHILD, "flock"),
        ended(3, 30, CHILD, ppid=ROOT, code=65, last_words="flock: lock: Operation not permitted"),
        ended(4, 1000, last_words=said, **end),
    ]


@pytest.mark.parametrize("said", [DRIVER + PANIC, JAVA])
def test_a_driver_that_dies_of_another_fault_has_got_over_its_helper(said: str) -> None:
    assert cause(helped(said, code=2)) == "workload.failed"
    assert cause(helped(DRIVER, code=2)) == "seccomp.denied"


def test_what_make_ignores_is_one_of_its_commands_not_all() -> None:
    told = "make: [Makefile:3: golden] Error 1 (ignored)\nmake: *** [Makefile:6: own] Error 1\n"
    events: list[Event] = [
        started(1, 10, ROOT, "/usr/bin/make", "-j2"),
        started(2, 100, CHILD, "/usr/bin/diff", "golden", "got"),
        ended(3, 200, CHILD, ppid=ROOT, duration_s=0.1),
        started(4, 300, GRANDCHILD, "/usr/bin/chown", "33:33", "data"),
        Seccomp(
            **{**at(5, 310, GRANDCHILD), "ppid": ROOT},
            syscall="fchownat",
            path="data",
            errno="EPERM",
        ),
        ended(
            6,
            320,
            GRANDCHILD,
            ppid=ROOT,
            duration_s=0.02,
            last_words="chown: changing ownership of 'data': Operation not permitted\n",
        ),
        ended(7, 400, code=2, last_words=told),
    ]
    case = make_case(span(), events, FULL)
    grounds_of = {
        one.event.pid: grounds(Story(case), one)
        for one in suspects(Story(case))
        if isinstance(one, Suspect)
    }
    assert "those above ignored it" not in grounds_of[GRANDCHILD]


@pytest.mark.parametrize("name", ["signal", "SIG_DFL", "SIG999", "SIGNOT", ""])
def test_a_signal_of_any_name_is_no_trouble(name: str) -> None:
    """Reports may come from anywhere."""
    assert not words.tells_end("bash: line 1: 7 Aborted", name)
    assert words.tells_end("bash: line 1: 7 Aborted   ./worker", "SIGABRT")


REQUIRED = (
    "PHP Warning:  require(/srv/vendor/autoload.php): Failed to open stream: No such file\n"
    "PHP Fatal error:  Uncaught Error: Failed opening required '/srv/vendor/autoload.php'\n"
)


@pytest.mark.parametrize(
    ("thing", "another"), [("/srv/vendor/autoload.php", False), ("/srv/cache", True)]
)
def test_an_exception_that_names_the_thing_is_no_other(thing: str, another: bool) -> None:
    spellings = words.errno_spellings("ENOENT")
    assert words.thrown_after(REQUIRED, (*spellings, "No such file"), (thing,)) is another


@pytest.mark.parametrize(
    ("said", "specific"),
    [
        ("    total_test.go:7: the sum of south is 7\n--- FAIL: TestSum (0.00s)\nFAIL\n", True),
        ("pool gave nothing but shards\n1 failed, 2 passed in 0.05s\n", True),
        ("FAIL\nexit status 1\nFAIL\texample.org/sum\t0.001s\n", False),
        ("the tests failed\n", False),
    ],
)
def test_what_every_test_run_ends_with_says_nothing(said: str, specific: bool) -> None:
    assert words.is_specific(said) is specific


def test_an_expectation_of_something_that_came_out_as_nothing_is_over_a_lack() -> None:
    tap = "  error: '0 == 200'\n  code: 'ERR_ASSERTION'\n  expected: 200\n  actual: 0\n"
    assert words.nothing_came(tap)
    assert not words.nothing_came(tap.replace("actual: 0", "actual: 404"))


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("OSError: [Errno 38] Function not implemented\n", "seccomp.denied"),
        ("no plugin today\n", "workload.failed"),
    ],
)
def test_a_substitute_is_none_where_the_refusal_is_what_is_told(said: str, expected: str) -> None:
    """Python opens files for its traceback after memfd_create(2) was refused."""
    refused = Seccomp(
        **at(1, 980), syscall="memfd_create", errno="ENOSYS", next=("newfstatat=0", "openat=3")
    )
    assert cause([refused, ended(2, 1000, last_words=said)]) == expected
