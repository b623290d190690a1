"""Each sense against the real kernel: what the report says of programs made for the purpose."""

from __future__ import annotations

import json
import os
import platform
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import BIN, Agent, Watch, probe_run, wait_for

from collector.sandbox import Profile, Sandbox
from probe import abi, local

pytestmark = pytest.mark.bpf
PROGRAMS = Path(__file__).parent / "programs"
PYTHON = "/usr/bin/python3"
# What mkdir(3) calls: machines that came late to Linux have only the call with a directory.
MKDIR = "mkdir" if "mkdir" in abi.syscall_numbers(platform.machine()) else "mkdirat"


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Compiles a program, unless it is there already, in a machine without a compiler."""
    ready = os.environ.get("PROBE_TEST_PROGRAMS")
    folder = Path(ready) if ready else tmp_path_factory.mktemp("programs")

    def build(name: str) -> Path:
        binary = folder / name
        if not binary.exists():
            folder_of = {"storm": PROGRAMS.parent.parent.parent / "bench"}
            source = folder_of.get(name, PROGRAMS) / f"{name}.c"
            subprocess.run(["cc", "-pthread", "-o", binary, source], check=True)
        return binary

    return build


def since(*release: int) -> pytest.MarkDecorator:
    """For what a kernel of that release has and those before it do not."""
    running = tuple(int(part) for part in platform.release().split("-")[0].split(".")[:2])
    return pytest.mark.skipif(running < release, reason=f"the kernel is older than {release}")


def number(name: str) -> int:
    return abi.syscall_numbers(platform.machine())[name]


# --- seccomp: the table of actions --------------------------------------------


@pytest.mark.core
@pytest.mark.parametrize(
    ("action", "told", "errno"),
    [
        (0x00050001, "errno", "EPERM"),
        (0x00050026, "errno", "ENOSYS"),
        (0x7FF00000, "trace", "ENOSYS"),
        (0x00030000, "trap", None),
        (0x80000000, "kill_process", None),
        (0x00000000, "kill_thread", None),
    ],
)
def test_a_refused_call(
    action: int, told: str, errno: str | None, built: Callable[[str], Path], watched: Watch
) -> None:
    events = watched("seccomp", built("denied"), hex(action), str(number("getpriority")))
    assert len(events) == 1
    event = events[0]
    assert (event["syscall"], event["action"], event.get("errno")) == ("getpriority", told, errno)
    assert event["args"] == [11, 22, 33, 44, 55, 66]
    assert event["filter"] == "rule for this call with these arguments"
    assert event["comm"] == "denied"


@pytest.mark.parametrize(
    ("action", "told"),
    [
        pytest.param("TRAP", "trap", marks=pytest.mark.core),
        ("KILL_PROCESS", "kill_process"),
        # Before 5.16 its memory has gone when it is told of (commit 307d522f5eb8).
        pytest.param("KILL_THREAD", "kill_thread", marks=[pytest.mark.core, since(5, 16)]),
    ],
)
def test_a_first_argument_that_could_be_an_errno(action: str, told: str, watched: Watch) -> None:
    """Where the kernel puts it back into the register of the result: AT_FDCWD is -100."""
    code = (
        "import ctypes\n"
        "call, path = ctypes.CDLL(None).syscall, b'/tmp/x'\n"
        f"call({number('mkdirat')}, ctypes.c_long(-100), path, 0o700)\n"
    )
    with Sandbox(Profile(seccomp={"mkdirat": action}), "trap") as sandbox:
        events = watched("seccomp", *sandbox.command([PYTHON, "-c", code]))
    assert [(event["syscall"], event["action"]) for event in events] == [("mkdirat", told)]
    assert events[0]["path"] == "/tmp/x"


@pytest.mark.parametrize("action", [0x7FFF0000, 0x7FFC0000], ids=["allow", "log"])
def test_an_allowed_call_is_none(action: int, built: Callable[[str], Path], watched: Watch) -> None:
    assert watched("seccomp", built("denied"), hex(action), str(number("getpriority"))) == []


def test_the_kernels_own_refusal_is_none(built: Callable[[str], Path], watched: Watch) -> None:
    """A filter that looks at the first argument lets this one pass; it fails by itself."""
    call = str(number("getpriority"))
    assert watched("seccomp", built("denied"), "0x50001", call, "12") == []


@pytest.mark.core
def test_a_thread_killed_among_others(built: Callable[[str], Path], watched: Watch) -> None:
    events = watched("seccomp", built("denied"), "0", str(number("getpriority")), "11", "thread")
    assert [(event["syscall"], event["action"]) for event in events] == [
        ("getpriority", "kill_thread")
    ]
    assert events[0]["tid"] != events[0]["pid"]


def test_the_end_of_a_process_with_a_killed_thread_is_one_exit(
    built: Callable[[str], Path], watched: Watch
) -> None:
    """The other thread is woken, and ends the process, before the killed one is gone."""
    events = watched("exit", built("denied"), "0", str(number("getpriority")), "11", "thread")
    assert [event["code"] for event in events] == [7]


def test_a_trap_with_a_handler_is_told_and_survived(
    built: Callable[[str], Path], agent: Agent, tmp_path: Path
) -> None:
    done, report = probe_run(
        built("denied"),
        "0x30000",
        str(number("getpriority")),
        "11",
        "thread",
        "handler",
        socket=agent.socket,
        folder=tmp_path,
    )
    assert done.returncode == 7
    actions = [event["action"] for event in report["events"] if event["kind"] == "seccomp"]
    assert actions == ["trap"]


@pytest.mark.core
@pytest.mark.parametrize(
    ("reply", "told"), [("continue", 0), ("refuse", 5), ("fake", 0)], ids=lambda value: str(value)
)
def test_a_supervised_call(
    reply: str, told: int, built: Callable[[str], Path], watched: Watch
) -> None:
    """getpriority(99) fails in the kernel itself too, with EINVAL, when it may go on."""
    call = str(number("getpriority"))
    events = watched("seccomp", built("supervised"), call, reply)
    sure = [event for event in events if event["errno"] != "EINVAL"]
    assert sum(event["count"] for event in sure) == told
    assert {event["action"] for event in sure} <= {"user_notif"}
    # Until the filter was seen, an error that a supervisor let happen cannot be told apart.
    assert len(events) - len(sure) <= 1


@pytest.mark.core
def test_an_errno_that_looks_like_success(built: Callable[[str], Path], watched: Watch) -> None:
    call = str(number("getpriority"))
    watched("seccomp", built("denied"), "0x50000", call)  # from now on enters are watched
    events = watched("seccomp", built("denied"), "0x50000", call)
    assert [(event["action"], event.get("errno")) for event in events] == [("errno", None)]


def test_what_the_thread_did_next(watched: Watch) -> None:
    code = (
        "import os\n"
        "try: os.sched_getparam(0)\n"
        "except PermissionError: os.getpid(); os.sched_get_priority_max(0)\n"
    )
    with Sandbox(Profile(seccomp={"sched_getparam": "EPERM"}), "next") as sandbox:
        events = watched("seccomp", *sandbox.command([PYTHON, "-c", code]))
    assert [call.split("=")[0] for call in events[0]["next"][:2]] == [
        "getpid",
        "sched_get_priority_max",
    ]
    assert events[0]["calls_after"] >= len(events[0]["next"]) > 1


def test_a_filter_that_was_there_before_the_probe(
    built: Callable[[str], Path], tmp_path: Path
) -> None:
    """The probe starts inside the sandbox, as in an image: nobody saw the filter installed."""
    report = tmp_path / "report"
    with Sandbox(Profile(seccomp={"sethostname": "EPERM"}), "before") as sandbox:
        inner = [BIN / "probe", "run", "--json", report, "--", "hostname", "x"]
        subprocess.run(
            sandbox.command([str(word) for word in inner]),
            env={**os.environ, "PROBE_SOCKET": "/nonexistent"},
            capture_output=True,
            check=False,
        )
    events = [e for e in json.loads(report.read_text())["events"] if e["kind"] == "seccomp"]
    assert [(event["syscall"], event["errno"]) for event in events] == [("sethostname", "EPERM")]


@pytest.mark.parametrize(
    "what",
    [
        *("fork", "thread", "failing", "dispatch", "interrupted"),
        pytest.param("emulated", marks=pytest.mark.core),  # by a task that has a filter as well
    ],
    ids=lambda what: what,
)
@pytest.mark.parametrize("tracer", [[], ["strace", "-f", "-o", "/dev/null"]], ids=["", "traced"])
def test_what_only_looks_like_a_denial(
    what: str, tracer: list[str], built: Callable[[str], Path], watched: Watch
) -> None:
    assert watched("seccomp", *tracer, built("odd"), what) == []


@pytest.mark.core
def test_strict_mode(built: Callable[[str], Path], watched: Watch) -> None:
    events = watched("seccomp", built("odd"), "strict")
    assert [(event["syscall"], event["action"]) for event in events] == [("getpid", "strict")]


@pytest.mark.parametrize(
    ("statement", "syscall", "detail"),
    [
        ("socket.socket(socket.AF_INET6)", "socket", "family ipv6, type stream, protocol 0"),
        ("ctypes.CDLL(None).ptrace(16, 1, 0, 0)", "ptrace", "PTRACE_ATTACH, pid 1"),
        ("ctypes.CDLL(None).personality(0x40000)", "personality", "ADDR_NO_RANDOMIZE"),
        ("ctypes.CDLL(None).prctl(36, 1)", "prctl", "PR_SET_CHILD_SUBREAPER"),
        ("ctypes.CDLL(None).unshare(0x10020000)", "unshare", "flags CLONE_NEWNS|CLONE_NEWUSER"),
    ],
)
def test_arguments_in_words(statement: str, syscall: str, detail: str, watched: Watch) -> None:
    code = f"import ctypes, os, socket\ntry: {statement}\nexcept OSError: pass"
    with Sandbox(Profile(seccomp={syscall: "EPERM"}), "words") as sandbox:
        event = watched("seccomp", *sandbox.command([PYTHON, "-c", code]))[-1]
    assert event["detail"] == detail


def test_what_was_blocking_when_the_probe_came(
    built: Callable[[str], Path], tmp_path: Path
) -> None:
    """Such a call shows an end without a beginning, as a refused one does."""
    ready = tmp_path / "ready"
    waiter = subprocess.Popen([built("odd"), "waiting", ready])
    try:
        wait_for(ready.exists)
        late = Agent(tmp_path)
        client = local.connect(late.socket)
        assert client is not None
        request = {"run": "", "test": "t", "command": [], "started_ns": 1}
        key = client.ask({"do": "begin", **request}, os.pidfd_open(waiter.pid))["key"]
        waiter.send_signal(signal.SIGUSR1)
        end = {"status": waiter.wait() << 8, "ended_ns": 2, "report": True}
        report = client.ask({"do": "end", "key": key, **end})["report"]
        late.stop()
    finally:
        waiter.kill()
        waiter.wait()
    events = [event for event in report["events"] if event["kind"] == "seccomp"]
    assert [(event["syscall"], event["errno"]) for event in events] == [("getpriority", "EPERM")]


# --- calls of the 32-bit table --------------------------------------------------


@pytest.mark.core
def test_a_denied_32_bit_call(built: Callable[[str], Path], watched: Watch) -> None:
    event = watched("seccomp", built("compat"), "denied")[-1]
    assert (event["syscall"], event["errno"]) == ("getpriority", "EPERM")
    assert event["args"][:3] == [11, 22, 33]


@pytest.mark.core
def test_a_filter_that_a_32_bit_call_installs(built: Callable[[str], Path], watched: Watch) -> None:
    """Where one was that is gone, so that it has the address of a filter that is known."""
    denied, compat = built("denied"), built("compat")
    other = f"{denied} 0x7fff0000 {number('getpriority')}"
    script = f"for i in $(seq 10); do {other}; {compat} denied; done"
    events = watched("seccomp", "bash", "-c", script)
    assert sum(event["count"] for event in events) == 10


@pytest.mark.core
def test_a_32_bit_file_call(built: Callable[[str], Path], watched: Watch, tmp_path: Path) -> None:
    with Sandbox(Profile(read_only=[str(tmp_path)]), "t") as sandbox:
        command = sandbox.command([str(built("compat")), "open", str(tmp_path / "new")])
        event = watched("file", *command)[-1]
    assert (event["syscall"], event["errno"]) == ("open", "EROFS")
    assert event["path"] == str(tmp_path / "new")


@pytest.mark.core
def test_a_32_bit_exec(built: Callable[[str], Path], watched: Watch) -> None:
    event = watched("exec", built("compat"), "exec", "/no/such")[-1]
    assert (event["path"], event["errno"], event["argv"]) == ("/no/such", "ENOENT", ["/no/such"])


@pytest.mark.core
def test_a_32_bit_connect(built: Callable[[str], Path], watched: Watch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        made = watched("connect", built("compat"), "connect", str(port))[-1]
    refused = watched("connect", built("compat"), "connect", str(port))[-1]
    assert (made["address"], made["port"], made.get("errno")) == ("127.0.0.1", port, None)
    assert (refused["port"], refused["errno"]) == (port, "ECONNREFUSED")


@pytest.mark.core
def test_words_written_by_a_32_bit_call(built: Callable[[str], Path], watched: Watch) -> None:
    event = watched("exit", built("compat"), "say", "out of cheese")[-1]
    assert (event["code"], event["last_words"]) == (3, "out of cheese")


def test_the_path_of_a_refused_call(watched: Watch) -> None:
    path = "/tmp/odd\n\x1b[31mname"
    code = f"import os\ntry: os.mkdir({path!r})\nexcept OSError: pass"
    with Sandbox(Profile(seccomp={MKDIR: "EPERM"}), "path") as sandbox:
        event = watched("seccomp", *sandbox.command([PYTHON, "-c", code]))[-1]
    assert event["path"] == path


def test_prctl_without_end_does_not_bring_the_filter_out_again(watched: Watch) -> None:
    """Twenty thousand times its program would be forty times what the ring holds."""
    code = (
        "import ctypes, os\n"
        "libc = ctypes.CDLL(None)\n"
        "for _ in range(20_000): libc.prctl(15, b'name', 0, 0, 0)\n"
        "try: os.mkdir('/tmp/x')\n"
        "except OSError: pass\n"
    )
    with Sandbox(Profile(seccomp={MKDIR: "EPERM"}), "prctl") as sandbox:
        [event] = watched("seccomp", *sandbox.command([PYTHON, "-c", code]))
    assert (event["syscall"], event["errno"]) == (MKDIR, "EPERM")


# --- programs -----------------------------------------------------------------


def test_a_started_program(watched: Watch) -> None:
    events = watched("exec", "sh", "-c", "exec /bin/echo one 'two three'")
    assert events[-1]["path"] == "/bin/echo"
    assert events[-1]["argv"] == ["/bin/echo", "one", "two three"]
    assert "errno" not in events[-1]


def test_a_search_on_path_is_one_event(watched: Watch) -> None:
    environment = {**os.environ, "PATH": "/nowhere:/usr/bin:/bin:/also/nowhere"}
    code = "import os; os.execvp('frobnicate', ['frobnicate', 'x'])"
    event = watched("exec", PYTHON, "-c", code, env=environment)[-1]
    assert event["errno"] == "ENOENT" and event["reason"] == "exec.not_found"
    assert event["searched"] == ["/nowhere", "/usr/bin", "/bin", "/also/nowhere"]
    assert event["count"] == 4 and event["argv"] == ["frobnicate", "x"]


def test_a_search_that_found_it_in_the_end(watched: Watch) -> None:
    environment = {**os.environ, "PATH": "/nowhere:/also/nowhere:/usr/bin"}
    code = "import os; os.execvp('id', ['id'])"
    search, started = watched("exec", PYTHON, "-c", code, env=environment)[-2:]
    assert search["searched"] == ["/nowhere", "/also/nowhere"]
    assert search["found"] == started["path"] == "/usr/bin/id"


@pytest.mark.parametrize(
    ("arguments", "limit", "detail"),
    [
        ("['x' * 3_000_000]", 131072, "one argument of at least 131072 bytes"),
        ("['y' * 100_000] * 30", 2 << 20, "all arguments and the environment"),
    ],
    ids=["one", "all"],
)
def test_which_limit_arguments_exceed(
    arguments: str, limit: int, detail: str, watched: Watch
) -> None:
    code = (
        "import os, resource\n"
        "resource.setrlimit(resource.RLIMIT_STACK, (8 << 20, 8 << 20))\n"
        f"try: os.execv('/bin/true', {arguments})\nexcept OSError: pass\n"
    )
    event = watched("exec", PYTHON, "-c", code)[-1]
    assert (event["errno"], event["reason"]) == ("E2BIG", "exec.args_too_long")
    assert (event["limit"], event["detail"][: len(detail)]) == (limit, detail)
    assert event["size"] > limit


def test_arguments_in_memory_that_cannot_be_read(watched: Watch) -> None:
    code = (
        "import ctypes\nlibc = ctypes.CDLL(None)\n"
        "libc.execve(b'/no/such', ctypes.c_void_p(8), None)\n"
        "libc.execve(ctypes.c_void_p(8), None, None)\n"
    )
    events = watched("exec", PYTHON, "-c", code)[-2:]
    assert [event["path"] for event in events] == ["/no/such", ""]
    assert [event.get("argv", []) for event in events] == [[], []]
    # What is looked at first, the file or the arguments, differs between kernels.
    assert events[0]["errno"] in ("ENOENT", "EFAULT") and events[1]["errno"] == "EFAULT"


def test_a_relative_path_comes_with_its_directory(watched: Watch, tmp_path: Path) -> None:
    code = f"import os; os.chdir({str(tmp_path)!r}); os.execv('./job', ['job'])"
    event = watched("exec", PYTHON, "-c", code)[-1]
    assert (event["path"], event["cwd"]) == ("./job", str(tmp_path))


def write_program(path: Path, content: bytes, mode: int = 0o755) -> Path:
    path.write_bytes(content)
    path.chmod(mode)
    return path


@pytest.mark.parametrize(
    ("content", "mode", "errno", "reason", "detail"),
    [
        (b"#!/no/interp -x\n", 0o755, "ENOENT", "exec.interpreter_missing", "/no/interp"),
        (b"#!/bin/sh\r\necho\r\n", 0o755, "ENOENT", "exec.crlf_shebang", "#!/bin/sh\r"),
        (b"#!/bin/sh\n", 0o644, "EACCES", "exec.permission", "mode 0644 0:0"),
        (b"just text\n", 0o755, "ENOEXEC", "exec.bad_format", "starts with 6a 75 73 74"),
        (b"", 0o755, "ENOEXEC", "exec.bad_format", "starts with nothing"),
    ],
)
def test_the_reason_behind_an_errno(
    content: bytes, mode: int, errno: str, reason: str, detail: str, watched: Watch, tmp_path: Path
) -> None:
    job = write_program(tmp_path / "job", content, mode)
    code = f"import os; os.execv({str(job)!r}, ['job'])"
    event = watched("exec", PYTHON, "-c", code)[-1]
    assert (event["errno"], event["reason"]) == (errno, reason)
    assert event["detail"].startswith(detail)


def test_a_program_for_another_machine_and_one_without_its_loader(
    watched: Watch, tmp_path: Path
) -> None:
    native = bytearray(Path("/bin/true").resolve().read_bytes())
    loader = native.index(b"/lib", 64, 4096)
    broken = bytearray(native)
    broken[loader : loader + 4] = b"/nix"
    foreign = bytearray(native)
    foreign[18:20] = (243).to_bytes(2, "little")  # RISC-V
    for content, errno, reason in (
        (foreign, "ENOEXEC", "exec.wrong_architecture"),
        (broken, "ENOENT", "exec.loader_missing"),
    ):
        job = write_program(tmp_path / "job", bytes(content))
        event = watched("exec", PYTHON, "-c", f"import os; os.execv({str(job)!r}, ['job'])")[-1]
        assert (event["errno"], event["reason"]) == (errno, reason)


def test_a_noexec_mount_in_a_mount_namespace_that_is_gone(watched: Watch) -> None:
    script = "mount -t tmpfs -o noexec none /mnt && cp /bin/true /mnt/job && exec /mnt/job"
    event = watched("exec", "unshare", "--mount", "bash", "-c", script)[-1]
    assert (event["errno"], event["reason"]) == ("EACCES", "exec.noexec_mount")
    assert event["detail"] == "/mnt"


def test_long_and_odd_names(watched: Watch) -> None:
    name = "/tmp/" + "/".join(["d\n\x1b[31m" + "x" * 200] * 18)
    event = watched("exec", PYTHON, "-c", f"import os; os.execv({name!r}, ['job'])")[-1]
    assert event["path"] == name and len(name) > 3500


@pytest.mark.parametrize(
    ("statement", "path"),
    [
        ("os.posix_spawn('/no/such', ['x'], {})", "/no/such"),
        ("subprocess.run(['/no/such'])", "/no/such"),
        ("os.execve(os.open('/etc/passwd', 0), ['x'], {})", ""),
        ("os.execve(memory(b'text'), ['x'], {})", ""),
        ("os.execv('/bin/true', ['x' * 3_000_000])", "/bin/true"),
    ],
    ids=["posix_spawn", "vfork", "execveat", "memfd", "too long"],
)
def test_other_ways_to_start_a_program(statement: str, path: str, watched: Watch) -> None:
    code = (
        "import os, subprocess\n"
        "def memory(data):\n fd = os.memfd_create('m'); os.write(fd, data); return fd\n"
        f"try: {statement}\nexcept OSError as error: os._exit(error.errno)\n"
    )
    event = watched("exec", PYTHON, "-c", code)[-1]
    # Of 5.10 on arm64 a memfd with text has ENOENT, of others ENOEXEC.
    answer = subprocess.run([PYTHON, "-c", code], check=False).returncode
    assert answer and (event["path"], event["errno"]) == (path, abi.errno_name(answer))


# --- processes ----------------------------------------------------------------


def test_exits_and_parents(watched: Watch) -> None:
    events = watched("exit", "bash", "-c", "(exit 5); bash -c 'kill -SEGV $$'; exit 6")
    told = {(event.get("code"), event.get("signal")) for event in events}
    assert told == {(5, None), (None, "SIGSEGV"), (6, None)}
    root = next(event for event in events if event.get("code") == 6)
    assert {event["ppid"] for event in events if event is not root} == {root["pid"]}


def test_threads_that_end_together_are_one_exit(watched: Watch) -> None:
    code = (
        "import os, threading\n"
        "for n in range(20):\n"
        " pid = os.fork()\n"
        " if not pid:\n"
        "  for _ in range(9): threading.Thread(target=threading.Event().wait).start()\n"
        "  os._exit(4)\n"
        " os.waitpid(pid, 0)\n"
    )
    exits = [event for event in watched("exit", PYTHON, "-c", code) if event.get("code") == 4]
    assert len(exits) == len({event["pid"] for event in exits}) == 20


def test_an_orphan_belongs_to_its_creator_and_span(watched: Watch) -> None:
    script = "bash -c '(sleep 0.2; exit 9) & exit 0'; sleep 0.4"
    events = watched("exit", "bash", "-c", script)
    orphan = next(event for event in events if event.get("code") == 9)
    assert orphan["ppid"] in {event["pid"] for event in events}


def test_a_full_pids_cgroup(watched: Watch) -> None:
    code = (
        "import os, signal, subprocess as s\n"
        "children = []\n"
        "try:\n for _ in range(9): children.append(s.Popen(['sleep', '5']))\n"
        "finally:\n for child in children: child.kill()\n"
    )
    with Sandbox(Profile(pids=4), "probe-test-pids") as sandbox:
        events = watched("fork", *sandbox.command([PYTHON, "-c", code]))
    assert events[0]["errno"] == "EAGAIN"
    assert (events[0]["pids_max"], events[0]["pids_current"]) == (4, 4)
    assert events[0]["cgroup"].endswith("/probe-test-pids")


def test_the_oom_killer(watched: Watch) -> None:
    limit = 48 << 20
    code = "data = [bytearray(1 << 20) for _ in range(100)]"
    with Sandbox(Profile(memory=limit), "probe-test-memory") as sandbox:
        events = watched("oom", *sandbox.command([PYTHON, "-c", code]))
    assert len(events) == 1
    event = events[0]
    assert (event["scope"], event["limit"]) == ("cgroup", limit)
    assert event["cgroup"].endswith("/probe-test-memory")
    assert limit * 0.9 < event["usage"] <= limit
    assert event["trigger"] == event["pid"]
    assert 0 <= event["pressure"] <= 100 or not Path("/proc/pressure/memory").exists()


def test_the_limit_on_a_users_processes(watched: Watch) -> None:
    drop = "setpriv --reuid=54321 --regid=54321 --clear-groups"
    script = f"ulimit -u 3; exec {drop} bash -c 'sleep 1 & sleep 1 & sleep 1 & sleep 1 & wait'"
    event = watched("fork", "bash", "-c", script)[0]
    assert (event["errno"], event["nproc_limit"]) == ("EAGAIN", 3)
    assert event["tasks_of_user"] == 3 and "pids_max" not in event


@pytest.mark.core
def test_a_pid_namespace_whose_init_has_ended(watched: Watch) -> None:
    script = "/bin/true; /bin/true; exit 1"  # the first one was the namespace's init
    event = watched("fork", "unshare", "--pid", "bash", "-c", script)[0]
    assert (event["errno"], event["without_init"]) == ("ENOMEM", True)


# --- connections --------------------------------------------------------------


def connect(family: str, address: object, blocking: bool = True) -> list[str]:
    code = (
        "import select, socket\n"
        f"s = socket.socket(socket.{family}); s.setblocking({blocking})\n"
        f"e = s.connect_ex({address!r})\n"
        "if e == 115: select.select([], [s], [], 5)\n"
    )
    return [PYTHON, "-c", code]


@pytest.mark.parametrize(
    "blocking",
    [
        pytest.param(True, id="blocking"),
        # It never asks how it went (SO_ERROR).
        pytest.param(False, id="not blocking", marks=pytest.mark.core),
    ],
)
@pytest.mark.parametrize(
    ("family", "host", "told"), [("AF_INET", "127.0.0.1", "ipv4"), ("AF_INET6", "::1", "ipv6")]
)
def test_connections_refused_and_made(
    family: str, host: str, told: str, blocking: bool, watched: Watch
) -> None:
    with socket.create_server((host, 0), family=getattr(socket, family)) as server:
        port = server.getsockname()[1]
        made = watched("connect", *connect(family, (host, port), blocking))[-1]
    refused = watched("connect", *connect(family, (host, port), blocking))[-1]
    for event in (made, refused):
        assert (event["family"], event["address"], event["port"]) == (told, host, port)
        assert event["protocol"] == "stream"
    assert "errno" not in made and refused["errno"] == "ECONNREFUSED"


SERVED = """
import os, select, socket, sys
family, blocking = getattr(socket, sys.argv[1]), sys.argv[2] == "blocking"
told, tell = os.pipe()
server = os.fork()
if server == 0:
    listener = socket.socket(family)
    listener.bind(eval(sys.argv[3]))
    listener.listen()
    os.write(tell, repr(listener.getsockname()).encode())
    listener.accept()[0].recv(1)
    os._exit(0)
