"""The parts of an examination that need no sandbox: parsers, judgements, comparisons."""

from __future__ import annotations

import copy
import struct
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_filters import ARCH, MACHINE, SYSCALLS, loaded, program

from collector.sandbox import compile_filter
from probe import abi
from probe.context import cgroup
from probe.context import mount as mountinfo
from probe.context.mount import Entry
from probe.doctor import examine, mounts, network
from probe.doctor.dependents import DEPENDENTS, USUALLY_REFUSED
from probe.doctor.difference import differences
from probe.doctor.findings import size
from probe.doctor.parallel import at_once
from probe.engine.filters import returns, run, seccomp_data

ANYTHING = st.text(alphabet=st.characters(codec="utf-8"), max_size=200)


def entry(path: str, fstype: str = "ext4", root: str = "/", **other: Any) -> Entry:
    options = frozenset(other.get("options", ()))
    super_options = frozenset(other.get("super_options", ()))
    return Entry(root, path, options, fstype, other.get("source", "/dev/sda1"), super_options)


# --- the mount table -------------------------------------------------------

LINE = r"36 35 98:0 /mnt1 /mnt\0402 rw,noatime master:1 - ext3 /dev/ro\134ot rw,errors=continue"


def test_the_line_that_proc_5_explains() -> None:
    assert mountinfo.parse(LINE) == [
        Entry(
            "/mnt1",
            "/mnt 2",
            frozenset({"rw", "noatime"}),
            "ext3",
            r"/dev/ro\ot",
            frozenset({"rw", "errors=continue"}),
        )
    ]


def test_without_optional_fields() -> None:
    assert mountinfo.parse("1 0 0:1 / / ro - tmpfs none rw")[0].fstype == "tmpfs"


@given(ANYTHING)
def test_no_text_is_too_odd_for_the_parsers(text: str) -> None:
    mountinfo.parse(text)
    resolver = network.parse_resolver(text)
    assert len(resolver["nameserver"]) <= 3
    cgroup.Cgroup([], text)


@given(st.lists(st.sampled_from(["/", "/a", "/a/b", "/a/b/c", "/ab", "/d"]), max_size=8))
def test_a_visible_mount_is_the_one_that_its_own_place_lies_on(paths: list[str]) -> None:
    table = mountinfo.visible([entry(path) for path in paths])
    for one in table:
        assert mountinfo.holding(one.path, table) is one
    if paths:
        assert table[-1].path == paths[-1]


def test_what_a_later_mount_covers_is_not_seen() -> None:
    table = mountinfo.visible([entry("/"), entry("/a/b"), entry("/ab"), entry("/a", "tmpfs")])
    assert [one.path for one in table] == ["/", "/ab", "/a"]
    held = mountinfo.holding("/a/b/c", table)
    assert held is not None and held.fstype == "tmpfs"


@pytest.mark.parametrize(
    ("mount", "survives"),
    [
        (entry("/tmp", "tmpfs", source="tmpfs"), "no"),
        (entry("/", "overlay", source="overlay", super_options=["upperdir=/x"]), "no"),
        (entry("/data", root="/srv/data"), "yes"),
        (entry("/data", "nfs4", source="server:/data"), "yes"),
        (entry("/", root="/"), "yes"),
    ],
)
def test_what_survives_a_restart(mount: Entry, survives: str) -> None:
    root = mount if mount.path == "/" else entry("/", "overlay", source="overlay")
    assert mounts._survival(mount, root)[0] == survives


# --- cgroups ---------------------------------------------------------------


def write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(content + "\n")


def test_version_2_takes_the_strictest_limit_on_the_way_up(tmp_path: Path) -> None:
    write(tmp_path)
    write(tmp_path / "a", memory__max="1000", pids__max="max", cpu__max="150000 100000")
    write(tmp_path / "a/b", memory__max="max", pids__max="7", memory__current="5")
    write(tmp_path / "a/b", memory__events="low 0\noom_kill 3", cpu__max="max 100000")
    group = cgroup.Cgroup([entry(str(tmp_path), "cgroup2")], "0::/a/b")
    assert (group.version, group.path) == (2, f"{tmp_path}/a/b")
    assert group.limit("memory", "memory.limit_in_bytes", "memory.max") == 1000
    assert group.limit("pids", "pids.max", "pids.max") == 7
    assert group.value("memory", "memory.usage_in_bytes", "memory.current") == 5
    assert group.event("memory", "memory.oom_control", "memory.events", "oom_kill") == 3
    assert group.cpus() == 1.5


