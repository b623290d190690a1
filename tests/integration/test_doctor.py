"""`probe doctor` says of a sandbox what the sandbox was made with."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from conftest import BIN

import probe
from collector.sandbox import Profile, Sandbox
from probe import abi
from probe.doctor.dependents import USUALLY_REFUSED

PROBE = str(BIN / "probe")
SCHEMA = json.loads((Path(probe.__file__).parent / "doctor.schema.json").read_text())
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
EVERY_CALL = set(abi.syscall_numbers(abi.machine()))

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make such a sandbox")


def validated(text: str) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(text)
    jsonschema.validate(report, SCHEMA)
    return report


def doctor(*options: str, prefix: Sequence[str] = (), **popen: Any) -> str:
    """What it prints; it never fails for what it finds."""
    popen.setdefault("env", {**os.environ, "PROBE_SOCKET": "/nonexistent"})
    done = subprocess.run(
        [*prefix, PROBE, "doctor", *options], capture_output=True, text=True, check=False, **popen
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def within(profile: Profile, *options: str, prefix: Sequence[str] = ()) -> str:
    with Sandbox(profile, f"doctor-{os.getpid()}") as sandbox:
        return doctor(*options, prefix=[*sandbox.command([]), *prefix])


def found(report: dict[str, Any], name: str) -> list[str]:
    return [one["summary"] for one in report["findings"] if one["id"] == name]


@pytest.fixture(scope="module")
def bare() -> dict[str, Any]:
    return validated(doctor("--json"))


def said(*command: str) -> Any:
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_bare_mounts_are_those_of_findmnt(bare: dict[str, Any]) -> None:
    rows = said("findmnt", "--json", "--list", "--real", "--output", "target,fstype,options")
    known = {row["target"]: row for row in rows["filesystems"]}
    table = bare["mounts"]["table"]
    assert known.keys() <= table.keys()
    for path, row in known.items():
        assert table[path]["fstype"] == row["fstype"]
        assert table[path]["read_only"] == ("ro" in row["options"].split(","))
    blocks, size = subprocess.getoutput("stat -f -c '%b %S' /").split()
    assert table["/"]["size"] == int(blocks) * int(size)


def test_bare_network_is_that_of_ip(bare: dict[str, Any]) -> None:
    network = bare["network"]
    links = {link["ifname"]: link for link in said("ip", "--json", "address")}
    assert network["interfaces"].keys() == links.keys()
    for name, link in links.items():
        assert network["interfaces"][name]["up"] == ("UP" in link["flags"])
        expected = {f"{one['local']}/{one['prefixlen']}" for one in link["addr_info"]}
        assert set(network["interfaces"][name]["addresses"]) == expected
    defaults = said("ip", "--json", "-4", "route", "show", "default")
    assert ("ipv4" in network["default_routes"]) == bool(defaults)


def test_bare_limits_and_privileges_are_those_of_the_system(bare: dict[str, Any]) -> None:
    rows = subprocess.getoutput("prlimit --raw --noheadings --output RESOURCE,SOFT").splitlines()
    softs = {name.lower(): soft for name, soft in map(str.split, rows)}
    rlimits = bare["limits"]["rlimits"]
    assert softs.keys() - rlimits.keys() <= {"locks"}  # the kernel ignores that one
    for name, limit in rlimits.items():
        assert softs[name] == ("unlimited" if limit["soft"] is None else str(limit["soft"]))
    held = subprocess.run(["setpriv", "--dump"], capture_output=True, text=True, check=True).stdout
    bounding = next(line for line in held.splitlines() if "bounding set:" in line).split(": ")[1]
    names = {f"CAP_{name.upper()}" for name in bounding.split(",")}
    assert set(bare["privileges"]["bounding"]) == names
    assert bare["privileges"]["uid"] == os.geteuid()
    assert bare["kernel"]["cpus"] == len(os.sched_getaffinity(0))
    assert bare["kernel"]["release"] == os.uname().release


def test_bare_tools_are_those_on_the_path(bare: dict[str, Any]) -> None:
    tools = bare["tools"]["tools"]
    for name in ("bash", "git", "no-such-tool"):
        assert tools.get(name, {}).get("path") == shutil.which(name)
    assert tools["bash"]["version"] in subprocess.getoutput("bash --version")


RULES = {"ptrace": "EPERM", "keyctl": "ENOSYS", "reboot": "KILL_PROCESS", "swapon": "KILL_THREAD"}
RULES |= {"mount": "TRAP", "personality": "ERRNO(0)", "io_uring_setup": "EACCES"}
ANSWERS = {
    "ptrace": "EPERM",
    "keyctl": "ENOSYS",
    "reboot": "kill",
    "swapon": "kill",
    "mount": "trap",
    "personality": "pretended success",
    "io_uring_setup": "EACCES",
}


@pytest.mark.bpf
@root_only
def test_the_table_in_force_by_the_filter_programs() -> None:
    syscalls = validated(within(Profile(seccomp=RULES), "--json"))["syscalls"]
    assert (syscalls["mode"], syscalls["learned"]) == ("filter", "programs")
    assert syscalls["refused"] == ANSWERS and syscalls["conditional"] == {}
    assert set(syscalls["allowed"]) == EVERY_CALL - ANSWERS.keys()
    assert "strace and ltrace" in syscalls["breaks"]


@root_only
def test_the_table_in_force_by_trial_where_bpf_is_not_permitted() -> None:
    rules = {**RULES, "bpf": "EPERM"}
    syscalls = validated(within(Profile(seccomp=rules), "--json"))["syscalls"]
    assert (syscalls["mode"], syscalls["learned"]) == ("filter", "trial")
    assert syscalls["refused"] == {**ANSWERS, "bpf": "EPERM"} and syscalls["conditional"] == {}
    assert set(syscalls["allowed"]) == EVERY_CALL - rules.keys()


@root_only
def test_a_filter_that_kills_at_dozens_of_calls_is_learned_whole() -> None:
    numbers = abi.syscall_numbers(abi.machine())
    killing = {name for name in USUALLY_REFUSED & EVERY_CALL if numbers[name] < 440}
    syscalls = validated(within(Profile(seccomp=dict.fromkeys(killing, "KILL_PROCESS")), "--json"))[
        "syscalls"
    ]
    assert syscalls["refused"] == dict.fromkeys(killing, "kill") and len(killing) > 60
    assert syscalls["conditional"] == {} and syscalls["learned"] == "trial"


@root_only
def test_calls_under_trial_are_never_carried_out(tmp_path: Path) -> None:
    """strace follows the child: of all that it tries, nothing reaches the kernel."""
    trace = tmp_path / "trace"
    calls = ("sync", "vhangup", "setsid", "reboot", "pause", "munlockall", "vfork", "setuid")
    prefix = ["strace", "-f", "-qq", "-e", f"trace={','.join(calls)}", "-o", str(trace)]
    script = (
        "from probe import abi; from probe.doctor import trial;"
        f"asked = [(abi.syscall_numbers(abi.machine())[name], (0,) * 6) for name in {calls}];"
        "assert set(trial.answers(asked)) == {trial.ALLOWED}"
    )
    subprocess.run([*prefix, sys.executable, "-c", script], check=True)
    seen = [line for line in trace.read_text().splitlines() if "(" in line and "+++" not in line]
    # The supervisor's answer is what strace is told of, and no call says 24256 by itself.
    assert len(seen) == len(calls) and all(line.endswith("= 24256") for line in seen), seen


def filtered(tmp_path: Path, code: Sequence[tuple[int, int, int, int]]) -> list[str]:
    """A prefix that puts a program of our own into force."""
    program = tmp_path / "filter"
    program.write_bytes(b"".join(struct.pack("=HBBI", *one) for one in code))
    bubblewrap = ["bwrap", "--dev-bind", "/", "/", "--seccomp", "9"]
    return ["bash", "-c", f'exec "$@" 9< {program}', "filtered", *bubblewrap]


def refusing_family(call: str, family: int) -> list[tuple[int, int, int, int]]:
    """A filter that refuses one call with one value of its first argument."""
    number = abi.syscall_numbers(abi.machine())[call]
    return [
        (0x20, 0, 0, 0),
        (0x15, 0, 3, number),
        (0x20, 0, 0, 16),
        (0x15, 0, 1, family),
        (0x06, 0, 0, 0x00050061),  # EAFNOSUPPORT
        (0x06, 0, 0, 0x7FFF0000),
    ]


@pytest.mark.bpf
@root_only
def test_a_call_that_is_refused_with_some_arguments(tmp_path: Path) -> None:
    prefix = filtered(tmp_path, refusing_family("socket", socket.AF_PACKET))
    report = validated(doctor("--json", prefix=prefix))
    conditional = report["syscalls"]["conditional"]
    assert conditional.keys() == {"socket"}
    told = conditional["socket"]
    assert {name for name, answer in told.items() if answer == "EAFNOSUPPORT"} == {"packet"}
    assert {"ipv4", "ipv6", "unix"} < {name for name, answer in told.items() if answer == "allow"}
    assert report["syscalls"]["learned"] == "programs"


@pytest.mark.bpf
@root_only
def test_a_condition_that_no_known_case_shows_is_told_all_the_same(tmp_path: Path) -> None:
    prefix = filtered(tmp_path, refusing_family("getpriority", 4711))
    conditional = validated(doctor("--json", prefix=prefix))["syscalls"]["conditional"]
    assert conditional == {"getpriority": {"": "allow", "with other arguments": "EAFNOSUPPORT"}}


DEADLY = {"syslog", "bpf", "perf_event_open", "unshare", "ptrace", "landlock_create_ruleset"}
DEADLY |= {"socket", "connect", "clock_adjtime", "adjtimex", "prctl"}


@root_only
def test_a_filter_that_kills_does_not_kill_the_doctor() -> None:
    report = validated(within(Profile(seccomp=dict.fromkeys(DEADLY, "KILL_PROCESS")), "--json"))
    assert report["senses"]["engine"] == "none"
    assert report["network"]["families"] == []
    assert report["privileges"]["unknown"]["landlock"]
    assert report["clock"]["unknown"]["synchronised"]


@root_only
@pytest.mark.parametrize(
    ("calls", "lost"),
    [
        (("geteuid", "getegid"), {"privileges"}),
        (("sendto", "getsockopt"), {"network"}),
        (("statfs",), {"mounts"}),
        (("epoll_ctl",), {"network"}),  # and the engine, so that the table is learned by trial
    ],
)
def test_a_section_is_lost_alone(calls: tuple[str, ...], lost: set[str]) -> None:
    """Where whoever looks is killed; the table in force is learned all the same."""
    rules = dict.fromkeys(calls, "KILL_PROCESS")
    report = validated(within(Profile(seccomp=rules), "--json"))
    assert report["syscalls"]["refused"] == dict.fromkeys(calls, "kill")
    unseen = {one["id"].removesuffix(".unseen") for one in report["findings"]}
    assert unseen & report.keys() == lost
    for section in lost:
        assert all("SIGSYS" in why for why in report[section]["unknown"].values())


@root_only
def test_the_table_in_force_for_a_user_without_rights() -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        profile = Profile(seccomp=RULES, user=1234)
        with Sandbox(profile, "unused") as sandbox:
            report = isolated(Path(folder), sandbox.command([]))
    assert report["syscalls"]["learned"] == "trial"
    assert report["syscalls"]["refused"] == ANSWERS


@root_only
def test_a_filter_that_cannot_be_learned_is_said_to_be_unknown() -> None:
    rules = {"seccomp": "EPERM", "bpf": "EPERM"}
    syscalls = validated(within(Profile(seccomp=rules), "--json"))["syscalls"]
    assert syscalls["mode"] == "filter"
    assert syscalls["refused"] is syscalls["allowed"] is syscalls["learned"] is None
    assert "EPERM" in syscalls["unknown"]["refused"]


@root_only
def test_limits_of_cgroups_and_of_the_process() -> None:
    profile = Profile(memory=300 << 20, pids=77)
    prefix = ["prlimit", "--nofile=333:444", "--fsize=1000000"]
    report = validated(within(profile, "--json", prefix=prefix))
    limits = report["limits"]
    assert limits["memory_limit"] == 300 << 20 and limits["pids_limit"] == 77
    assert 0 < limits["pids_used"] < 77 and 0 < limits["memory_used"] < 300 << 20
    assert limits["rlimits"]["nofile"] == {"soft": 333, "hard": 444}
    for name in ("limits.memory", "limits.pids", "limits.nofile", "limits.fsize"):
        assert found(report, name)


@root_only
def test_where_not_even_a_child_can_be_had() -> None:
    report = validated(within(Profile(pids=1), "--json"))
    assert report["limits"]["pids_limit"] == 1 and found(report, "limits.pids_used")
    assert set(report["network"]["families"]) >= {"unix", "ipv4"}
    assert "new_user_namespace" in report["privileges"]["unknown"]


@root_only
def test_mounts_as_they_were_made(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    profile = Profile(read_only=["/usr"], tmpfs={"/tmp": 16 << 20, "/dev/shm": 1 << 20}, user=1234)
    prefix = ["bwrap", "--dev-bind", "/", "/", "--ro-bind", str(data), "/mnt"]
    inner = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o noexec t /opt && exec "$@"', "sh"]
    report = validated(doctor("--json", prefix=[*inner, *prefix]))
    table = report["mounts"]["table"]
    assert table["/opt"]["noexec"] and table["/opt"]["survives"] == "no"
    assert table["/mnt"]["read_only"] and table["/mnt"]["survives"] == "yes"
    # A nested doctor cannot see a folder that a tmpfs hides, so this one runs from outside /tmp.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        report = isolated(Path(folder), within_prefix(profile))
    table, places = report["mounts"]["table"], report["mounts"]["places"]
    assert table["/tmp"]["size"] == 16 << 20 and table["/tmp"]["fstype"] == "tmpfs"
    assert table["/usr"]["read_only"]
    assert places["/tmp"]["mount"] == "/tmp" and places["/tmp"]["writable"]
    assert report["privileges"]["uid"] == 1234 and report["privileges"]["user"] is None
    assert report["privileges"]["own_user_namespace"] is True
    assert found(report, "mounts.shared_memory") and found(report, "privileges.nameless")


def within_prefix(profile: Profile) -> list[str]:
    with Sandbox(profile, "unused") as sandbox:
        return sandbox.command([])


def isolated(folder: Path, prefix: Sequence[str]) -> dict[str, Any]:
    """The examination by a copy of the probe alone, with nothing that it depends on."""
    shutil.copytree(Path(probe.__file__).parent, folder / "probe")
    folder.chmod(0o755)
    python = os.path.realpath(sys.executable)
    script = "import sys; from probe.cli import main; sys.argv[1:] = ['doctor', '--json']; main()"
    done = subprocess.run(
        [*prefix, python, "-c", script], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return validated(done.stdout)


MINIMAL = ["bwrap", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin"]
MINIMAL += ["--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--unshare-all"]


def test_where_next_to_everything_is_missing() -> None:
    """No /proc, /dev, /etc, /tmp, network, library; each section says what it did not learn."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        prefix = [*MINIMAL, "--ro-bind", folder, "/code", "--chdir", "/code", "--uid", "1000"]
        report = isolated(Path(folder), prefix)
    assert report["mounts"]["table"] is None and "mountinfo" in report["mounts"]["unknown"]["table"]
    assert report["syscalls"]["mode"] == "off"  # prctl(2) tells where /proc does not
    assert report["limits"]["memory_limit"] is None
    assert "no cgroup" in report["limits"]["unknown"]["memory_limit"]
    assert "pyroute2" in report["network"]["unknown"]["interfaces"]
    assert "null" in report["mounts"]["missing_devices"]
    absent = " ".join(found(report, "mounts.absent"))
    assert "/tmp" in absent and "/dev/shm" in absent
    assert report["findings"][0]["severity"] == "high"


