"""The Dockerfile, built as it is, and what its images do."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import wait_for
from runtimes import PROFILE, Buildah, Podman, root, run

pytestmark = [pytest.mark.sandboxes, pytest.mark.timeout(400)]

ROOT = Path(__file__).parent.parent.parent
PROBE, COLLECTOR, BCC = "sandbox-probe", "sandbox-collector", "sandbox-probe:bcc"
WHEEL = "sandbox-probe:wheel"
TARGETS = {PROBE: "probe", COLLECTOR: "collector", BCC: "probe-bcc", WHEEL: "wheel"}
BASE = "docker.io/library/python:3.11-slim"
DISTROLESS = "gcr.io/distroless/python3-debian12"
COMPILERS = re.compile(
    r"/s?bin/([\w-]*-)?(clang|llvm|llc|opt|gcc|cpp|cc|ld|as)([+.\d-]\S*)?$|/lib(LLVM|clang|bcc)|/cc1$"
)
MB = 1_000_000
LOST = ("sh", "-c", "nosuch; exit 7")


@pytest.fixture(scope="module")
def podman() -> Podman:
    return Podman()


@pytest.fixture(scope="module")
def buildah(podman: Podman, tmp_path_factory: pytest.TempPathFactory) -> Buildah:
    return Buildah(podman, tmp_path_factory.mktemp("settings"))


@pytest.fixture(scope="module")
def image(buildah: Buildah) -> Callable[[str], str]:
    """Builds an image when it is first asked for; returns its name."""
    built: set[str] = set()

    def build(name: str) -> str:
        if name not in built:
            buildah.build(name, ROOT, f"--target={TARGETS[name]}")
            built.add(name)
        return name

    return build


@pytest.fixture(scope="module")
def probe(image: Callable[[str], str]) -> str:
    return image(PROBE)


def report(podman: Podman, *arguments: str | Path) -> dict[str, Any]:
    """Of a command that prints nothing."""
    done = podman.start(*arguments)
    assert done.stdout.startswith("{"), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def wrapped(*command: str) -> tuple[str, ...]:
    return ("probe", "run", "--json", "-", "--explain", "never", "--", *command)


# --- what is in them -------------------------------------------------------


@pytest.mark.parametrize(("name", "most"), [(PROBE, 60), (COLLECTOR, 80)])
def test_no_compiler_and_little_weight(
    name: str, most: int, podman: Podman, image: Callable[[str], str]
) -> None:
    files = podman(
        *("run", "--rm", "--network=none", "--user=0", "--entrypoint=find"),
        *(image(name), "/", "-xdev", "-type", "f"),
    ).splitlines()
    assert any(file.endswith("/probe/engine/objects/x86_64.o") for file in files)
    assert [file for file in files if COMPILERS.search(file)] == []
    assert [file for file in files if file.startswith(("/source", "/build", "/wheels"))] == []
    added = size(podman, name) - size(podman, BASE)
    print(f"{name}: {size(podman, name) / MB:.0f} MB, {added / MB:.0f} MB on top of its base")
    assert 0 < added < most * MB


def size(podman: Podman, name: str) -> int:
    return int(podman("image", "inspect", "--format", "{{.Size}}", name))


def test_the_variant_with_bcc_has_bcc(podman: Podman, image: Callable[[str], str]) -> None:
    code = "import bcc; print(bcc.__version__)"
    command = ("--entrypoint=/usr/bin/python3", image(BCC), "-c", code)
    assert podman("run", "--rm", "--network=none", *command).strip()
    assert podman.start(BCC, *LOST).returncode == 7


# --- the probe as an entrypoint --------------------------------------------


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The engine's own, with what docs/image.md adds to it."""
    made = json.loads(PROFILE.read_text())
    allowed = {"names": ["bpf", "perf_event_open"], "action": "SCMP_ACT_ALLOW"}
    made["syscalls"].insert(0, allowed)
    path = tmp_path_factory.mktemp("seccomp") / "profile.json"
    path.write_text(json.dumps(made))
    return path


