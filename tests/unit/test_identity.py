"""The container's id, from what each runtime makes of /proc/PID/cgroup."""

from __future__ import annotations

import pytest

from probe import identity

ID = "3f2a" * 16


@pytest.mark.parametrize(
    "text",
    [
        f"12:pids:/docker/{ID}\n0::/system.slice/containerd.service",
        f"0::/system.slice/docker-{ID}.scope",
        f"0::/machine.slice/libpod-{ID}.scope/container",
        f"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope",
        f"0::/kubepods.slice/kubepods-burstable.slice/cri-containerd-{ID}.scope",
        f"0::/kubepods/besteffort/pod1234-ab/crio-{ID}",
        f"4:memory:/kubepods/burstable/podffee/{ID}",
    ],
    ids=["docker v1", "docker v2", "podman", "rootless", "containerd", "crio", "kubernetes v1"],
)
def test_a_container_is_known_by_its_id(text: str) -> None:
    assert identity.container_id(text) == ID[:12]


@pytest.mark.parametrize("text", ["", "0::/", "0::/system.slice/ssh.service", "nonsense"])
def test_without_a_container_there_is_none(text: str) -> None:
    assert identity.container_id(text) is None


def test_the_environment_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROBE_SANDBOX", "box-7")
    assert identity.sandbox_id() == "box-7"
