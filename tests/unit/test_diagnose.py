"""Explaining, on stories told here: the kinds of mistakes that an explanation must not make."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_message import EVENTS

from probe.causes import CAUSES
from probe.coverage import SENSES, Coverage, Losses
from probe.diagnose import SandboxState, explain, make_case, words
from probe.diagnose.hearing import DEATHS
from probe.events import (
    UNKNOWN_CALL,
    Connect,
    Event,
    Exec,
    Exit,
    File,
    Oom,
    Seccomp,
    Signal,
    Syscall,
)
from probe.span import Span

FULL = Coverage("core", dict.fromkeys(SENSES, "full"))
START = 1_700_000_000_000_000_000
ROOT = 100
MS = 1_000_000


def span(outcome: str = "failed", **fields: object) -> Span:
    values = {"exit_code": 1, "ended_ns": START + 1000 * MS, **fields}
    return Span(1, "r", "t", ("x",), "s", "b", ROOT, START, outcome=outcome, **values)  # type: ignore[arg-type]


def cause(events: list[Event], coverage: Coverage = FULL, losses: Losses | None = None) -> str:
    verdict = explain(make_case(span(), events, coverage, losses)).verdict
    assert verdict is not None
    return verdict.cause


def at(sequence: int, ms: int, pid: int = ROOT) -> dict[str, int]:
    return {"sequence": sequence, "time_ns": START + ms * MS, "pid": pid, "ppid": 1}


def refused(sequence: int, ms: int, pid: int = ROOT) -> Connect:
    return Connect(
        **at(sequence, ms, pid), family="ipv4", address="10.0.0.1", port=80, errno="ECONNREFUSED"
    )


def ended(sequence: int, ms: int, pid: int = ROOT, **fields: object) -> Exit:
    return Exit(**{**at(sequence, ms, pid), "duration_s": ms / 1000, "code": 1, **fields})  # type: ignore[arg-type]


def test_a_refusal_at_the_end_is_the_cause() -> None:
    assert cause([refused(1, 990), ended(2, 1000)]) == "net.refused"


def test_a_refusal_that_the_program_got_over_is_not() -> None:
    reached = Connect(**at(2, 500), family="ipv4", address="10.0.0.2", port=80)
    assert cause([refused(1, 400), reached, ended(3, 1000)]) == "workload.failed"


def test_an_assertion_outweighs_a_refusal_that_nobody_mentions() -> None:
    words = "AssertionError: 3 != 4"
    assert cause([refused(1, 400), ended(2, 1000, last_words=words)]) == "workload.failed"


def test_the_oom_kill_of_a_grandchild_is_followed_through_wrappers() -> None:
    events: list[Event] = [
        Oom(**{**at(1, 900, 102), "ppid": 101}, scope="cgroup", cgroup="/c", limit=1 << 26),
        ended(2, 901, 102, ppid=101, code=None, signal="SIGKILL"),
        ended(3, 905, 101, ppid=ROOT, code=137),
        ended(4, 1000),
    ]
    assert cause(events) == "memory.cgroup_oom"


def test_what_another_process_shrugged_off_is_dismissed() -> None:
    denial = Seccomp(**{**at(1, 400, 101), "ppid": ROOT}, syscall="ptrace", errno="EPERM")
    case = make_case(span(), [denial, ended(2, 500, 101, ppid=ROOT, code=0), ended(3, 1000)], FULL)
    explanation = explain(case)
    assert explanation.verdict is not None
    assert explanation.verdict.cause == "workload.failed"
    assert [dismissal.event for dismissal in explanation.dismissed] == ["e1"]


def test_nothing_is_blamed_on_a_process_that_became_another_program() -> None:
    started = Exec(**at(2, 500), path="/bin/app", argv=("app",))
    assert cause([refused(1, 400), started, ended(3, 1000)]) == "workload.failed"


@pytest.mark.parametrize(
    ("coverage", "losses"),
    [
        (Coverage("core", {**FULL.senses, "exec": "none: why"}), Losses()),
        (FULL, Losses({"exec": 1})),
    ],
    ids=["a shut eye", "a loss"],
)
def test_without_sight_it_is_unknown(coverage: Coverage, losses: Losses) -> None:
    assert cause([ended(1, 1000)], coverage, losses) == "unknown"


def test_an_eye_that_nothing_came_near_does_no_harm() -> None:
    coverage = Coverage("core", {**FULL.senses, "dns": "none: why"})
    assert cause([ended(1, 1000)], coverage) == "workload.failed"
    asked = Connect(**at(1, 900), family="ipv4", address="10.0.0.53", port=53, protocol="datagram")
    assert cause([asked, ended(2, 1000)], coverage) == "unknown"


CURL = "curl: (60) SSL certificate problem: certificate is not yet valid"
NODE = "Error: certificate has expired\n  code: 'CERT_HAS_EXPIRED'"
HOUR_S = 3600


@pytest.mark.parametrize(
    ("offset_s", "words", "expected"),
    [
        (-HOUR_S, CURL, "sandbox.clock"),
        (HOUR_S, NODE, "sandbox.clock"),
        (HOUR_S, CURL, "workload.failed"),  # the other way round the date is to blame
        (-HOUR_S, NODE, "workload.failed"),
        (-2, CURL, "workload.failed"),
        (-HOUR_S, "AssertionError: 3 != 4", "workload.failed"),
        (HOUR_S, "RequestTimeTooSkewed: the difference is too large", "sandbox.clock"),
    ],
)
def test_a_clock_that_is_off_matters_to_who_fails_over_a_date(
    offset_s: int, words: str, expected: str
) -> None:
    state = SandboxState(clock_offset_ns=offset_s * 1_000_000_000)
    events = [ended(1, 1000, last_words=words)]
    verdict = explain(make_case(span(), events, FULL, sandbox=state)).verdict
    assert verdict is not None
    assert (verdict.cause, verdict.evidence) == (expected, ("e1",))


@given(st.lists(EVENTS, max_size=30), st.sampled_from(["passed", "failed", "timeout"]))
def test_any_story_has_an_end(events: list[Event], outcome: str) -> None:
    unique = {event.sequence: event for event in events}
    case = make_case(span(outcome), unique.values(), FULL)
    explanation = explain(case)
    assert (explanation.verdict is None) == (outcome == "passed")
    known = {event.id for event in case.events}
    for finding in [*filter(None, [explanation.verdict]), *explanation.alternatives]:
        assert finding.cause in CAUSES and 0 <= finding.confidence <= 1
        assert set(finding.evidence) <= known
        assert finding.summary


MIB = 1 << 20


@pytest.mark.parametrize(
    ("mapped", "told"),
    [
        (300 * MIB, "to 375 MiB (it had mapped 300 MiB)"),
        (70 * MIB, "to 128 MiB for a start"),  # a heap that grows
        (20_000 * MIB, "to 128 MiB for a start"),  # reserved, never meant to be used
        (None, "to 128 MiB for a start"),
    ],
)
def test_how_much_memory_would_have_done(mapped: int | None, told: str) -> None:
    killed = Oom(**at(1, 900), scope="cgroup", cgroup="/c", limit=64 * MIB, virtual=mapped)
    events = [killed, ended(2, 901, code=None, signal="SIGKILL")]
    verdict = explain(make_case(span(), events, FULL)).verdict
    assert verdict is not None
    assert f"raise the memory limit of /c {told}" in verdict.advice


def test_a_program_whose_start_was_lost_is_not_missing() -> None:
    searched = Exec(**at(1, 10), comm="python3", path="/a/cat", argv=("cat",), errno="ENOENT")
    by_its_name = ended(2, 20, comm="cat", last_words="cat: x: Is a directory")
    assert cause([searched, by_its_name]) == "workload.failed"
    by_its_callers = ended(2, 20, comm="python3")
    assert cause([searched, by_its_callers]) == "exec.not_found"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("chrome.Crashed: a page crashed", "memory.cgroup_oom"),
        ("AssertionError: 3 != 4", "workload.failed"),
    ],
)
def test_a_worker_that_another_process_mourns(words: str, expected: str) -> None:
    """A zygote forked the page and got over its death; the browser's driver did not."""
    zygote, page = 101, 102
    events: list[Event] = [
        Exec(**at(1, 1), path="/usr/bin/python3", argv=("python3", "tabs.py")),
        Oom(**{**at(2, 500, page), "ppid": zygote}, scope="cgroup", cgroup="/c", limit=64 * MIB),
        ended(3, 501, page, ppid=zygote, code=None, signal="SIGKILL"),
        ended(4, 600, zygote, ppid=ROOT, code=0),
        ended(5, 1000, last_words=words),
    ]
    assert cause(events) == expected


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("worker ended: -6", True),
        ("exit 137", True),
        ("Leaving directory '/tmp/pytest-606'", False),
        ("listening on port 13700", False),
        ("see issue-1390", False),
        ("the child was KILLED", True),
    ],
)
def test_the_number_of_a_death_stands_alone(said: str, told: bool) -> None:
    assert words.mentions(said, DEATHS) is told