@pytest.mark.parametrize(
    "flags",
    [
        ("--cap-add=SYS_ADMIN",),
        ("--cap-add=BPF,PERFMON", "--security-opt=seccomp=PROFILE"),
        ("--cap-add=BPF,PERFMON", "--security-opt=seccomp=unconfined"),
        ("--privileged",),
    ],
)
def test_where_bpf_is_granted_the_kernel_is_heard(
    flags: tuple[str, ...], podman: Podman, probe: str, profile: Path
) -> None:
    flags = tuple(flag.replace("PROFILE", str(profile)) for flag in flags)
    found = report(podman, *flags, probe, *wrapped(*LOST))
    assert found["coverage"]["engine"] == "core"
    assert found["coverage"]["attribution"] == "exact"
    assert found["verdict"]["cause"] == "exec.not_found"
    assert found["span"]["exit_code"] == 7


def test_a_call_that_the_engines_profile_refuses(podman: Podman, probe: str, profile: Path) -> None:
    code = (
        "import ctypes, os, sys; libc = ctypes.CDLL(None, use_errno=True); "
        "sys.exit(libc.swapon(b'/x', 0) and os.strerror(ctypes.get_errno()))"
    )
    flags = ("--cap-add=BPF,PERFMON", f"--security-opt=seccomp={profile}")
    found = report(podman, *flags, probe, *wrapped("python3", "-c", code))
    assert found["verdict"]["cause"] == "seccomp.denied"
    assert "swapon" in found["verdict"]["summary"]


def test_a_limit_of_processes_is_explained_on_stderr(podman: Podman, probe: str) -> None:
    code = "import os, time\nwhile os.fork(): pass\ntime.sleep(60)"
    done = podman.start("--cap-add=SYS_ADMIN", "--pids-limit=20", probe, "python3", "-c", code)
    assert done.returncode == 1
    assert "probe: fork.pids_limit" in done.stderr and "20 of 20 processes" in " ".join(
        done.stderr.split()
    )


@pytest.mark.parametrize("flags", [(), ("--cap-add=BPF,PERFMON",)])
def test_where_bpf_is_refused_the_command_runs_and_one_line_says_so(
    flags: tuple[str, ...], podman: Podman, probe: str
) -> None:
    done = podman.start(*flags, probe, "sh", "-c", "echo said; exit 7")
    assert (done.returncode, done.stdout) == (7, "said\n")
    [line] = [line for line in done.stderr.splitlines() if "blind" in line]
    assert "BPF is not permitted here" in line
    assert "to mend it" in line and "CAP_BPF" in line and "seccomp" in line
    assert report(podman, *flags, probe, *wrapped("false"))["coverage"]["engine"] != "core"


def test_without_a_command_it_says_what_it_can_do(podman: Podman, probe: str) -> None:
    done = podman.start(probe)
    assert done.returncode == 0 and "probe COMMAND" in done.stdout.replace("[-h] [--version] ", "")


def test_signals_reach_the_command(podman: Podman, probe: str) -> None:
    script = "trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done"
    with podman.running(probe, "sh", "-c", script) as name:
        wait_for(lambda: "ready" in podman("logs", name), 30)
        podman("stop", "--time=30", name)
        state = podman("inspect", "--format", "{{.State.ExitCode}}", name)
    assert state.strip() == "5"


# --- the probe as a sidecar ------------------------------------------------

ORPHANS = "for i in 1 2 3; do (sleep 0.05 & ); done; sleep 0.2; exit 3"