def test_version_1_below_a_mount_that_shows_a_part_of_the_tree(tmp_path: Path) -> None:
    """A container without a cgroup namespace: the path is the host's, the mount its own part."""
    write(tmp_path, memory__limit_in_bytes="4096", cpu__cfs_quota_us="-1")
    mount = entry(str(tmp_path), "cgroup", root="/box/1", super_options=["rw", "memory", "cpu"])
    group = cgroup.Cgroup([mount], "4:memory,cpu:/box/1\n0::/box/1")
    assert group.version == 1
    assert group.limit("memory", "memory.limit_in_bytes", "memory.max") == 4096
    assert group.cpus() is None
    with pytest.raises(LookupError, match="pids"):
        group.limit("pids", "pids.max", "pids.max")


def test_no_limit_of_version_1_is_a_huge_number(tmp_path: Path) -> None:
    write(tmp_path, memory__limit_in_bytes=str((1 << 63) - 4096))
    mount = entry(str(tmp_path), "cgroup", super_options=["memory"])
    group = cgroup.Cgroup([mount], "4:memory:/")
    assert group.limit("memory", "memory.limit_in_bytes", "memory.max") is None


@pytest.mark.parametrize("table", [[], [entry("/sys/fs/cgroup/elsewhere", "cgroup2")]])
def test_no_cgroup_in_sight(table: list[Entry]) -> None:
    group = cgroup.Cgroup(table, "0::/../outside")
    assert group.path is None
    with pytest.raises(LookupError, match="no cgroup"):
        group.limit("memory", "memory.limit_in_bytes", "memory.max")


# --- network ---------------------------------------------------------------


def test_resolv_conf() -> None:
    text = "# x\nnameserver 1.1.1.1\nnameserver ::1\nsearch a\ndomain b\noptions ndots:5 rotate\n"
    assert network.parse_resolver(text) == {
        "nameserver": ["1.1.1.1", "::1"],
        "search": ["b"],
        "options": ["ndots:5", "rotate"],
    }


@pytest.mark.parametrize(
    ("value", "shown", "place"),
    [
        ("http://u:p@proxy:3128", "http://proxy:3128", ("proxy", 3128)),
        ("proxy:3128", "proxy:3128", ("proxy", 3128)),
        ("u:p@proxy:3128", "proxy:3128", ("proxy", 3128)),
        ("http://proxy", "http://proxy", ("proxy", 80)),
        ("http://a@b@proxy:1", "http://proxy:1", ("proxy", 1)),
        ("http://proxy:99999", "http://proxy:99999", None),
        ("localhost,.internal", "localhost,.internal", None),
    ],
)
def test_proxies_without_passwords(value: str, shown: str, place: tuple[str, int] | None) -> None:
    assert network.proxy_variables({"https_proxy": value}) == {"https_proxy": shown}
    assert network._proxy_place(shown) == place


# --- seccomp programs ------------------------------------------------------

ARGUMENTS = st.tuples(*[st.integers(0, 2**64 - 1)] * 6)
RULES = st.dictionaries(
    st.sampled_from(SYSCALLS), st.sampled_from(["EPERM", "ENOSYS", "TRAP", "LOG"]), max_size=6
)


@given(RULES, st.sampled_from(SYSCALLS), ARGUMENTS)
def test_a_filter_by_call_has_one_answer_for_each(
    rules: dict[str, str], call: str, arguments: tuple[int, ...]
) -> None:
    code = tuple(program(compile_filter(rules)))
    number = abi.syscall_numbers(MACHINE)[call]
    answer = run(code, seccomp_data(number, ARCH, 0, arguments))[0]
    assert returns(code, number, ARCH) == {answer}


COMPARISON = st.tuples(
    st.sampled_from([0x15, 0x25, 0x35, 0x45]),
    st.integers(0, 3),
    st.integers(0, 3),
    st.integers(0, 2**32 - 1),
)
LOAD = st.tuples(st.just(0x20), st.just(0), st.just(0), st.sampled_from(range(0, 64, 4)))
OTHER = st.sampled_from(
    [
        *((0x00, 0, 0, 7), (0x01, 0, 0, 9), (0x02, 0, 0, 3), (0x60, 0, 0, 3), (0x07, 0, 0, 0)),
        *((0x87, 0, 0, 0), (0x54, 0, 0, 0xFF), (0x0C, 0, 0, 0), (0x80, 0, 0, 0), (0x3D, 1, 0, 0)),
    ]
)
RETURN = st.tuples(
    st.just(0x06), st.just(0), st.just(0), st.sampled_from([0x7FFF0000, 0x50001, 0x30000, 0])
)