def test_a_heap_that_met_a_mapping_is_not_out_of_memory() -> None:
    """malloc(3) goes on with mmap(2), and the abort is for a limit of the program's own."""
    events: list[Event] = [
        Syscall(**at(1, 10), syscall="brk", args=(614600704,), errno="ENOMEM", usage=742236160),
        Exit(
            **at(2, 90), signal="SIGABRT", last_words="FATAL ERROR: JavaScript heap out of memory"
        ),
    ]
    assert cause(events) == "workload.crashed"


def test_a_thread_that_a_filter_ended_for_a_call_nobody_saw() -> None:
    killed = Seccomp(**at(1, 5), syscall=UNKNOWN_CALL, action="kill_thread")
    found = explain(make_case(span(), [killed, ended(2, 900, signal="SIGTERM")], FULL)).verdict
    assert found is not None and found.cause == "seccomp.denied"
    assert UNKNOWN_CALL not in found.summary + found.advice


def child(sequence: int, ms: int, pid: int, **fields: object) -> Exit:
    """The end of a child that was born 50 ms earlier."""
    return ended(sequence, ms, pid, **{"ppid": ROOT, "duration_s": 0.05, **fields})


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("exec.wrong_architecture", "exec.wrong_architecture"),
        ("exec.bad_format", "workload.failed"),
    ],
)
def test_a_program_of_another_machine_is_no_script(reason: str, expected: str) -> None:
    """execvp(3) hands both to sh, which can do something with one of them."""
    of_child = {"ppid": ROOT}
    events: list[Event] = [
        Exec(
            **{**at(1, 900, 101), **of_child},
            path="./a",
            argv=("a",),
            errno="ENOEXEC",
            reason=reason,
        ),
        Exec(**{**at(2, 901, 101), **of_child}, path="/bin/sh", argv=("/bin/sh", "./a")),
        child(3, 940, 101, code=2, last_words="./a: 1: Syntax error: Unterminated quoted string"),
        ended(4, 1000),
    ]
    assert cause(events) == expected


