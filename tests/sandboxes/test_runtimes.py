"""`probe doctor` in the sandboxes of real runtimes, against the configuration that made each."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from runtimes import PROFILE, Podman, applicable, in_gvisor, in_runc, specification, watched

import probe
from probe import abi
from probe.doctor.difference import differences

pytestmark = pytest.mark.sandboxes

SCHEMA = json.loads((Path(probe.__file__).parent / "doctor.schema.json").read_text())
MIB = 1 << 20
# What podman gives a container (containers-common 0.50, DefaultCapabilities).
PODMANS = {
    *("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_MKNOD"),
    *("CAP_NET_BIND_SERVICE", "CAP_NET_RAW", "CAP_AUDIT_WRITE", "CAP_SETFCAP", "CAP_SETGID"),
    *("CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT"),
}


def checked(report: dict[str, Any]) -> dict[str, Any]:
    jsonschema.validate(report, SCHEMA)
    assert report["clock"]["behind_s"] == 0
    assert report["kernel"]["machine"] == os.uname().machine
    assert report["tools"]["tools"]["bash"]["path"] == "/usr/bin/bash"
    assert "git" not in report["tools"]["tools"]  # debootstrap's minbase has none
    assert report["privileges"]["user"] == ("root" if report["privileges"]["uid"] == 0 else None)
    return report


def ids(report: dict[str, Any]) -> set[str]:
    return {finding["id"] for finding in report["findings"]}


def tmpfs(path: str, *options: str) -> dict[str, Any]:
    return {"destination": path, "type": "tmpfs", "source": "tmpfs", "options": list(options)}


# --- runc ------------------------------------------------------------------

SECCOMP = {
    "defaultAction": "SCMP_ACT_ALLOW",
    "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"],
    "syscalls": [
        {"names": ["ptrace", "keyctl"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1},
        {"names": ["bpf", "io_uring_setup"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38},
        {"names": ["reboot"], "action": "SCMP_ACT_KILL_PROCESS"},
        {"names": ["swapon"], "action": "SCMP_ACT_TRAP"},
        {
            "names": ["clone"],
            "action": "SCMP_ACT_ERRNO",
            "errnoRet": 1,
            # CLONE_NEWUSER among the flags, as Docker's profile asks for it
            "args": [
                {
                    "index": 0,
                    "value": 0x10000000,
                    "valueTwo": 0x10000000,
                    "op": "SCMP_CMP_MASKED_EQ",
                }
            ],
        },
        {
            "names": ["ioctl"],
            "action": "SCMP_ACT_ERRNO",
            "errnoRet": 1,
            "args": [{"index": 1, "value": 0x5412, "op": "SCMP_CMP_EQ"}],
        },
    ],
}
REFUSED = {
    **dict.fromkeys(("ptrace", "keyctl"), "EPERM"),
    **dict.fromkeys(("bpf", "io_uring_setup"), "ENOSYS"),
    "reboot": "kill",
    "swapon": "trap",
}


def test_runc(tmp_path: Path) -> None:
    capabilities = ("CAP_CHOWN", "CAP_SETUID", "CAP_SETGID", "CAP_NET_BIND_SERVICE")
    volume = {
        "destination": "/data",
        "type": "bind",
        "source": str(tmp_path),
        "options": ["bind", "rw"],
    }
    made = specification(
        capabilities=capabilities,
        seccomp=SECCOMP,
        resources={
            "memory": {"limit": 256 * MIB},
            "pids": {"limit": 55},
            "cpu": {"quota": 50000, "period": 100000},
        },
        mounts=[tmpfs("/tmp", "size=16m", "noexec", "nosuid"), volume],
        rlimits={"nofile": (512, 1024), "fsize": (10 * MIB, 10 * MIB)},
        read_only=True,
    )
    report = checked(in_runc(made))
    syscalls = report["syscalls"]
    assert (syscalls["mode"], syscalls["learned"], syscalls["filters"]) == ("filter", "trial", 1)
    assert syscalls["refused"] == REFUSED
    assert syscalls["conditional"].keys() == {"clone", "ioctl"}
    clone, ioctl = (syscalls["conditional"][name] for name in ("clone", "ioctl"))
    assert clone["CLONE_NEWUSER"] == "EPERM" and clone["a plain fork"] == "allow"
    assert ioctl["TIOCSTI"] == "EPERM" and ioctl["others"] == "allow"
    every = set(abi.syscall_numbers(abi.machine()))
    assert set(syscalls["allowed"]) == every - REFUSED.keys() - {"clone", "ioctl"}
    privileges = report["privileges"]
    assert set(privileges["effective"]) == set(privileges["bounding"]) == set(capabilities)
    assert privileges["no_new_privs"] is True and privileges["own_user_namespace"] is False
    limits = report["limits"]
    assert (limits["memory_limit"], limits["pids_limit"]) == (256 * MIB, 55)
    assert limits["cpu_limit"] == 0.5 and 0 < limits["memory_used"] < 256 * MIB
    assert limits["rlimits"]["nofile"] == {"soft": 512, "hard": 1024}
    assert limits["rlimits"]["fsize"] == {"soft": 10 * MIB, "hard": 10 * MIB}
    table, places = report["mounts"]["table"], report["mounts"]["places"]
    assert table["/"]["read_only"] and not places["/"]["writable"]
    assert table["/tmp"]["size"] == 16 * MIB and table["/tmp"]["noexec"]
    assert places["/tmp"]["writable"] and not places["/tmp"]["executable"]
    assert table["/dev/shm"]["size"] == 64 * MIB
    assert (table["/data"]["survives"], table["/tmp"]["survives"]) == ("yes", "no")
    assert not table["/data"]["read_only"] and table["/opt/probe"]["read_only"]
    assert report["mounts"]["missing_devices"] == []
    network = report["network"]
    assert network["interfaces"].keys() == {"lo"} and network["default_routes"] == []
    assert report["senses"]["engine"] == "portable"
    assert ids(report) >= {
        "syscalls.refused",
        "syscalls.fatal",
        "privileges.capability",
        "limits.memory",
        "limits.pids",
        "limits.cpu",
        "limits.nofile",
        "limits.fsize",
        "mounts.not_writable",
        "mounts.noexec",
        "mounts.shared_memory",
        "network.no_route",
        "tools.missing",
        "tools.python_packages",
    }


def test_runc_as_a_user_without_a_name_and_nothing_withheld() -> None:
    report = checked(in_runc(specification(user=(4711, 4712), no_new_privileges=False)))
    privileges = report["privileges"]
    assert (privileges["uid"], privileges["gid"]) == (4711, 4712)
    assert privileges["effective"] == [] and privileges["no_new_privs"] is False
    assert report["syscalls"]["mode"] == "off" and report["syscalls"]["refused"] == {}
    assert report["limits"]["memory_limit"] is None and report["limits"]["pids_limit"] is None
    assert not report["mounts"]["places"]["home"]["writable"]
    assert {"privileges.nameless", "privileges.not_root"} <= ids(report)


def test_the_difference_between_two_of_runc_is_what_was_changed() -> None:
    there = in_runc(specification(capabilities=("CAP_CHOWN",), seccomp=SECCOMP))
    again = in_runc(specification(capabilities=("CAP_CHOWN",), seccomp=SECCOMP))
    assert differences(again, there) == []
    stricter = {
        **SECCOMP,
        "syscalls": [
            *SECCOMP["syscalls"],
            {"names": ["setsid"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1},
        ],
    }
    here = in_runc(
        specification(
            capabilities=("CAP_KILL",),
            seccomp=stricter,
            resources={"pids": {"limit": 200}},
            mounts=[tmpfs("/tmp", "size=16m")],
        )
    )
    assert {one.name for one in differences(here, there)} == {
        "syscalls.refused.setsid",
        "limits.pids_limit",
        "mounts.table./tmp",
        "mounts.places./tmp.mount",
        "mounts.places.temporary files.mount",
        *(
            f"privileges.{which}.CAP_{name}"
            for which in ("effective", "bounding")
            for name in ("CHOWN", "KILL")
        ),
    }


# --- podman ----------------------------------------------------------------


@pytest.fixture(scope="module")
def podman() -> Podman:
    return Podman()


def expected_table(capabilities: set[str]) -> tuple[dict[str, str], set[str]]:
    """What the engine's profile refuses by itself, and the calls that it asks arguments of."""
    profile = json.loads(PROFILE.read_text())
    entries = applicable(profile, capabilities)
    conditional = {name for entry in entries if entry.get("args") for name in entry["names"]}
    answers: dict[str, str] = {}
    for entry in entries:
        answer = entry["errno"] if entry["action"] == "SCMP_ACT_ERRNO" else "allow"
        for name in entry["names"]:
            answers.setdefault(name, answer)  # of two rules libseccomp keeps the first
    calls = abi.syscall_numbers(abi.machine()).keys() - conditional
    table = {name: answers.get(name, profile["defaultErrno"]) for name in calls}
    return {name: answer for name, answer in table.items() if answer != "allow"}, conditional