@root_only
def test_a_network_without_a_way_out_and_a_loopback_that_is_down() -> None:
    report = validated(within(Profile(network="none"), "--json"))
    assert report["network"]["interfaces"]["lo"]["up"] is False
    assert report["network"]["default_routes"] == []
    assert found(report, "network.loopback") and found(report, "network.no_route")


def test_what_is_asked_for_is_reached_or_not() -> None:
    with socket.socket() as server, socket.socket() as closed:
        for one in (server, closed):
            one.bind(("127.0.0.1", 0))
        server.listen()
        there, away = (f"127.0.0.1:{one.getsockname()[1]}" for one in (server, closed))
        proxy = f"http://somebody:hunter2@{there}"
        environment = {**os.environ, "HTTP_PROXY": proxy, "https_proxy": f"http://{away}"}
        text = doctor(
            "--json", "--reach", there, "--reach", away, "--reach", "x.invalid:80", env=environment
        )
    network = validated(text)["network"]
    assert "hunter2" not in text
    assert network["reached"][there] == "connected"
    assert network["reached"][away] == "ECONNREFUSED"
    assert network["reached"]["x.invalid:80"] not in ("connected", "")
    assert network["reached"][f"http://{there}"] == "connected"
    assert network["reached"][f"http://{away}"] == "ECONNREFUSED"
    assert network["proxies"]["HTTP_PROXY"] == f"http://{there}"


