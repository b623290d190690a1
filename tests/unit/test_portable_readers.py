"""The portable engine's readers: what /proc, the kernel log and netlink may hold is anything."""

from __future__ import annotations

import contextlib
import os
import struct
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probe import pidfd
from probe.context.mount import parse as parse_mounts
from probe.coverage import SENSES, Coverage
from probe.diagnose import Case, explain, make_case
from probe.engine.portable import cgroups, connector, kernel_log, processes, senses, sockets
from probe.engine.portable.counters import Counters
from probe.engine.portable.endings import Endings
from probe.engine.portable.family import MEMBERS_MAX, Family, Member
from probe.engine.portable.kernel_log import Audit, Choice
from probe.events import Exit, Oom
from probe.span import Span

NAMES = st.binary(max_size=15).filter(lambda name: b"\0" not in name)
NUMBERS = st.integers(0, (1 << 32) - 1)

# --- /proc/PID/stat and status --------------------------------------------------------


@given(NAMES, st.integers(1, 1 << 22), st.integers(0, 1 << 22), st.integers(0, 1 << 40))
def test_stat_of_any_name(name: bytes, parent: int, session: int, started: int) -> None:
    fields = [b"S", parent, 2, session, *range(15), started, *range(29), 1792]
    line = b"17 (%s) " % name + b" ".join(
        word if isinstance(word, bytes) else str(word).encode() for word in fields
    )
    found = processes.parse_stat(line + b"\n")
    assert (found.comm, found.state, found.parent) == (name, "S", parent)
    assert (found.session, found.status) == (session, 1792)
    assert found.started_s == started / os.sysconf("SC_CLK_TCK")


@given(st.binary(max_size=300))
def test_what_is_no_stat_is_said_to_be_none(raw: bytes) -> None:
    with contextlib.suppress(ValueError):
        processes.parse_stat(raw)


@given(st.binary(max_size=300))
def test_any_status_is_taken(raw: bytes) -> None:
    found = processes.parse_status(raw)
    assert found.uid >= 0 and found.inner_pid >= 0


def test_the_effective_user_and_the_innermost_number() -> None:
    raw = b"Name:\tUid:\\n9\nUid:\t1\t2\t3\t4\nNSpid:\t4711\t12\t3\n"
    assert processes.parse_status(raw) == processes.Status(2, 3)


def test_our_own_process() -> None:
    stat = processes.stat_of(os.getpid())
    assert stat is not None and stat.parent == os.getppid() and stat.state == "R"
    assert processes.status_of(os.getpid()).uid == os.geteuid()
    assert processes.program(os.getpid()) == os.path.realpath(sys.executable)
    assert os.fsencode(sys.argv[-1]) in processes.command_line(os.getpid())


def test_children_by_either_way() -> None:
    child = subprocess.Popen(["sleep", "30"])
    try:
        for listed in (True, False):
            children = processes.Children()
            children._listed = children._listed and listed
            assert (child.pid, os.getpid()) in children.of([os.getpid()])
    finally:
        child.kill()
        child.wait()


# --- the connector ----------------------------------------------------------------------


def message(what: int, numbers: tuple[int, ...], rest: bytes = b"", time_ns: int = 5) -> bytes:
    """As cn_proc.c lays it out."""
    event = (
        struct.pack("=IIQ", what, 0, time_ns) + struct.pack(f"={len(numbers)}I", *numbers) + rest
    )
    body = struct.pack("=IIIIHH", 1, 1, 7, 0, len(event), 0) + event
    return struct.pack("=IHHII", 16 + len(body), 3, 0, 0, 0) + body


def test_messages_of_the_connector() -> None:
    forked = connector.parse(message(connector.FORK, (10, 10, 11, 11)))
    assert forked == connector.Message(connector.FORK, 5, (10, 10, 11, 11))
    renamed = connector.parse(message(connector.COMM, (10, 10), b"new\nname\0xxxxxxx"))
    assert renamed is not None and renamed.comm == b"new\nname"
    ended = connector.parse(message(connector.EXIT, (10, 10, 768, 17)) + b"\0" * 8)
    assert ended is not None and os.waitstatus_to_exitcode(ended.numbers[2]) == 3
    assert connector.parse(message(0x100, (1, 1, 1, 1))) is None  # ptrace


@given(st.binary(max_size=200))
def test_any_datagram_is_taken(data: bytes) -> None:
    connector.parse(data)


@given(st.sampled_from([connector.FORK, connector.EXIT, connector.EXEC]), st.integers(0, 90))
def test_a_message_that_was_cut(what: int, size: int) -> None:
    whole = message(what, (1, 2, 3, 4))
    cut = connector.parse(whole[:size])
    assert cut is None or len(cut.numbers) in (2, 4)


# --- the kernel log -----------------------------------------------------------------------

