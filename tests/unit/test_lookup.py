"""What is looked up for records of the bcc engine, of processes there and of those gone."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import wait_for

from probe.context.cgroup import Level
from probe.engine import records
from probe.engine.bcc import lookup
from probe.engine.bcc.lookup import Lookup

GONE = 4_100_000  # above any process number here


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process with limits and a directory of its own."""
    process = subprocess.Popen(["prlimit", "--nofile=77", "sleep", "60"], cwd=tmp_path)
    name = Path(f"/proc/{process.pid}/comm")
    # In the midst of execve(2) nobody may look at its memory's owner (ptrace(2), access checks).
    wait_for(lambda: name.read_text() == "sleep\n" and Lookup().place(process.pid))
    yield process
    process.kill()
    process.wait()


def file_record(pid: int, path: bytes, **fields: object) -> records.FileRecord:
    head = records.Record(pid=pid, kind=11)
    unknown = records.UNKNOWN_CAPABILITIES
    return records.FileRecord(
        **{"head": head, "path": path, "dirfd": -100, "capabilities": unknown, **fields}
    )


def test_a_living_process(sleeper: subprocess.Popen[bytes], tmp_path: Path) -> None:
    record = file_record(sleeper.pid, b"x", error=errno.EMFILE)
    Lookup().complete(record)
    assert record.cwd.decode() == os.path.realpath(tmp_path)
    assert record.limit == 77
    assert record.head.mnt_ns == os.stat("/proc/self/ns/mnt").st_ino
    assert record.head.ppid == os.getpid()
    assert record.head.session == os.getsid(0)
    with open("/proc/self/status", encoding="ascii") as status:
        capabilities = next(line.split()[1] for line in status if line.startswith("CapEff:"))
    assert record.capabilities == int(capabilities, 16)


def test_of_one_that_is_gone_what_was_known_goes_on_except_its_rights(
    sleeper: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    kept = Lookup()
    kept.place(sleeper.pid)
    sleeper.kill()
    sleeper.wait()
    record = file_record(sleeper.pid, b"x")
    kept.complete(record)
    assert record.cwd.decode() == os.path.realpath(tmp_path)
    assert record.capabilities == records.UNKNOWN_CAPABILITIES


def test_a_child_that_is_gone_is_where_its_parent_was() -> None:
    kept = Lookup()
    kept.place(os.getpid())
    record = file_record(GONE, b"x")
    record.head.ppid = os.getpid()
    kept.complete(record)
    assert record.cwd.decode() == os.getcwd()
    assert record.head.inner_pid == 0
    assert record.capabilities == records.UNKNOWN_CAPABILITIES


def test_of_one_that_nobody_knows_nothing_is_said() -> None:
    record = file_record(GONE, b"x")
    Lookup().complete(record)
    assert (record.cwd, record.head.mnt_ns) == (b"", 0)
    assert record.capabilities == records.UNKNOWN_CAPABILITIES


def test_a_descriptor_that_is_gone_goes_by_the_name_it_was_opened_by() -> None:
    kept = Lookup()
    kept.place(os.getpid())
    record = file_record(GONE, b"", dirfd=5, cwd=b"sub/data")
    record.head.ppid = os.getpid()
    kept.complete(record)
    assert record.cwd.decode() == os.path.join(os.getcwd(), "sub/data")


def test_the_names_of_a_cgroup_go_upwards() -> None:
    out = records.CgroupLimit()
    lookup._fill(out, Level("/a/b", limit=8192, usage=4096), 4096)
    assert (out.limit, out.usage) == (2, 1)
    assert [name.value for name in out.name][:3] == [b"b", b"a", b""]


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "_KEPT", 3)
    kept = Lookup()
    kept.place(os.getpid())
    for pid in range(GONE, GONE + 9):
        kept.place(pid, os.getpid())
    assert len(kept._places) == 3