@given(st.lists(st.one_of(COMPARISON, LOAD, OTHER, RETURN), max_size=25), ARGUMENTS)
def test_no_answer_that_a_program_gives_is_missing(
    body: list[tuple[int, int, int, int]], arguments: tuple[int, ...]
) -> None:
    """For every program: what it returns for some arguments is among what it may return."""
    code = (*body, *[(0x06, 0, 0, 0x7FFF0000)] * 4)
    answer = run(code, seccomp_data(42, ARCH, arguments[0], arguments))[0]
    assert answer in returns(code, 42, ARCH)


def test_a_stack_answers_with_the_strictest_of_what_each_may_say() -> None:
    socket = abi.syscall_numbers(MACHINE)["socket"]
    family = [(0x20, 0, 0, 0), (0x15, 0, 3, socket), (0x20, 0, 0, 16), (0x15, 0, 1, 16)]
    family += [(0x06, 0, 0, 0x00050061), (0x06, 0, 0, 0x7FFF0000)]
    by_family = b"".join(struct.pack("=HBBI", *one) for one in family)
    filters, top = loaded(compile_filter({"bpf": "EPERM"}), by_family)
    assert filters.tops() == [top]
    numbers = {name: abi.syscall_numbers(MACHINE)[name] for name in ("socket", "bpf", "mount")}
    possible = filters.possible(top, numbers, ARCH)
    assert {answer.data for answer in possible["socket"]} == {97, 0}
    assert [answer.data for answer in possible["bpf"]] == [1]
    assert [answer.action for answer in possible["mount"]] == ["allow"]
    trap, top = loaded(by_family, compile_filter({"socket": "TRAP"}))
    assert [a.action for a in trap.possible(top, numbers, ARCH)["socket"]] == ["trap"]


def test_the_tables_name_calls_that_there_are() -> None:
    known = {*abi.syscall_numbers("x86_64"), *abi.syscall_numbers("aarch64")}
    needed = {call for dependent in DEPENDENTS for call in dependent.needs}
    assert needed <= known
    assert USUALLY_REFUSED - known <= {"uretprobe", "uprobe"}
    assert all(dependent.source for dependent in DEPENDENTS)


# --- comparison ------------------------------------------------------------


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    content: dict[str, Any] = examine().as_json()
    return content


def test_a_sandbox_does_not_differ_from_itself(report: dict[str, Any]) -> None:
    later = copy.deepcopy(report)
    later["limits"]["memory_used"], later["clock"]["now"] = 1, "2000-01-01T00:00:00Z"
    later["mounts"]["table"]["/"]["free"] = 1
    assert differences(report, later) == []


def test_each_difference_is_named_and_the_worst_comes_first(report: dict[str, Any]) -> None:
    there = copy.deepcopy(report)
    there["syscalls"]["refused"]["ptrace"] = "EPERM"
    there["tools"]["tools"]["bash"]["version"] = "0.1"
    there["limits"]["rlimits"]["nofile"]["soft"] = 7
    there["network"]["families"] = [one for one in there["network"]["families"] if one != "unix"]
    found = differences(report, there)
    assert [one.name for one in found] == [
        "syscalls.refused.ptrace",
        "network.families.unix",
        "limits.rlimits.nofile.soft",
        "tools.tools.bash.version",
    ]
    assert (found[0].here, found[0].there) == ("absent", "EPERM")


def test_what_one_side_did_not_learn_does_not_differ(report: dict[str, Any]) -> None:
    there = copy.deepcopy(report)
    there["tools"]["tools"]["bash"]["version"] = None
    there["limits"]["memory_limit"] = 5
    there["limits"]["unknown"]["memory_limit"] = "no cgroup is in sight"
    del there["clock"], there["kernel"]["machine"]
    assert differences(report, there) == []
    assert differences(there, report) == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["refused", "unknown", "table", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.sampled_from(["syscalls", "limits", "mounts", "network", "tools"]), JSON)
def test_a_report_of_another_form_is_no_trouble(section: str, content: Any) -> None:
    here = {"syscalls": {"unknown": {}, "refused": {"a": "EPERM"}}, "mounts": {"table": {}}}
    for one in differences(here, {section: content}):
        assert 0 <= one.weight <= 1


# --- the rest --------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1 KiB"),
        (64 << 20, "64 MiB"),
        (3 << 29, "1.5 GiB"),
    ],
)
def test_sizes(count: int, text: str) -> None:
    assert size(count) == text


def test_findings_come_the_likeliest_first() -> None:
    likelihoods = [finding.likelihood for finding in examine().findings()]
    assert likelihoods == sorted(likelihoods, reverse=True)


def test_what_is_late_is_left_behind() -> None:
    never = threading.Event()
    calls = [lambda: 1, lambda: never.wait(30) and 2, lambda: 3]
    assert at_once(calls, 3, 0.2) == [1, None, 3]
    never.set()