OOM = (
    "memory: usage 65536kB, limit 65536kB, failcnt 29",
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,"
    "oom_memcg=/a,b/box,task_memcg=/a,b/box/in,task=evil,pid=1,uid=0,pid=4711,uid=0",
    "Memory cgroup out of memory: Killed process 4711 (a) total-vm:1kB) total-vm:300kB, "
    "anon-rss:6kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:1kB oom_score_adj:0",
)
AUDIT = (
    "audit: type=1326 audit(1700000000.123:45): auid=4294967295 uid=0 gid=0 ses=4294967295 "
    'pid=4711 comm="x pid=1 sig=9" exe="/usr/bin/x" sig=31 arch=c000003e syscall=83 compat=0 '
    "ip=0x7f0000000000 code=0x80000000"
)


def test_an_oom_kill_is_told_in_three_lines() -> None:
    reader = kernel_log.Reader()
    assert [reader.take(line) for line in OOM] == [
        None,
        None,
        Choice(4711, 300 << 10, True, "/a,b/box", 64 << 20, 64 << 20),
    ]


def test_an_oom_kill_of_the_machine_has_no_cgroup() -> None:
    killed = kernel_log.Reader().take("Out of memory: Killed process 12 (x) total-vm:8kB, anon")
    assert killed == Choice(12, 8 << 10, False)


def test_what_a_filter_ended() -> None:
    assert kernel_log.Reader().take(AUDIT) == Audit(
        1_700_000_000_123_000_000, 4711, 31, 0xC000003E, 83, 0x80000000
    )


@given(st.text(max_size=200), st.text(max_size=50))
def test_any_line_of_the_log_is_taken(line: str, end: str) -> None:
    reader = kernel_log.Reader()
    for text in (line, *OOM, AUDIT[:150] + line, "oom-kill:" + line, OOM[2][:60] + end):
        reader.take(text)


def test_only_the_kernels_own_lines_count() -> None:
    text = OOM[2].encode()
    assert kernel_log.message(b"6,1,2,-;" + text + b"\n SUBSYSTEM=x\n") == OOM[2]
    assert kernel_log.message(b"14,1,2,-;" + text) is None  # facility 1: a user's process
    assert kernel_log.message(text) is None


@given(st.binary(max_size=100))
def test_any_record_is_taken(record: bytes) -> None:
    kernel_log.message(record)


# --- cgroups --------------------------------------------------------------------------------


def test_where_a_process_is() -> None:
    text = "8:pids:/a:b\n4:memory,hugetlb:/m\n1:name=systemd:/\n0::/u\nrubbish\n"
    assert cgroups.parse_membership(text) == {
        "pids": "/a:b",
        "memory": "/m",
        "hugetlb": "/m",
        "name=systemd": "/",
        "": "/u",
    }


@given(st.text(max_size=200))
def test_any_file_of_a_cgroup_is_taken(text: str) -> None:
    cgroups.parse_membership(text)
    cgroups.parse_counters(text)
    number = cgroups.parse_number(text)
    assert number is None or number >= 0


def test_counters_and_limits() -> None:
    assert cgroups.parse_counters("low 0\noom_kill 3\nodd line here\nx -1\n") == {
        "low": 0,
        "oom_kill": 3,
    }
    assert cgroups.parse_number("max\n") is None
    assert cgroups.parse_number("9223372036854771712\n") is None  # of v1
    assert cgroups.parse_number("42\n") == 42


MOUNTS = """\
30 20 0:5 /docker/x /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
31 20 0:6 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
"""


def test_a_controller_is_sought_where_it_is_mounted() -> None:
    places = cgroups.Hierarchies(parse_mounts(MOUNTS))
    found = places.named({"pids": "/docker/x/in", "": "/u/v"})
    assert [(one.controller, one.version, one.folder) for one in found] == [
        ("memory", 2, "/sys/fs/cgroup/unified/u/v"),
        ("memory", 2, "/sys/fs/cgroup/unified/u"),
        ("pids", 1, "/sys/fs/cgroup/pids/in"),
        ("pids", 1, "/sys/fs/cgroup/pids/"),
    ]
    assert places.named({"pids": "/elsewhere"}) == []  # what is not in sight
    assert places.named({"pids": "/docker/x/../../etc"}) == []