def test_who_renames_what_may_not_be_linked_is_served() -> None:
    denial = Seccomp(
        **at(1, 990), syscall="link", action="errno", errno="EPERM", next=("rename=0",)
    )
    assert cause([denial, ended(2, 1000)]) == "workload.failed"


def test_an_assertion_that_nobody_heard_is_one() -> None:
    started = Exec(**{**at(1, 900, 101), "ppid": ROOT}, path="/bin/app", argv=("app",))
    connect = Connect(
        **{**at(2, 940, 101), "ppid": ROOT},
        family="ipv4",
        address="10.0.0.1",
        port=80,
        errno="ECONNREFUSED",
    )
    said = {"AssertionError: 3 != 4": "workload.failed", "could not connect": "net.refused"}
    for words_of_child, expected in said.items():
        quiet = child(3, 945, 101, silenced=True, last_words=words_of_child)
        assert cause([started, connect, quiet, ended(4, 1000)]) == expected


def test_a_child_that_crashed_later_says_more_than_an_earlier_refusal() -> None:
    denial = Seccomp(**at(1, 900), syscall="perf_event_open", action="errno", errno="EPERM")
    crashed = child(2, 990, 101, code=None, signal="SIGSEGV")
    assert cause([denial, crashed, ended(3, 1000)]) == "workload.crashed"
    assert cause([denial, ended(2, 1000)]) == "seccomp.denied"


