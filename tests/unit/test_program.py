"""What kept a program from being started, where that is looked up after the fact."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from probe.context.access import Caller
from probe.context.program import obstacle

ROOT = Caller(uid=0, groups=frozenset({0}), capabilities=(1 << 41) - 1)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "b001" / "sum.test"
    path.parent.mkdir()
    path.write_bytes(b"\x7fELF")
    path.chmod(0o755)
    return path


def test_a_program_that_goes_while_it_is_looked_at(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`go test` takes it away as soon as it could not be started; the mount tells all the same."""
    real = os.stat

    def once(path: str, **options: object) -> os.stat_result:
        found = real(path, **options)  # type: ignore[arg-type]
        if path == str(program):
            program.unlink()
            program.parent.rmdir()
        return found

    monkeypatch.setattr(os, "stat", once)
    monkeypatch.setattr(
        os, "statvfs", lambda path: SimpleNamespace(f_flag=os.ST_NOEXEC, of=real(path))
    )
    found = obstacle(str(program), "EACCES", ROOT)
    assert found is not None
    assert found.reason == "exec.noexec_mount"


def test_a_program_that_a_policy_refuses(program: Path) -> None:
    found = obstacle(str(program), "EACCES", ROOT)
    assert found is not None
    assert found.reason == "lsm.denied"