def test_podman_with_its_own_profile(podman: Podman) -> None:
    report = checked(podman.examine())
    refused, conditional = expected_table(PODMANS)
    assert report["syscalls"]["learned"] == "trial"
    assert report["syscalls"]["conditional"].keys() == conditional == {"personality"}
    assert report["syscalls"]["refused"] == refused
    personality = report["syscalls"]["conditional"]["personality"]
    assert personality["ADDR_NO_RANDOMIZE"] == "ENOSYS" and personality["PER_LINUX"] == "allow"
    assert set(report["privileges"]["effective"]) == PODMANS
    assert report["kernel"]["container"] == "podman"
    root = report["mounts"]["table"]["/"]
    assert (root["fstype"], root["survives"]) == ("overlay", "no")
    assert report["limits"]["rlimits"]["nofile"] == {"soft": 20000, "hard": 20000}
    assert report["limits"]["rlimits"]["nproc"] == {"soft": 4096, "hard": 4096}


def test_podman_as_it_was_asked_for(podman: Podman, tmp_path: Path) -> None:
    dropped = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_SETUID")
    report = checked(
        podman.examine(
            *("--memory=300m", "--pids-limit=88", "--cpus=1.5", "--shm-size=128m", "--read-only"),
            *("--ulimit=nofile=700:800", "--security-opt=no-new-privileges", "--read-only-tmpfs=0"),
            "--ulimit=nproc=500:600",
            *(f"--cap-drop={name}" for name in dropped),
            *("--tmpfs=/scratch:size=8m,noexec", f"--volume={tmp_path}:/data"),
            "--env=HTTPS_PROXY=http://me:hunter2@proxy.invalid:3128",
        )
    )
    limits, table = report["limits"], report["mounts"]["table"]
    assert (limits["memory_limit"], limits["pids_limit"]) == (300 * MIB, 88)
    assert limits["cpu_limit"] == 1.5
    assert limits["rlimits"]["nofile"] == {"soft": 700, "hard": 800}
    assert set(report["privileges"]["effective"]) == PODMANS - set(dropped)
    assert report["privileges"]["no_new_privs"] is True
    assert table["/dev/shm"]["size"] == 128 * MIB
    assert table["/scratch"]["size"] == 8 * MIB and table["/scratch"]["noexec"]
    assert table["/data"]["survives"] == "yes" and table["/scratch"]["survives"] == "no"
    assert table["/"]["read_only"] and not report["mounts"]["places"]["/tmp"]["writable"]
    assert report["mounts"]["places"]["temporary files"]["exists"] is False
    assert report["network"]["proxies"] == {"HTTPS_PROXY": "http://proxy.invalid:3128"}
    assert "name" in report["network"]["reached"]["http://proxy.invalid:3128"]
    assert report["findings"][0]["id"] == "mounts.absent"  # no place for temporary files