address = eval(os.read(told, 999))
client = socket.socket(family)
client.setblocking(blocking)
client.connect_ex(address)
select.select([], [client], [])
print(server, file=open(sys.argv[4], "w"))
client.close()
"""


ADDRESSES = {"AF_INET": "('127.0.0.1', 0)", "AF_INET6": "('::1', 0)", "AF_UNIX": "'socket'"}


@pytest.mark.core
@pytest.mark.parametrize("mode", ["blocking", "nonblocking"])
@pytest.mark.parametrize("family", ADDRESSES)
def test_who_serves_a_connection(family: str, mode: str, watched: Watch, tmp_path: Path) -> None:
    server = tmp_path / "server"
    work = [PYTHON, "-c", SERVED, family, mode, ADDRESSES[family], str(server)]
    made = watched("connect", *work, cwd=tmp_path)[-1]
    assert made["server"] == int(server.read_text())
    assert "errno" not in made


def test_a_connection_that_is_given_up(watched: Watch) -> None:
    chain = "chain o {\n type filter hook output priority 0;\n tcp dport 81 drop\n}"
    rules = f"table inet t {{\n {chain}\n}}\n"
    code = (
        "import socket\ns = socket.socket(); s.settimeout(0.2)\n"
        "try: s.connect(('127.0.0.1', 81))\nexcept TimeoutError: s.close()\n"
    )
    with Sandbox(Profile(network="loopback", firewall=rules), "t") as sandbox:
        event = watched("connect", *sandbox.command([PYTHON, "-c", code]))[-1]
    assert event["abandoned"] is True and "errno" not in event
    assert 0.2 <= event["duration_s"] < 2


def test_a_connection_that_was_being_made_when_the_program_was_killed(watched: Watch) -> None:
    chain = "chain o {\n type filter hook output priority 0;\n tcp dport 81 drop\n}"
    rules = f"table inet t {{\n {chain}\n}}\n"
    code = "import socket; socket.create_connection(('127.0.0.1', 81))"
    with Sandbox(Profile(network="loopback", firewall=rules), "t") as sandbox:
        command = sandbox.command(["timeout", "2", PYTHON, "-c", code])
        event = watched("connect", *command)[-1]
    assert (event["port"], event["abandoned"], event["comm"]) == (81, True, "python3")
    assert event["duration_s"] > 0.2


@pytest.mark.core
def test_a_connect_through_io_uring(built: Callable[[str], Path], watched: Watch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        made = watched("connect", built("uring"), str(port))
    refused = watched("connect", built("uring"), str(port))
    assert [(e["port"], e.get("errno")) for e in made] == [(port, None)]
    assert [(e["port"], e.get("errno")) for e in refused] == [(port, "ECONNREFUSED")]


def test_the_way_that_packets_did_not_take(watched: Watch) -> None:
    code = (
        "import socket, time\ns = socket.socket(); s.connect_ex(('192.0.2.1', 80)); time.sleep(1)"
    )
    with Sandbox(Profile(network="loopback"), "t") as sandbox:
        event = watched("connect", *sandbox.command([PYTHON, "-c", code]))[-1]
    assert (event["errno"], event["route"]) == ("ENETUNREACH", "no route: Network is unreachable")


def test_unix_sockets(watched: Watch, tmp_path: Path) -> None:
    path = str(tmp_path / "s\n")
    event = watched("connect", *connect("AF_UNIX", path))[-1]
    assert (event["family"], event["address"], event["errno"]) == ("unix", path, "ENOENT")
    abstract = watched("connect", *connect("AF_UNIX", "\0nobody"))[-1]
    assert (abstract["address"], abstract["errno"]) == ("@nobody", "ECONNREFUSED")


# --- signals, files, scope ----------------------------------------------------


def test_who_killed_it(watched: Watch) -> None:
    events = watched("signal", "bash", "-c", "sleep 30 & kill -KILL $!; wait $!; exit 0")
    assert [(event["signal"], event["sender"]) for event in events] == [("SIGKILL", "process")]
    assert events[0]["target_comm"] in ("bash", "sleep") and events[0]["comm"] == "bash"


@pytest.mark.parametrize("name", [pytest.param("segv", marks=pytest.mark.core), "abort"])
def test_crashes(name: str, built: Callable[[str], Path], watched: Watch) -> None:
    event = watched("signal", built("fault"), name)[-1]
    signals = {"segv": ("SIGSEGV", 16, "kernel"), "abort": ("SIGABRT", None, "process")}
    assert (event["signal"], event.get("address"), event["sender"]) == signals[name]
    assert event["inside"] is True


def test_a_signal_that_is_handled_is_none(watched: Watch) -> None:
    code = "import os, signal\nsignal.signal(11, lambda *_: None); os.kill(os.getpid(), 11)"
    assert watched("signal", PYTHON, "-c", code) == []


@pytest.mark.core
def test_a_core_is_told(watched: Watch, built: Callable[[str], Path], tmp_path: Path) -> None:
    script = f"ulimit -c unlimited; exec {built('fault')} abort"
    event = watched("exit", "bash", "-c", script, cwd=tmp_path)[-1]
    assert event["signal"] == "SIGABRT"
    pattern = Path("/proc/sys/kernel/core_pattern").read_text()
    assert event.get("core") is (True if pattern.strip() else None)


@pytest.mark.core
@since(5, 17)  # bpf_find_vma
def test_the_mapping_behind_a_bus_error(
    built: Callable[[str], Path], watched: Watch, tmp_path: Path
) -> None:
    cut = tmp_path / "cut"
    event = watched("signal", built("fault"), "bus", cut)[-1]
    assert (event["signal"], event["mapping"]) == ("SIGBUS", str(cut))
    assert (event["offset"], event["file_size"]) == (2 * 4096, 2 * 4096)
    assert event.get("detail") is None
    with Sandbox(Profile(tmpfs={"/mnt": 16 * 4096}), "t") as sandbox:
        event = watched("signal", *sandbox.command([str(built("fault")), "full", "/mnt/f"]))[-1]
    assert (event["mapping"], event["file_size"]) == ("/mnt/f", 64 * 4096)
    assert event["detail"] == f"/mnt is full ({16 * 4096} bytes)"


@pytest.mark.parametrize(
    ("setting", "work", "signal_name", "limit"),
    [
        # It is gone before anybody can look.
        pytest.param("ulimit -St 1", "while :; do :; done", "SIGXCPU", 1, marks=pytest.mark.core),
        ("ulimit -t 1", "while :; do :; done", "SIGKILL", 1),
        ("ulimit -f 1", "head -c 9000 /dev/zero > $FILE", "SIGXFSZ", 1024),
    ],
)
def test_signals_of_limits(
    setting: str, work: str, signal_name: str, limit: int, watched: Watch, tmp_path: Path
) -> None:
    environment = {**os.environ, "FILE": str(tmp_path / "file")}
    events = watched("signal", "bash", "-c", f"{setting}; {work}", env=environment)
    told = next(event for event in events if event["signal"] == signal_name)
    assert (told["sender"], told["limit"]) == ("kernel", limit)


@pytest.mark.parametrize(
    ("resource", "value", "statement", "kind", "told"),
    [
        ("NOFILE", 40, "[open('/etc/passwd') for _ in range(50)]", "file", ("openat", "EMFILE")),
        ("FSIZE", 4096, "open(path, 'wb').write(bytes(9000))", "file", ("write", "EFBIG")),
        pytest.param(
            *("AS", 1 << 28, "bytearray(1 << 29)", "syscall", ("mmap", "ENOMEM")),
            marks=pytest.mark.core,
        ),
        ("AS", 1 << 28, "libc.brk(libc.sbrk(0) + (1 << 29))", "syscall", ("brk", "ENOMEM")),
    ],
)
def test_the_limit_behind_an_errno(
    resource: str,
    value: int,
    statement: str,
    kind: str,
    told: tuple[str, str],
    watched: Watch,
    tmp_path: Path,
) -> None:
    code = (
        "import ctypes, resource, signal\n"
        "libc = ctypes.CDLL(None)\n"
        "for f in (libc.brk, libc.sbrk): f.argtypes, f.restype = [ctypes.c_long], ctypes.c_long\n"
        f"path = {str(tmp_path / 'big')!r}\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_{resource}, ({value}, {value}))\n"
        f"try: kept = {statement}\nexcept (OSError, MemoryError): pass\n"
    )
    event = watched(kind, PYTHON, "-c", code)[-1]
    assert (event["syscall"], event["errno"], event["limit"]) == (*told, value)
    if kind == "syscall":
        assert 0 < event["usage"] < value


def test_a_library_on_a_noexec_mount(watched: Watch) -> None:
    script = (
        "mount -t tmpfs -o noexec none /mnt && cp /usr/lib/$(uname -m)-linux-gnu/libz.so.1 "
        "/mnt/lib.so && python3 -c 'import ctypes; ctypes.CDLL(\"/mnt/lib.so\")'"
    )
    event = watched("file", "unshare", "--mount", "bash", "-c", script)[-1]
    assert (event["syscall"], event["errno"], event["path"]) == ("mmap", "EPERM", "/mnt/lib.so")
    assert event["mount"] == "/mnt" and "noexec" in event["mount_flags"].split(",")


def test_a_refused_file_call_names_path_and_errno(watched: Watch, tmp_path: Path) -> None:
    with Sandbox(Profile(read_only=[str(tmp_path)]), "t") as sandbox:
        events = watched("file", *sandbox.command(["bash", "-c", f"cd {tmp_path}; echo > new"]))
    event = events[-1]
    assert (event["syscall"], event["path"], event["errno"]) == ("openat", "new", "EROFS")
    assert event["cwd"] == event["mount"] == str(tmp_path)
    assert "ro" in event["mount_flags"].split(",")


@pytest.mark.core
@pytest.mark.parametrize(
    ("limit", "errno"), [("", "ENOSPC"), ("ulimit -f 8; trap '' XFSZ;", "EFBIG")]
)
def test_a_file_that_takes_less_than_it_was_given(limit: str, errno: str, watched: Watch) -> None:
    """No call fails: write(2) says how much it took, and a program may leave it at that."""
    code = "import os; os.write(os.open('/mnt/x', os.O_CREAT | os.O_WRONLY), bytes(1 << 20))"
    with Sandbox(Profile(tmpfs={"/mnt": 64 << 10}), "t") as sandbox:
        script = f'{limit} exec {PYTHON} -c "{code}"'
        event = watched("file", *sandbox.command(["bash", "-c", script]))[-1]
    assert (event["syscall"], event["path"], event["errno"]) == ("write", "/mnt/x", errno)


@pytest.mark.parametrize(
    "copy",
    [
        "os.dup(2)",
        "fcntl.fcntl(2, fcntl.F_DUPFD, 50)",
        "(os.dup(1), os.dup(2))[1]",
        "os.dup(os.dup(2))",
    ],
)
def test_words_written_to_a_copy_of_stderr(watched: Watch, copy: str) -> None:
    """As test frameworks do (Test::More), which keep stdout and stderr for themselves."""
    code = (
        "import fcntl, os; other = os.open('/dev/null', os.O_WRONLY); "
        f"copy = {copy}; os.write(other, b'of no interest'); os.write(copy, b'why it failed'); "
        "os.close(copy); os.write(os.dup2(other, copy), b'nor is this'); raise SystemExit(3)"
    )
    event = watched("exit", PYTHON, "-c", code)[-1]
    assert (event["code"], event["last_words"]) == (3, "why it failed")


@pytest.mark.core
def test_words_that_a_full_disk_cut_short_are_heard(watched: Watch) -> None:
    code = "import os; os.write(2, b'why it failed ' * 20000); raise SystemExit(3)"
    with Sandbox(Profile(tmpfs={"/mnt": 64 << 10}), "t") as sandbox:
        script = f'exec {PYTHON} -c "{code}" 2> /mnt/log'
        ends = watched("exit", *sandbox.command(["bash", "-c", script]))
    (event,) = [event for event in ends if event["comm"] == "python3"]
    assert "why it failed" in event["last_words"]


def test_a_folder_that_stat_may_not_look_into(watched: Watch, public: Path) -> None:
    (public / "closed").mkdir(mode=0o700)
    code = f"import os; print(os.path.exists({str(public / 'closed' / 'x')!r}))"
    event = watched("file", *NOBODY, PYTHON, "-c", code)[-1]
    assert (event["path"], event["errno"]) == (str(public / "closed" / "x"), "EACCES")
    assert event["obstacle"] == str(public / "closed")


@pytest.mark.core  # bcc finds them where a program lives long enough
def test_what_connects_programs(watched: Watch, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("b\na\n")
    script = f"cd {tmp_path}; sort < in.txt | tail -1 > out.txt; true < /dev/null"
    events = watched("exec", "bash", "-c", script)
    started = {Path(event["path"]).name: event for event in events if "errno" not in event}
    sort, tail = started["sort"], started["tail"]
    assert (sort["stdin"], tail["stdout"]) == ("in.txt", "out.txt")
    assert sort["stdout"] == tail["stdin"] and sort["stdout"].startswith("pipe:")
    assert "stdin" not in started.get("true", {})


def test_the_room_and_kind_of_a_full_file_system(watched: Watch) -> None:
    code = "open('/mnt/x', 'wb').write(bytes(1 << 22))"
    with Sandbox(Profile(tmpfs={"/mnt": 1 << 20}), "t") as sandbox:
        event = watched("file", *sandbox.command([PYTHON, "-c", code]))[-1]
    assert (event["syscall"], event["errno"], event["path"]) == ("write", "ENOSPC", "/mnt/x")
    assert (event["mount"], event["fstype"]) == ("/mnt", "tmpfs")
    assert (event["size"], event["free"]) == (1 << 20, 0)


def test_the_mode_that_was_in_the_way(watched: Watch, public: Path) -> None:
    locked = public / "locked"
    locked.mkdir(mode=0o700)
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    event = watched("file", *nobody, "cat", str(locked / "file"))[-1]
    assert (event["errno"], event["obstacle"]) == ("EACCES", str(locked))
    assert event["mode"] == "0700 0:0"


@since(5, 13)  # Landlock
@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("open(closed + '/new', 'w')", "lsm.denied"),
        ("os.mkdir(closed + '/new')", "lsm.denied"),
        ("open(closed + '/there', 'a')", "lsm.denied"),
        ("os.unlink(closed + '/there')", "lsm.denied"),
    ],
)
def test_what_a_security_module_refused(
    statement: str, reason: str, watched: Watch, tmp_path: Path
) -> None:
    (tmp_path / "there").touch()
    code = f"import os\nclosed = {str(tmp_path)!r}\ntry: {statement}\nexcept OSError: pass"
    with Sandbox(Profile(landlock=["/dev"]), "t") as sandbox:
        event = watched("file", *sandbox.command([PYTHON, "-c", code]))[-1]
    assert (event["errno"], event["reason"]) == ("EACCES", reason)


NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--groups=12345"]


@pytest.mark.parametrize(
    ("mode", "group", "statement", "told"),
    [
        (0o640, 0, "open(path)", "fs.permission"),
        (0o640, 12345, "open(path, 'a')", "fs.permission"),
        (0o604, 12345, "open(path)", "fs.permission"),
        (0o644, 0, "open(path, 'r+')", "fs.permission"),
        (0o666, 0, "os.chmod(path, 0o600)", "fs.permission"),
        (0o666, 0, "os.unlink(path)", "fs.permission"),
        (0o666, 0, "os.chown(path, 65534, -1)", "capability.missing"),
        (0o666, 0, "os.link(path, path + '2')", "fs.permission"),
        (0o666, 0, "os.rename(path, path + '2')", "fs.permission"),
    ],
)
def test_what_modes_refused(
    mode: int, group: int, statement: str, told: str, watched: Watch, public: Path
) -> None:
    path = public / "file"
    path.touch()
    os.chown(path, 0, group)
    path.chmod(mode)
    code = f"import os\npath = {str(path)!r}\ntry: {statement}\nexcept OSError: pass"
    event = watched("file", *NOBODY, PYTHON, "-c", code)[-1]
    assert event["reason"] == told


def test_a_file_that_nobody_may_change(watched: Watch, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    subprocess.run(["chattr", "+i", path], check=True)
    try:
        event = watched("file", "bash", "-c", f"echo > {path}")[-1]
    finally:
        subprocess.run(["chattr", "-i", path], check=True)
    assert (event["errno"], event["reason"]) == ("EPERM", "fs.permission")


@pytest.mark.parametrize(
    ("statement", "kind", "fields"),
    [
        ("s.bind(('127.0.0.1', port))", "syscall", {"errno": "EADDRINUSE"}),
        ("s.bind(('192.0.2.1', 8080))", "syscall", {"errno": "EADDRNOTAVAIL", "port": 8080}),
        ("u.bind(path)", "file", {"errno": "EROFS", "mount": "/mnt"}),
    ],
)
def test_addresses_that_could_not_be_had(
    statement: str, kind: str, fields: dict[str, object], watched: Watch, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = (
            "import socket\ns, u = socket.socket(), socket.socket(socket.AF_UNIX)\n"
            f"path, port = '/mnt/socket', {server.getsockname()[1]}\n"
            f"try: {statement}\nexcept OSError: pass\n"
        )
        read_only = ["bwrap", "--dev-bind", "/", "/", "--ro-bind", str(tmp_path), "/mnt"]
        event = watched(kind, *read_only, PYTHON, "-c", code)[-1]
    assert event["syscall"] == "bind"
    assert {name: event[name] for name in fields} == fields


def test_pids_are_those_of_the_probes_own_namespace(tmp_path: Path) -> None:
    """A probe in a pid namespace sees that one and those below, with its own numbers."""
    report = tmp_path / "report"
    script = f"{BIN}/probe run --json {report} -- unshare --pid --fork bash -c 'exit $$'"
    subprocess.run(
        ["unshare", "--pid", "--fork", "--mount-proc", "bash", "-c", script],
        env={**os.environ, "PROBE_SOCKET": "/nonexistent"},
        capture_output=True,
        check=False,
    )
    content = json.loads(report.read_text())
    exits = [event for event in content["events"] if event["kind"] == "exit"]
    assert content["span"]["exit_code"] == 1  # the shell is pid 1 of the inner namespace
    assert {event["code"] for event in exits} == {1}
    assert all(1 < event["pid"] < 100 for event in exits)


@pytest.mark.core
def test_the_innermost_number_and_the_session(watched: Watch) -> None:
    script = "setsid unshare --pid --fork bash -c 'exit 3'"
    events = watched("exit", "bash", "-c", script)
    inner = next(event for event in events if event.get("code") == 3 and "inner_pid" in event)
    assert inner["inner_pid"] == 1 and inner["pid"] != 1
    outer = next(event for event in events if event["pid"] == inner["ppid"])
    assert inner["session"] == outer["session"] and "inner_pid" not in outer
    assert inner["session"] in {event["pid"] for event in events}


def test_what_happens_outside_the_span_stays_outside(watched: Watch) -> None:
    subprocess.Popen(["bash", "-c", "for i in $(seq 50); do /no/such/$i; done"]).wait()
    noise = subprocess.Popen(
        ["bash", "-c", "while :; do /no/such/program 2>/dev/null; done"],
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    )
    try:
        events = watched("exec", "bash", "-c", "sleep 0.3; exit 1")
    finally:
        os.killpg(noise.pid, signal.SIGKILL)
        noise.wait()
    assert not [event for event in events if "/no/such" in event["path"]]


# --- files that were there before ------------------------------------------------


def gone_of(events: list[dict[str, Any]], code: int) -> list[str]:
    told: list[str] = next(event for event in events if event.get("code") == code).get("gone", [])
    return told


@pytest.mark.core
@pytest.mark.parametrize(
    "write",
    ["echo x > /mnt/data", "cd /mnt; echo x > ./data", "echo > /mnt/a; mv /mnt/a /mnt/data"],
)
def test_a_file_of_another_mount_namespace(write: str, watched: Watch) -> None:
    script = f"unshare -m bash -c 'mount -t tmpfs none /mnt; {write}'; cat /mnt//data"
    (told,) = gone_of(watched("exit", "bash", "-c", script), 1)
    assert told.startswith("/mnt//data: made by ")
    assert told.endswith(" in another mount namespace")


@pytest.mark.core
def test_a_file_removed_from_outside(watched: Watch, tmp_path: Path) -> None:
    """What the span removes itself is its own affair; what others remove is not."""
    script = (
        f"cd {tmp_path}; echo > removed; rm removed; echo > kept; "
        "while [ -e kept ]; do sleep 0.02; done; cat kept removed"
    )
    remove = f"until rm {tmp_path}/kept; do sleep 0.02; done"
    outside = subprocess.Popen(["bash", "-c", remove], stderr=subprocess.DEVNULL)
    events = watched("exit", "bash", "-c", script)
    outside.wait()
    (told,) = gone_of(events, 1)
    assert told.startswith("kept: made by bash") and not told.endswith("namespace")


@pytest.mark.parametrize(
    "removal",
    ["rm -r made", "mv made other", "mv made/in other", "rm made/in/data && rm -r made"],
)
def test_a_file_that_the_work_removed_itself(removal: str, watched: Watch, tmp_path: Path) -> None:
    script = f"cd {tmp_path}; mkdir -p made/in; echo > made/in/data; {removal}; cat made/in/data"
    assert gone_of(watched("exit", "bash", "-c", script), 1) == []


# --- storms -------------------------------------------------------------------

STORM = 20_000


@pytest.mark.parametrize("kind", ["connect", "exec", "file", "seccomp"])
def test_a_storm_is_folded_and_counted_exactly(
    kind: str, built: Callable[[str], Path], watched: Watch, tmp_path: Path
) -> None:
    locked = tmp_path / "locked"
    locked.mkdir()
    profile = Profile(read_only=[str(locked)])
    with Sandbox(profile, "storm") as sandbox:
        command = [str(built("storm")), kind, str(STORM), str(locked / "file")]
        events = watched(kind, *sandbox.command(command))
    of_the_storm = [event for event in events if event["comm"] == "storm" and "errno" in event]
    assert sum(event["count"] for event in of_the_storm) == STORM
    assert len(of_the_storm) < 500


def test_spawns_by_the_thousand(watched: Watch) -> None:
    events = watched("exit", "bash", "-c", "for i in {1..2000}; do /bin/true; done; exit 3")
    assert len(events) == 2001


# --- names --------------------------------------------------------------------


NAMESERVER = (PYTHON, str(Path(__file__).parent.parent / "scenarios" / "nameserver.py"))


@pytest.fixture
def named() -> Iterator[Sandbox]:
    """A sandbox with a name server that answers as the first label of a name says."""
    with Sandbox(Profile(nameserver=NAMESERVER), "named") as sandbox:
        yield sandbox


@pytest.mark.parametrize(
    ("name", "rcode"),
    [
        ("good.example", "NOERROR"),
        ("nxdomain.example", "NXDOMAIN"),
        ("servfail.example", "SERVFAIL"),
        ("refused.example", "REFUSED"),
        ("silent.example", None),
    ],
)
def test_a_name_looked_up_by_the_c_library(
    name: str, rcode: str | None, watched: Watch, named: Sandbox
) -> None:
    code = f"import socket\ntry: socket.getaddrinfo({name!r}, 80)\nexcept OSError: pass"
    events = watched("dns", *named.command([PYTHON, "-c", code]))
    own = [event for event in events if event["name"] == name]
    assert {event["query"] for event in own} == {"A", "AAAA"}
    assert {event.get("rcode") for event in own} == {rcode}
    assert {event["resolver"] for event in own} == {"127.0.0.1"}
    assert all((event.get("duration_s") is not None) == (rcode is not None) for event in own)


QUERY = "q = b'\\x12\\x34\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\x08nxdomain\\x07example\\0\\0\\1\\0\\1'"


@pytest.mark.parametrize(
    "exchange",
    [
        "s.connect(a); os.write(s.fileno(), q); os.read(s.fileno(), 512)",
        "s.sendto(q, a); s.recvfrom(512)",
        "s.sendmsg([q], [], 0, a); s.recvmsg(512)",
        "s = socket.create_connection(a); s.sendall(len(q).to_bytes(2, 'big') + q); s.recv(514)",
    ],
    ids=["read and write", "sendto", "sendmsg", "TCP"],
)
def test_a_name_looked_up_by_a_resolver_of_its_own(
    exchange: str, watched: Watch, named: Sandbox
) -> None:
    start = "import os, socket; a = ('127.0.0.1', 53); s = socket.socket(2, 2)"
    code = "\n".join([start, QUERY, exchange])
    events = watched("dns", *named.command([PYTHON, "-c", code]))
    own = [(e["name"], e["query"], e.get("rcode")) for e in events if e["comm"] == "python3"]
    assert own == [("nxdomain.example", "A", "NXDOMAIN")]


# --- sockets in use, and other refusals ----------------------------------------


def test_a_datagram_that_nobody_takes(watched: Watch) -> None:
    code = (
        "import socket\ns = socket.socket(2, 2); s.connect(('127.0.0.1', 9))\n"
        "s.send(b'x')\ntry: s.recv(9)\nexcept ConnectionRefusedError: pass\n"
    )
    event = next(e for e in watched("connect", PYTHON, "-c", code) if "errno" in e)
    assert (event["protocol"], event["errno"], event["port"]) == ("datagram", "ECONNREFUSED", 9)
    assert event["in_use"] is True


def test_a_connection_that_is_reset(watched: Watch) -> None:
    code = (
        "import socket, struct\n"
        "l = socket.create_server(('127.0.0.1', 0))\n"
        "c = socket.create_connection(l.getsockname())\n"
        "s, _ = l.accept(); s.setsockopt(1, 13, struct.pack('ii', 1, 0)); s.close()\n"
        "try: c.recv(1)\nexcept ConnectionResetError: pass\n"
    )
    event = next(e for e in watched("connect", PYTHON, "-c", code) if "errno" in e)
    assert (event["errno"], event["in_use"]) == ("ECONNRESET", True)


@pytest.mark.parametrize(
    ("statement", "syscall", "errno"),
    [
        ("os.chroot('/tmp')", "chroot", "EPERM"),
        ("socket.socket(17, 3)", "socket", "EPERM"),
        ("socket.socket().bind(('127.0.0.1', 80))", "bind", "EACCES"),
        ("os.setuid(12345)", "setuid", "EPERM"),
        ("os.sched_setscheduler(0, 1, os.sched_param(5))", "sched_setscheduler", "EPERM"),
    ],
)
def test_a_privileged_call_without_the_capability(
    statement: str, syscall: str, errno: str, watched: Watch
) -> None:
    drop = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--reuid=65534", "--clear-groups"]
    code = f"import os, socket\ntry: {statement}\nexcept PermissionError: pass"
    own = [e for e in watched("syscall", *drop, PYTHON, "-c", code) if e["comm"] == "python3"]
    assert [(event["syscall"], event["errno"]) for event in own] == [(syscall, errno)]


def test_calls_that_the_kernel_does_not_have_and_limits(watched: Watch) -> None:
    code = (
        "import ctypes, os, resource\n"
        "ctypes.CDLL(None).syscall(509)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))\n"
        "try:\n while True: os.pipe()\nexcept OSError: pass\n"
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28))\n"
        "try: bytearray(1 << 29)\nexcept MemoryError: pass\n"
    )
    events = watched("syscall", PYTHON, "-c", code)
    told = {(event["syscall"], event["errno"]) for event in events}
    assert {("syscall_509", "ENOSYS"), ("pipe2", "EMFILE"), ("mmap", "ENOMEM")} <= told


@pytest.mark.parametrize(
    ("script", "silenced"),
    [
        ("cat /no/such 2>/dev/null", True),  # coreutils close stderr before they end
        (f"{PYTHON} -c 'import sys; sys.exit(\"no\")' 2>/dev/null", True),
        ("bash -c 'exec 2>&-; exit 3'", None),
        ("cat /no/such", None),
        ("cat /no/such >/dev/null", None),
    ],
)
def test_words_that_go_to_nobody(watched: Watch, script: str, silenced: bool | None) -> None:
    events = watched("exit", "bash", "-c", f"{script}; exit 1")
    [child, own] = [event for event in events if event["code"]]
    assert child.get("silenced") == silenced
    assert own.get("silenced") is None


@pytest.mark.parametrize("locale", ["C", "C.UTF-8", "de_DE.UTF-8"])
def test_what_a_shell_looked_up_before_it_forked(watched: Watch, locale: str) -> None:
    """Its child looks for translations of what it has to say, which is not all that was missed."""
    environment = {**os.environ, "LC_ALL": locale, "PATH": "/nowhere/bin:/usr/bin:/bin"}
    child, _ = watched("exit", "bash", "-c", "nosuchprogram; exit 3", env=environment)
    assert child["code"] == 127
    places = [path for path in child["missing"] if path.endswith("/nosuchprogram")]
    assert places == [f"{folder}/nosuchprogram" for folder in environment["PATH"].split(":")]


def test_what_may_not_be_executed_and_is_removed_at_once(watched: Watch) -> None:
    script = (
        "mount -t tmpfs -o noexec none /mnt; cp /bin/true /mnt/tool; chmod +x /mnt/tool; "
        "/mnt/tool; rm /mnt/tool; exit 3"
    )
    events = watched("exec", "unshare", "--mount", "bash", "-c", script)
    [refused] = [event for event in events if event.get("errno") == "EACCES"]
    assert (refused["reason"], refused["detail"]) == ("exec.noexec_mount", "/mnt")