def test_a_rise_is_told_once_with_the_limit_behind_it(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """v2 since 6.12: the refusal is counted where the limit is, and above."""
    (tmp_path / "outer/inner").mkdir(parents=True)

    def write(outer: int) -> None:
        for name, count, limit in (("outer", outer, "8"), ("outer/inner", 0, "max")):
            (tmp_path / name / "pids.events").write_text(f"max {count}\n")
            (tmp_path / name / "pids.max").write_text(f"{limit}\n")
            (tmp_path / name / "pids.current").write_text("8\n")

    class Here(cgroups.Hierarchies):
        def of(self, pid: int) -> list[cgroups.Cgroup]:
            return self.named({"": "/outer/inner"})

    mounts = parse_mounts(f"1 0 0:1 / {tmp_path} rw - cgroup2 none rw\n")
    counters = Counters(Here(mounts))
    write(outer=2)
    counters.note(1, 4711)
    assert counters.rises(1) == []
    write(outer=5)
    (rise,) = counters.rises(1)
    assert rise.by == 3 and rise.cgroup.name == "/outer" and rise.limited.limit == 8
    assert counters.rises(1) == []
    counters.forget(1)
    write(outer=9)
    assert counters.rises(1) == []


# --- sockets --------------------------------------------------------------------------------

TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:E84F 0100007F:1F90 02 00000001:00000000 01:00000060 00000001     0        0 777 2
   1: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 778 1
"""


@pytest.mark.skipif(sys.byteorder != "little", reason="the table is in the machine's order")
def test_a_socket_that_waits() -> None:
    (found,) = sockets.parse(TABLE)
    assert found == sockets.Entry(777, False, "ipv4", "127.0.0.1", 8080)
    mapped = "0000000000000000FFFF00000100007F:0050"
    (found,) = sockets.parse(f"\n 0: x {mapped} 01 a b c d e 9")
    assert (found.established, found.address, found.port) == (True, "127.0.0.1", 80)


@given(st.text(max_size=300))
def test_any_table_is_taken(table: str) -> None:
    sockets.parse("\n" + table)


# --- what follows of it -----------------------------------------------------------------------


def test_a_family_is_bounded() -> None:
    family = Family()
    parent = Member(1, span=5)
    family.add(parent)
    for pid in range(2, MEMBERS_MAX + 10):
        family.born(pid, parent, 0)
    assert len(family.members) == MEMBERS_MAX and family.refused == 9
    assert all(member.span == 5 for member in family.members.values())
    family.leave(5, keep=False)
    assert family.members == {}


def test_the_status_of_who_was_reaped() -> None:
    endings = Endings(most=4)
    child = subprocess.Popen(["sh", "-c", "exit 7"])
    endings.watch(child.pid)
    child.wait()
    status = endings.status(child.pid)
    recent = tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 15)
    assert status == (7 << 8 if recent else None)
    endings.close()


def test_where_there_are_no_pidfds_a_folder_stands_for_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(pid: int) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    fd = pidfd.handle(os.getpid())
    assert pidfd.pid_of(fd) == os.getpid()
    os.close(fd)


@given(st.sampled_from(["", "refused"]), st.sampled_from(["", "refused"]))
def test_each_sense_says_what_it_lacks(silence: str, unread: str) -> None:
    states = senses.states(silence, unread, [], 0.002)
    assert tuple(states) == SENSES
    assert states["oom"] == "full" or unread
    for sense, state in states.items():
        assert state == "full" or state.startswith(("partial: ", "none: ")), sense
    seen = Coverage("portable", states)
    assert seen.unseen() == seen.shut()  # a partial sense of it is a shut eye
    core = Coverage("core", dict.fromkeys(SENSES, "full") | {"files": "partial: a little"})
    assert core.unseen() == {}


# --- and what is said of it -----------------------------------------------------------------


def case_of(*ends: Exit, engine: str = "portable") -> Case:
    span = Span(1, "", "t", ("sh",), "box", "boot", 10, 0)
    root = ends[-1]
    span.ended_ns, span.exit_code, span.signal = root.time_ns, root.code, root.signal
    span.outcome = "failed"
    states = senses.states("", "", [], 0.002)
    return make_case(span, ends, Coverage(engine, states))


def end(pid: int, parent: int, at: int, code: int | None, sent: str | None = None) -> Exit:
    made = {"sequence": at, "time_ns": at * 10**9, "ppid": parent, "comm": f"p{pid}"}
    return Exit(pid=pid, code=code, signal=sent, duration_s=0.5, **made)  # type: ignore[arg-type]


@given(st.integers(1, 255), st.integers(0, 255))
def test_a_status_is_never_the_works_own_fault(code: int, below: int) -> None:
    verdict = explain(case_of(end(11, 10, 1, below), end(10, 1, 2, code))).verdict
    assert verdict is not None
    assert not verdict.cause.startswith("workload")
    if not {code, below} & {124, 126, 127}:
        assert verdict.cause == "unknown"
        assert all(sense in verdict.summary for sense in SENSES if sense != "oom")


@given(st.sampled_from(["SIGKILL", "SIGTERM", "SIGABRT", "SIGILL", "SIGBUS", "SIGTRAP"]))
def test_a_signal_that_anything_may_be_behind_is_no_verdict(name: str) -> None:
    found = explain(case_of(end(10, 1, 2, None, name)))
    assert found.verdict is not None and found.verdict.cause == "unknown"
    assert len(found.alternatives) <= 1


def test_a_death_that_a_parent_got_over_is_an_alternative_at_most() -> None:
    killed = Oom(sequence=1, time_ns=10**9, pid=11, ppid=10, scope="cgroup", cgroup="/x", limit=9)
    ended = end(11, 10, 1, None, "SIGKILL")
    again = end(12, 10, 3, 0)
    span_case = case_of(ended, again, end(10, 1, 5, 1))
    whole = make_case(span_case.span, [killed, *span_case.events], span_case.coverage)
    found = explain(whole)
    assert found.verdict is not None and found.verdict.cause == "unknown"
    alone = case_of(ended, end(10, 1, 2, 137))
    handed_on = make_case(alone.span, [killed, *alone.events], alone.coverage)
    verdict = explain(handed_on).verdict
    assert verdict is not None and verdict.cause == "memory.cgroup_oom"