def names(text: str) -> set[str]:
    whole = json.loads(text)
    assert whole["schema"] == "probe.doctor.difference/1"
    return {one["name"] for one in whole["differences"]}


@root_only
def test_the_difference_between_two_sandboxes_is_exactly_what_was_changed(tmp_path: Path) -> None:
    there = tmp_path / "there.json"
    same = {"keyctl": "EPERM", "bpf": "EPERM"}
    common = Profile(seccomp=same, memory=1 << 30, network="none")
    there.write_text(within(common, "--json"))
    other = dataclasses.replace(
        common,
        seccomp={**same, "keyctl": "ENOSYS", "ptrace": "EPERM"},
        memory=1 << 29,
        pids=99,
        tmpfs={"/srv": 1 << 20},
    )
    prefix = ["prlimit", "--nofile=512:1024"]
    difference = ("--json", "--diff", str(there))
    assert names(within(other, *difference, prefix=prefix)) == {
        "syscalls.refused.keyctl",
        "syscalls.refused.ptrace",
        "limits.memory_limit",
        "limits.pids_limit",
        "limits.rlimits.nofile.soft",
        "limits.rlimits.nofile.hard",
        "mounts.table./srv",
    }
    assert names(within(common, *difference)) == set()
    stricter = dataclasses.replace(common, seccomp={**same, "ptrace": "EPERM"})
    text = within(stricter, *difference[1:])
    assert text == "syscalls.refused.ptrace: here EPERM; there allowed\n"