def test_podman_with_capabilities_and_no_filter(podman: Podman) -> None:
    report = checked(podman.examine("--cap-add=SYS_PTRACE", "--security-opt=seccomp=unconfined"))
    assert report["syscalls"]["mode"] == "off"
    assert set(report["privileges"]["effective"]) == PODMANS | {"CAP_SYS_PTRACE"}


def test_the_difference_between_two_of_podman_is_what_was_changed(podman: Podman) -> None:
    there = podman.examine()
    here = podman.examine("--cap-add=SYS_ADMIN", "--memory=512m")
    before, after = (
        expected_table(capabilities)[0] for capabilities in (PODMANS, PODMANS | {"CAP_SYS_ADMIN"})
    )
    freed = before.keys() - after.keys()
    assert "mount" in freed or "bpf" in freed
    found = {one.name for one in differences(here, there)}
    assert found >= {f"syscalls.refused.{name}" for name in freed}
    assert found - {f"syscalls.refused.{name}" for name in freed} == {
        "privileges.effective.CAP_SYS_ADMIN",
        "privileges.bounding.CAP_SYS_ADMIN",
        "limits.memory_limit",
        "limits.swap_limit",
    }


# --- gVisor ----------------------------------------------------------------


def test_gvisor() -> None:
    made = specification(
        capabilities=("CAP_KILL", "CAP_CHOWN"),
        mounts=[tmpfs("/scratch", "size=8m", "noexec")],
        rlimits={"nofile": (700, 800)},
        read_only=True,
    )
    report = checked(in_gvisor(made))
    assert report["kernel"]["kind"] == "gVisor"
    assert report["syscalls"]["mode"] == "off" and report["syscalls"]["filters"] is None
    assert set(report["privileges"]["effective"]) == {"CAP_KILL", "CAP_CHOWN"}
    assert report["limits"]["rlimits"]["nofile"] == {"soft": 700, "hard": 800}
    assert report["limits"]["memory_limit"] is None
    assert report["limits"]["unknown"]["memory_limit"] == "no cgroup is in sight"
    table, places = report["mounts"]["table"], report["mounts"]["places"]
    assert table["/"]["read_only"] and not places["/var/tmp"]["writable"]
    assert table["/scratch"]["noexec"] and table["/scratch"]["survives"] == "no"
    assert report["network"]["interfaces"].keys() == {"lo"}
    assert report["network"]["default_routes"] == []
    assert report["senses"]["engine"] == "portable" and report["privileges"]["landlock"] == 0
    assert {"kernel.other", "network.no_route", "privileges.capability"} <= ids(report)