@pytest.mark.parametrize(
    ("missing", "said", "expected"),
    [
        (
            "http://10.0.0.1/simple/thing/",
            "ERROR: found no distribution for thing",
            "workload.failed",
        ),
        ("/srv/simple/thing", "ERROR: found no distribution for thing", "fs.missing"),
        ("/proc/self/stat", "Error, do this: mount -t proc proc /proc", "fs.missing"),
        ("/proc/self/stat", "Error: cannot use /proc/cpuinfo", "workload.failed"),
    ],
)
def test_what_is_missed(missing: str, said: str, expected: str) -> None:
    assert cause([ended(1, 1000, missing=(missing,), last_words=said)]) == expected


@pytest.mark.parametrize(
    ("silenced", "later_argument", "expected"),
    [
        (True, "--all", "workload.failed"),
        (True, "http://x/10.0.0.1", "net.unreachable"),  # it is about the same thing
        (False, "--all", "net.unreachable"),
    ],
)
def test_what_was_hushed_and_followed_by_another_failure_was_optional(
    silenced: bool, later_argument: str, expected: str
) -> None:
    """A refusal of a child whose words alone were thrown away, beside one that all may hear."""
    of_child = {"ppid": ROOT}
    connect = Connect(
        **{**at(2, 110, 101), **of_child},
        family="ipv4",
        address="10.0.0.1",
        port=80,
        errno="ENETUNREACH",
    )
    said = "ping: Network is unreachable"
    events: list[Event] = [
        Exec(**{**at(1, 100, 101), **of_child}, path="/bin/ping", argv=("ping", "10.0.0.1")),
        connect,
        child(3, 120, 101, silenced=silenced, last_words=said),
        Exec(**{**at(4, 200, 102), **of_child}, path="/bin/tests", argv=("tests", later_argument)),
        child(5, 990, 102),
        ended(6, 1000),
    ]
    assert cause(events) == expected


def program(sequence: int, ms: int, pid: int, command: str, **fields: object) -> Exec:
    argv = tuple(command.split())
    values = {**at(sequence, ms, pid), "ppid": ROOT, "path": f"/bin/{argv[0]}", "argv": argv}
    return Exec(**{**values, **fields})  # type: ignore[arg-type]


def a_download(then: str, said: str, **streams: object) -> list[Event]:
    """A refused one that nobody minds, and what fails after it."""
    return [
        program(1, 800, 101, "curl -s -o data.json http://10.0.0.1/", **streams),
        refused(2, 810, 101),
        child(3, 820, 101, code=7, duration_s=0.02),
        program(4, 900, 102, then),
        child(5, 950, 102, code=2, last_words=said, duration_s=0.05),
        ended(6, 1000, code=2),
    ]


def test_what_fails_for_the_want_of_a_file_fails_for_what_kept_it_from_being_made() -> None:
    said = "jq: error: Could not open file data.json"
    assert cause(a_download("jq -e .ok data.json", said)) == "net.refused"
    other = "grep: unknown option"
    assert cause(a_download("grep -q --bad notes.txt", other)) == "workload.failed"


def test_who_reads_from_a_pipe_fails_for_what_ended_its_other_end() -> None:
    events: list[Event] = [
        program(1, 900, 101, "curl -s http://10.0.0.1/", stdout="pipe:77"),
        program(2, 901, 102, "tar x", stdin="pipe:77"),
        refused(3, 905, 101),
        child(4, 910, 101, code=7, duration_s=0.01),
        child(5, 920, 102, code=2, last_words="tar: not a tar archive", duration_s=0.019),
        ended(6, 1000, code=2),
    ]
    assert cause(events) == "net.refused"


def test_a_refusal_that_a_twin_got_over_is_not_the_cause() -> None:
    def twin(sequence: int, pid: int, code: int) -> list[Event]:
        denial = Seccomp(
            **{**at(sequence, 900, pid), "ppid": ROOT}, syscall="setgroups", errno="EPERM"
        )
        return [denial, child(sequence + 1, 910, pid, code=code)]

    events = [*twin(1, 101, 0), *twin(3, 102, 0), *twin(5, 103, 1), ended(7, 1000)]
    assert cause(events) == "workload.failed"


def test_a_division_by_zero_is_of_its_own_making() -> None:
    refusal = Syscall(**at(1, 990), syscall="mmap", errno="ENOMEM")
    said = "huge pages: Cannot allocate memory"
    crash = ended(2, 1000, code=None, signal="SIGFPE", last_words=said)
    assert cause([refusal, crash]) == "workload.crashed"


