"""What of its mounts a sandbox lets be written and executed, the same by each driver."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from collector.sandbox import Profile, Sandbox

COMMANDS = {"bubblewrap": "bwrap", "runc": "runc", "podman": "podman"}
NOEXEC = 126  # as shells say it
SIZE = 16 << 20

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="sandboxes are made by root")


@pytest.mark.parametrize("driver", COMMANDS)
def test_noexec_beside_a_shared_directory(driver: str, tmp_path: Path) -> None:
    if shutil.which(COMMANDS[driver]) is None:
        pytest.skip(f"{driver} is not installed")
    profile = Profile(
        driver=driver,
        tmpfs={"/tmp": SIZE, "/media": SIZE},
        noexec=["/tmp"],
        read_only=["/srv"],
        shared=[str(tmp_path)],
    )
    script = f"""
        ! touch /srv/f || exit 1
        for place in /media {tmp_path} /tmp; do
            cp /usr/bin/true $place/it || exit 2
            $place/it
            echo $place $?
        done
    """
    with Sandbox(profile, f"probe-test-mounts-{os.getpid()}") as sandbox:
        command = sandbox.command(["sh", "-c", script])
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n") == ["/media 0", f"{tmp_path} 0", f"/tmp {NOEXEC}", ""]
    assert (tmp_path / "it").exists() and not Path("/media/it").exists()