def test_gvisor_beside_runc_differs_by_its_kernel() -> None:
    made = specification(capabilities=("CAP_KILL",))
    found = {one.name for one in differences(in_gvisor(made), in_runc(made))}
    assert {"kernel.kind", "kernel.release", "privileges.landlock"} <= found
    assert not {name for name in found if name.startswith(("syscalls.", "privileges.effective"))}


# --- the portable engine in them ---------------------------------------------

FAILING = "sleep 1.5; sh -c 'sleep 1.2; exit 7'; sleep 0.3; exit 3"


def ends(report: dict[str, Any]) -> list[tuple[str, int]]:
    ended = [event for event in report["events"] if event["kind"] == "exit"]
    return [(event["comm"], event.get("code", -1)) for event in ended]


def programs(report: dict[str, Any]) -> list[str]:
    return [" ".join(event["argv"][:3]) for event in report["events"] if event["kind"] == "exec"]


def test_gvisor_is_watched_by_looking() -> None:
    made = specification(mounts=[tmpfs("/tmp")])
    made["process"]["args"] = watched(FAILING)
    report = in_gvisor(made)
    coverage = report["coverage"]
    assert (coverage["engine"], coverage["attribution"]) == ("portable", "time")
    assert coverage["senses"]["oom"].startswith("none: ")
    assert "come and go between two looks" in coverage["senses"]["exec"]
    assert {"sleep 1.5", "sleep 1.2", "sh -c sleep 1.2; exit 7"} <= set(programs(report))
    # Statuses of those that others wait for cannot be had there; our own child's can.
    assert ends(report) == [("sh", 3)]
    assert report["verdict"]["cause"] == "unknown"