def test_whose_output_a_shell_took_in_vain() -> None:
    """free=$(df 2>/dev/null | tail -1), and then "not enough disk space"."""
    denial = Seccomp(**{**at(3, 905, 102), "ppid": 101}, syscall="statfs", errno="EPERM")
    events: list[Event] = [
        program(1, 100, ROOT, "bash -c x", ppid=1),
        program(2, 900, 102, "df -k /", ppid=101, stdout="pipe:7"),
        program(4, 901, 103, "tail -n 1", ppid=101, stdin="pipe:7", stdout="pipe:8"),
        denial,
        child(5, 910, 102, ppid=101, silenced=True, duration_s=0.01),
        child(6, 912, 103, ppid=101, code=0, duration_s=0.01),
        child(7, 915, 101, code=0),
        ended(8, 920, last_words="preflight: not enough disk space"),
    ]
    assert cause(events) == "seccomp.denied"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("make: *** [Makefile:2: test] Error 1", "workload.failed"),
        ("make: *** [Makefile:2: test] Error 7", "net.refused"),
    ],
)
def test_a_parent_that_says_whose_failure_it_fails_for(said: str, expected: str) -> None:
    events: list[Event] = [
        program(1, 800, 101, "curl -s http://10.0.0.1/"),
        refused(2, 810, 101),
        child(3, 820, 101, code=7, duration_s=0.02),
        program(4, 900, 102, "cmp want got"),
        child(5, 950, 102, code=1, duration_s=0.05),
        ended(6, 1000, code=2, last_words=said),
    ]
    assert cause(events) == expected


@pytest.mark.parametrize("folder", ["dist", "elsewhere"])
def test_what_the_work_itself_removed(folder: str) -> None:
    events: list[Event] = [
        program(1, 800, 101, f"rm -rf {folder}"),
        child(2, 810, 101, code=0, duration_s=0.01),
        program(3, 900, 102, "node dist/main.js"),
        child(
            4, 950, 102, missing=("/w/dist/main.js",), last_words="Cannot find '/w/dist/main.js'"
        ),
        ended(5, 1000),
    ]
    assert cause(events) == ("workload.failed" if folder == "dist" else "fs.missing")


def test_an_assertion_about_the_status_of_who_was_killed() -> None:
    said = "test_encoder.py:7: AssertionError\nFAILED test_encodes - assert -9 == 0  # returncode"
    events: list[Event] = [
        Oom(**{**at(1, 900, 101), "ppid": ROOT}, scope="cgroup", cgroup="/c", limit=1 << 26),
        child(2, 901, 101, code=None, signal="SIGKILL"),
        ended(3, 1000, last_words=said),
    ]
    assert cause(events) == "memory.cgroup_oom"
    other = "AssertionError: 3 != 4"
    assert cause([*events[:2], ended(3, 1000, last_words=other)]) == "workload.failed"


@given(st.lists(st.sampled_from(["pipe:1", "pipe:2", "pipe:3", None]), min_size=2, max_size=40))
def test_pipes_in_any_order_have_an_end(pipes: list[str | None]) -> None:
    events: list[Event] = []
    for at_ms, (stdin, stdout) in enumerate(itertools.pairwise(pipes), 1):
        pid = 200 + at_ms
        events += [
            program(2 * at_ms, at_ms, pid, "cat -o x", stdin=stdin, stdout=stdout),
            child(2 * at_ms + 1, at_ms + 1, pid, duration_s=0.001),
        ]
    assert cause([*events, ended(1000, 1000)]) == "workload.failed"


@pytest.mark.parametrize(
    ("path", "code", "expected"),
    [
        ("/usr/bin/curl", 7, "net.refused"),
        ("./check", 7, "workload.failed"),  # a status that it chose
        ("/usr/bin/python3", 3, "workload.failed"),
    ],
)
def test_who_fails_without_a_word(path: str, code: int, expected: str) -> None:
    """A tool that is told to be quiet fails for what it met; a check of the work's own may not."""
    started = Exec(**at(1, 100), path=path, argv=(path, "-s"))
    assert cause([started, refused(2, 900), ended(3, 1000, code=code)]) == expected