@pytest.mark.parametrize(
    ("content", "named"),
    [(None, "No such file"), ("{", "not JSON"), ('{"schema": "x/1"}', "x/1"), ("[]", "None")],
)
def test_a_report_that_cannot_be_compared_with(
    content: str | None, named: str, tmp_path: Path
) -> None:
    path = tmp_path / "there.json"
    if content is not None:
        path.write_text(content)
    bad_usage(["--diff", str(path)], str(path), named)


@pytest.mark.parametrize("target", ["nowhere", "host:", ":80", "host:99999", "host:http"])
def test_a_target_that_is_none(target: str) -> None:
    bad_usage(["--reach", target], target, "HOST:PORT")


def bad_usage(options: list[str], *named: str) -> None:
    done = subprocess.run([PROBE, "doctor", *options], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert all(name in done.stderr for name in named)


@pytest.fixture
def hostile_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="\x1b]0;owned\x07\x1b[31m") as name:
        yield Path(name)


@root_only
def test_escapes_never_reach_the_terminal_raw(hostile_folder: Path) -> None:
    """In names of mounts, PATH, proxies, the working directory and in another's report."""
    tool = hostile_folder / "git"
    tool.write_text("#!/bin/sh\nprintf '1.2.3\\033[31m'\n")
    tool.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{hostile_folder}:{os.environ['PATH']}",
        "http_proxy": "http://\x1b[31mhost",
        "TMPDIR": str(hostile_folder),
        "LD_PRELOAD": "",
    }
    prefix = ["bwrap", "--dev-bind", "/", "/", "--tmpfs", str(hostile_folder), "--ro-bind"]
    prefix += [str(tool), str(tool)]
    text = doctor(prefix=prefix, env=environment, cwd=hostile_folder)
    assert "owned" in text and "1.2.3" in text
    there = hostile_folder / "there.json"
    there.write_text(
        doctor("--json", prefix=prefix, env=environment).replace("linux", "\\u001b[1m")
    )
    text += doctor("--diff", str(there))
    assert "kernel.kind" in text
    assert not {character for character in text if ord(character) < 32} - {"\n"}


def test_an_examination_is_told_within_eighty_columns() -> None:
    environment = {**os.environ, "PROBE_SOCKET": "/nonexistent"}
    script = f"stty cols 80; {PROBE} doctor"
    done = subprocess.run(
        ["script", "-qec", script, "/dev/null"], capture_output=True, text=True, env=environment
    )
    lines = done.stdout.replace("\r", "").splitlines()
    plain = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in lines]
    assert len(plain) > 10 and max(map(len, plain)) <= 80