def test_gvisor_tells_how_the_command_ended() -> None:
    made = specification(mounts=[tmpfs("/tmp")])
    made["process"]["args"] = watched("sleep 0.4; kill -SEGV $$")
    report = in_gvisor(made)
    assert report["verdict"]["cause"] == "workload.crashed"
    assert report["verdict"]["confidence"] <= 0.6


def test_podman_without_capabilities(podman: Podman) -> None:
    report = podman.examine("--cap-drop=all", "--tmpfs=/tmp", command=watched(FAILING))
    coverage = report["coverage"]
    assert (coverage["engine"], coverage["attribution"]) == ("portable", "time")
    assert [end for end in ends(report) if end[0] == "sh"] == [("sh", 7), ("sh", 3)]
    assert report["verdict"]["cause"] == "unknown"


def test_the_oom_killer_in_podman_without_capabilities(podman: Podman) -> None:
    hog = "sleep 0.3; python3 -c 'd = [bytearray(1 << 20) for _ in range(300)]'; exit 1"
    report = podman.examine(
        *("--cap-drop=all", "--tmpfs=/tmp", "--memory=120m", "--memory-swap=120m"),
        command=watched(hog),
    )
    assert report["coverage"]["senses"]["oom"].startswith("partial: by the counters of cgroups")
    assert report["verdict"]["cause"] == "memory.cgroup_oom"
    (event,) = [event for event in report["events"] if event["kind"] == "oom"]
    assert event["limit"] == 120 * MIB


def test_a_full_pids_cgroup_in_podman_without_capabilities(podman: Podman) -> None:
    forks = (
        "import subprocess as s\n"
        "children = []\n"
        "try:\n for _ in range(99): children.append(s.Popen(['sleep', '5']))\n"
        "finally:\n for child in children: child.kill()\n"
    )
    report = podman.examine(
        *("--cap-drop=all", "--tmpfs=/tmp", "--pids-limit=30"),
        command=watched(f'exec python3 -c "{forks}"'),
    )
    assert report["verdict"]["cause"] == "fork.pids_limit"
    assert "of 30 processes" in report["verdict"]["summary"]


# --- the tracing engine in them ------------------------------------------------

CONNECTING = "import socket; socket.create_connection(('127.0.0.1', 5432))"
TRACED = {
    "a missing program": ("frobnicate", "exec.not_found", "frobnicate"),
    "a missing file": ("cat /no/such/file", "fs.missing", "/no/such/file"),
    "nobody listens": (f'python3 -c "{CONNECTING}"', "net.refused", "127.0.0.1:5432"),
    "its own fault": ("exit 3", "workload.failed", "exit status 3"),
}


@pytest.mark.parametrize("name", TRACED)
def test_gvisor_is_traced_where_somebody_asks_for_it(name: str) -> None:
    script, cause, named = TRACED[name]
    made = specification(mounts=[tmpfs("/tmp")])
    made["process"]["args"] = watched(script, "ptrace")
    report = in_gvisor(made)
    assert report["coverage"]["engine"] == "ptrace"
    assert report["verdict"]["cause"] == cause and named in report["verdict"]["summary"]


@pytest.mark.parametrize("name", TRACED)
def test_podman_without_capabilities_is_traced(name: str, podman: Podman) -> None:
    script, cause, named = TRACED[name]
    report = podman.examine("--cap-drop=all", "--tmpfs=/tmp", command=watched(script, "ptrace"))
    assert report["coverage"]["engine"] == "ptrace"
    assert report["verdict"]["cause"] == cause and named in report["verdict"]["summary"]


def test_a_call_that_podmans_filter_refuses_is_seen_by_tracing(podman: Podman) -> None:
    number = abi.syscall_numbers(abi.machine())["perf_event_open"]
    script = f"exec python3 -c 'import ctypes; exit(ctypes.CDLL(None).syscall({number}, *[0] * 5))'"
    report = podman.examine("--tmpfs=/tmp", command=watched(script, "ptrace"))
    refused = {
        event["syscall"]
        for event in report["events"]
        if event["kind"] in ("seccomp", "syscall") and event.get("errno") == "EPERM"
    }
    assert "perf_event_open" in refused