def test_a_rival_with_the_status_that_was_handed_on() -> None:
    """jq's 1 became the shell's, whatever became of the load generator beside it."""
    events: list[Event] = [
        program(1, 100, 101, "load -n 30"),
        program(2, 200, 102, "jq -e .ok health.json"),
        child(3, 250, 102, code=1, duration_s=0.05),
        refused(4, 300, 101),
        child(5, 310, 101, code=123, duration_s=0.21),
        ended(6, 400),
    ]
    assert cause(events) == "workload.failed"


@pytest.mark.parametrize(
    ("offset", "expected"),
    [(MIB, "memory.shm_full"), (4 * MIB - 1, "memory.shm_full"), (4 * MIB, "workload.crashed")],
)
def test_a_page_inside_the_file_that_cannot_be_had_says_that_its_disk_was_full(
    offset: int, expected: str
) -> None:
    """Whatever a look at it says later, when the file is gone (mmap(2), SIGBUS)."""
    bus = Signal(
        **at(1, 990),
        signal="SIGBUS",
        target=ROOT,
        sender="kernel",
        mapping="/dev/shm/frames",
        offset=offset,
        file_size=4 * MIB,
    )
    assert cause([bus, ended(2, 1000, code=None, signal="SIGBUS")]) == expected


@pytest.mark.parametrize(
    ("call", "limit", "expected"),
    [
        ("mincore", None, "workload.failed"),
        ("madvise", None, "workload.failed"),
        ("mremap", None, "workload.failed"),
        ("mmap", None, "memory.limit"),
        ("mmap", 64 * MIB, "memory.limit"),
    ],
)
def test_not_every_enomem_is_a_want_of_memory(call: str, limit: int | None, expected: str) -> None:
    """mincore(2): nothing is mapped there. mremap(2): a mapping is in the way."""
    refusal = Syscall(**at(1, 990), syscall=call, errno="ENOMEM", limit=limit)
    assert cause([refusal, ended(2, 1000)]) == expected


def test_a_name_that_is_set_apart_is_that_of_the_missing_program() -> None:
    said = "CMake Error:\n  Could not find compiler set in environment variable CC:\n\n  icx.\n"
    looked = ("/usr/local/bin/icx", "/usr/bin/icx", "/tmp/build/CMakeFiles/CMakeError.log")
    assert cause([ended(1, 1000, last_words=said, missing=looked)]) == "exec.not_found"


def test_huge_pages_are_asked_for_on_trial() -> None:
    """mmap(2): who wants them is ready for small ones, as PostgreSQL is."""
    asked = (0, 144 * MIB, 3, 0x40021)
    refusal = Syscall(**at(1, 900), syscall="mmap", errno="ENOMEM", args=asked)
    assert cause([refusal, ended(2, 1000)]) == "workload.failed"


def test_half_of_a_socketpair_is_reset_when_the_other_half_dies() -> None:
    reset = Connect(**at(1, 990), family="unix", address="", errno="ECONNRESET", in_use=True)
    assert cause([reset, ended(2, 1000)]) == "workload.failed"


def test_the_size_of_the_stack_is_asked_for_by_every_program() -> None:
    """By the C library as it starts (glibc, pthread_create)."""
    asked = Seccomp(
        **at(1, 990), syscall="prlimit64", detail="RLIMIT_STACK", errno="EPERM", calls_after=20
    )
    assert cause([asked, ended(2, 1000)]) == "workload.failed"
    files = dataclasses.replace(asked, detail="RLIMIT_NOFILE")
    assert cause([files, ended(2, 1000)]) == "seccomp.denied"


def test_who_could_not_look_at_a_program_is_not_sure_why_it_may_not_start() -> None:
    """No execute bit, a noexec mount and a policy look alike without a look (execve(2), EACCES)."""
    started = Exec(**at(1, 990), path="/tmp/tool", argv=("tool",), errno="EACCES")
    asked = File(
        **at(1, 990), syscall="access", path="/tmp/tool", errno="EACCES", detail="mode X_OK"
    )
    for refusal in (started, asked):
        sure = []
        for event in (refusal, dataclasses.replace(refusal, reason="exec.permission")):
            events = [event, ended(2, 1000, code=126, last_words="/tmp/tool: Permission denied")]
            verdict = explain(make_case(span(exit_code=126), events, FULL)).verdict
            assert verdict is not None and verdict.cause == "exec.permission"
            sure.append(verdict.confidence)
        assert sure[0] <= 0.7 < sure[1]