@pytest.fixture
def agent(podman: Podman, probe: str, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The agent's container, and the option that shares its socket."""
    shared = f"--volume={tmp_path}:/run/probe"
    command = ("--cap-add=SYS_ADMIN", shared, probe, "probe", "agent")
    with podman.running(*command) as name:
        wait_for((tmp_path / "agent.sock").exists, 30)
        yield name, shared


def test_a_sidecar_tells_two_workloads_apart(
    agent: tuple[str, str], podman: Podman, probe: str
) -> None:
    name, shared = agent
    joined = ("run", "--rm", "--network=none", f"--pid=container:{name}", shared, probe)
    code = "import socket; socket.create_connection(('127.0.0.1', 1))"
    connecting = ("sh", "-c", f'python3 -c "{code}" 2>/dev/null; sleep 1; exit 4')
    both = [
        subprocess.Popen(
            ["podman", *podman.storage, *joined, *wrapped(*command)],
            env=podman.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        for command in (("sh", "-c", "sleep 1; nosuch; exit 7"), connecting)
    ]
    lost, refused = (json.loads(one.communicate()[0]) for one in both)
    for found, cause, status in ((lost, "exec.not_found", 7), (refused, "net.refused", 4)):
        assert found["coverage"]["engine"] == "core"
        assert found["coverage"]["attribution"] == "exact"
        assert (found["verdict"]["cause"], found["span"]["exit_code"]) == (cause, status)
    assert {event["kind"] for event in lost["events"]}.isdisjoint({"connect"})


def test_a_sidecar_buries_the_orphans_of_the_workload(
    agent: tuple[str, str], podman: Podman, probe: str
) -> None:
    name, shared = agent
    joined = (f"--pid=container:{name}", shared, "--user=1000", probe)
    assert podman.start(*joined, *wrapped("sh", "-c", ORPHANS)).returncode == 3
    states = podman("exec", name, "sh", "-c", "cat /proc/[0-9]*/stat")
    assert "(probe)" in states and ") Z" not in states


def test_an_agent_in_the_machines_pid_namespace_sees_every_container(
    podman: Podman, probe: str, tmp_path: Path
) -> None:
    shared = f"--volume={tmp_path}:/run/probe"
    options = ("--cap-add=SYS_ADMIN", "--pid=host", shared)
    with podman.running(*options, probe, "probe", "agent", "--keep-minutes=0"):
        wait_for((tmp_path / "agent.sock").exists, 30)
        found = report(podman, shared, probe, *wrapped(*LOST))
    assert (found["coverage"]["engine"], found["coverage"]["attribution"]) == ("core", "exact")
    assert found["verdict"]["cause"] == "exec.not_found"


def test_a_workload_in_a_pid_namespace_of_its_own_is_told_so(
    agent: tuple[str, str], podman: Podman, probe: str
) -> None:
    done = podman.start(agent[1], probe, "sh", "-c", "exit 7")
    assert done.returncode == 7
    [line] = [line for line in done.stderr.splitlines() if "blind" in line]
    assert "the agent is in another pid namespace" in line and "--pid=container:" in line


# --- the collector ---------------------------------------------------------


@pytest.fixture(scope="module")
def collector(image: Callable[[str], str]) -> str:
    return image(COLLECTOR)


def test_the_collector_speaks_no_plain_text_unasked(podman: Podman, collector: str) -> None:
    done = podman.start("--no-healthcheck", collector)
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert "--listen 0.0.0.0:50551" in line and "--tls-cert" in line and "--insecure" in line


def test_the_collector_is_no_root_and_says_that_it_is_well(podman: Podman, collector: str) -> None:
    options = ("--read-only", "--cap-drop=all", "--no-healthcheck")
    with podman.running(*options, collector, "serve", "--insecure") as name:
        inspected = json.loads(podman("image", "inspect", collector))[0]
        settings = inspected["Config"]
        kind, *check = inspected["Healthcheck"]["Test"]
        assert (kind, settings["ExposedPorts"].keys()) == ("CMD", {"50551/tcp"})
        assert settings["Volumes"].keys() == {"/var/lib/collector"}
        wait_for(lambda: healthy(podman, name, check), 30)
        status = podman("exec", name, "cat", "/proc/1/status")
        assert re.search(r"^Uid:\t10001\t10001\t", status, re.MULTILINE)
        assert re.search(r"^CapEff:\t0+$", status, re.MULTILINE)
        podman("stop", "--time=20", name)
        assert podman("inspect", "--format", "{{.State.ExitCode}}", name).strip() == "0"


def healthy(podman: Podman, name: str, check: list[str]) -> bool:
    command = ["podman", *podman.storage, "exec", name, *check]
    done = subprocess.run(command, env=podman.environment, capture_output=True, check=False)
    return done.returncode == 0


@pytest.fixture
def volumes(podman: Podman) -> Iterator[tuple[str, str]]:
    """New ones for sockets and for the database."""
    name = uuid.uuid4().hex
    yield f"sockets-{name}", f"data-{name}"
    podman("volume", "rm", "--force", f"sockets-{name}", f"data-{name}")


def test_what_a_probe_saw_outlives_the_collectors_container(
    podman: Podman, collector: str, probe: str, volumes: tuple[str, str]
) -> None:
    sockets, data = volumes
    shared, kept = f"--volume={sockets}:/run/collector", f"--volume={data}:/var/lib/collector"
    address = "unix:/run/collector/collector.sock"
    options = (shared, kept, f"--env=COLLECTOR_LISTEN={address}", "--no-healthcheck")
    with podman.running(*options, collector) as name:
        wait_for(lambda: healthy(podman, name, ["collector", "health"]), 30)
        named = ("--env=PROBE_RUN=nightly", f"--env=PROBE_COLLECTOR={address}")
        done = podman.start("--cap-add=SYS_ADMIN", shared, *named, probe, *LOST)
        assert done.returncode == 7 and "did not take" not in done.stderr
    explained = podman.start(
        kept, "--no-healthcheck", collector, "explain", "--run", "nightly", "--json"
    )
    [found] = json.loads(explained.stdout)["reports"]
    assert found["verdict"]["cause"] == "exec.not_found"


# --- in other images -------------------------------------------------------


def snippet(base: str) -> str:
    """The Dockerfile in docs/image.md whose last stage is on this base."""
    blocks = re.findall(r"```dockerfile\n(.*?)```", (ROOT / "docs" / "image.md").read_text(), re.S)
    [found] = [one for one in blocks if re.findall(r"^FROM (\S+)", one, re.M)[-1] == base]
    return str(found)


def built(buildah: Buildah, name: str, base: str, folder: Path) -> str:
    (folder / "Dockerfile").write_text(snippet(base))
    buildah.build(name, folder)
    return name


def test_the_probe_in_debian(
    podman: Podman, buildah: Buildah, image: Callable[[str], str], tmp_path: Path
) -> None:
    image(WHEEL)
    name = built(buildah, "sandbox-probe-debian", "debian:bookworm-slim", tmp_path)
    done = podman.start("--cap-add=SYS_ADMIN", name, *LOST)
    assert done.returncode == 7 and "probe: exec.not_found" in done.stderr


def test_the_probe_without_a_shell(
    podman: Podman, buildah: Buildah, image: Callable[[str], str], tmp_path: Path
) -> None:
    image(WHEEL)
    python_alone(tmp_path / "root")
    podman.provide(DISTROLESS, tmp_path / "root")
    name = built(buildah, "sandbox-probe-distroless", DISTROLESS, tmp_path)
    assert podman.start("--entrypoint=/bin/sh", name).returncode == 127
    code = "import subprocess; subprocess.run(['nosuch'])"
    done = podman.start("--cap-add=SYS_ADMIN", name, "python3", "-c", code)
    assert done.returncode == 1 and "probe: exec.not_found" in done.stderr


def python_alone(folder: Path) -> None:
    """Python and what it is linked with, from the Debian root: what distroless images are."""
    usr = folder / "usr"
    for place in ("bin", "lib", "lib64", "sbin"):
        (usr / place).mkdir(parents=True)
        (folder / place).symlink_to(f"usr/{place}")
    for place in ("etc", "proc", "sys", "dev", "run", "root", "tmp"):
        (folder / place).mkdir()
    version = run(["chroot", root(), "readlink", "/usr/bin/python3"]).strip()
    listed = f"ldd /usr/bin/{version} /usr/lib/{version}/lib-dynload/*.so"
    linked = run(["chroot", root(), "sh", "-c", listed])
    for path in {f"/usr/bin/{version}", *re.findall(r"(/lib\S+) \(0x", linked)}:
        place = folder / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root() / path.lstrip("/"), place)
    (usr / "bin" / "python3").symlink_to(version)
    for place in (f"usr/lib/{version}", "usr/lib/python3"):
        shutil.copytree(root() / place, folder / place, symlinks=True)
