"""A made-up run of two applications in a dozen sandboxes, in which about everything fails once.

`fill` writes it into a database as probes would; `told_by_clients` stands in for the clients of
the sandboxes, who alone know what went wrong in front of one.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

from collector import explanation
from collector.store import Delivery, Hello, Observation, open_store
from collector.store.rows import event_row
from probe.coverage import SENSES, Coverage, Losses
from probe.diagnose import Case, Explanation, Finding, explain
from probe.events import Connect, Dns, Event, Exec, Exit, File, Fork, Oom, Seccomp, Signal
from probe.message import event_message
from probe.span import Span

RUN = "nightly-0418"
APPLICATIONS = ("checkout", "ledger")
DOMAINS = (
    *("billing", "compression", "crypto", "database", "networking"),
    *("parsing", "rendering", "scheduling", "search", "storage"),
)
FULL = Coverage("core", dict.fromkeys(SENSES, "full"))
PARTIAL = Coverage(
    "portable",
    {**FULL.senses, "dns": "partial: answers over TCP are not read", "files": "none: no BPF LSM"},
)
LOST_BOOT, MS, SECOND = "boot-lost", 1_000_000, 1_000_000_000
SHELL, RUNNER, WORKER = 4100, 4101, 4102
OUTDATED_S = 3600  # a sandbox that was last heard so long ago is lost
SCRIPT = "/srv/app/run.sh"


class Story:
    """The events of one test, told in order."""

    def __init__(self, key: int, sequence: int, started_ns: int, dice: random.Random) -> None:
        self.events: list[Event] = []
        self.dice = dice
        self._key, self._sequence, self._now = key, sequence, started_ns
        self.exit_code: int | None = 1
        self.ended_ns: int | None = None

    def after(self, ms: float) -> Story:
        self._now += int(ms * MS * self.dice.uniform(0.6, 1.6))
        return self

    def tell(self, kind: type[Event], pid: int, comm: str, **fields: Any) -> Story:
        self._sequence += 1
        parent = {SHELL: 1, RUNNER: SHELL}.get(pid, RUNNER)
        exe = f"/usr/bin/{comm}"
        common = {"sequence": self._sequence, "time_ns": self._now, "pid": pid, "tid": pid}
        common |= {"ppid": parent, "span": self._key}
        self.events.append(kind(**common, comm=comm, exe=exe, **fields))
        return self

    def start(self, pid: int, program: str, *arguments: str) -> Story:
        return self.tell(Exec, pid, program, path=f"/usr/bin/{program}", argv=(program, *arguments))

    def end(self, pid: int, comm: str, code: int | None = 1, **fields: Any) -> Story:
        reaper = {SHELL: 1, RUNNER: SHELL}.get(pid, RUNNER)
        return self.tell(Exit, pid, comm, code=code, reaper=reaper, **fields)

    def begin(self) -> Story:
        self.start(SHELL, "sh", SCRIPT).after(4).start(RUNNER, "python3", "-m", "worker").after(60)
        for number in range(self.dice.randrange(4)):
            helper = ("git", "tar", "sed", "curl")[number]
            pid = WORKER + 10 + number
            self.start(pid, helper).after(12).end(pid, helper, 0, duration_s=0.012)
        return self

    def finish(self, code: int = 1, words: str | None = None) -> None:
        self.after(5).end(RUNNER, "python3", code, last_words=words)
        self.after(1).end(SHELL, "sh", code)
        self.exit_code, self.ended_ns = code, self._now


def _oom(story: Story) -> None:
    limit = 512 << 20
    story.start(WORKER, "java", "-jar", "index.jar").after(900)
    story.tell(
        Oom,
        WORKER,
        "java",
        scope="cgroup",
        cgroup="/sandbox",
        limit=limit,
        usage=limit,
        virtual=1_400 << 20,
    )
    story.after(2).end(WORKER, "java", None, signal="SIGKILL").finish(137)


def _missing_program(story: Story) -> None:
    name = story.dice.choice(("jq", "jq", "ffmpeg"))
    searched = ("/usr/local/bin", "/usr/bin", "/bin")
    story.tell(
        Exec,
        WORKER,
        "sh",
        path=f"/bin/{name}",
        argv=(name, "."),
        errno="ENOENT",
        reason="exec.not_found",
        searched=searched,
    )
    story.after(1).end(WORKER, "sh", 127, last_words=f"sh: 1: {name}: not found").finish(127)


def _refused(story: Story) -> None:
    for _ in range(3):
        story.after(200).tell(
            Connect, RUNNER, "python3", family="ipv4", address="127.0.0.1", port=5432,
            errno="ECONNREFUSED",
        )  # fmt: skip
    story.finish(1, "ConnectionRefusedError: [Errno 111] Connection refused")


def _no_name(story: Story) -> None:
    story.tell(
        Dns, RUNNER, "python3", name="registry.internal", query="A", resolver="10.0.0.2",
        rcode="NXDOMAIN",
    )  # fmt: skip
    story.finish(1, "socket.gaierror: [Errno -2] Name or service not known")


def _unreachable(story: Story) -> None:
    story.tell(
        Connect, RUNNER, "python3", family="ipv4", address="203.0.113.9", port=443,
        errno="ENETUNREACH", route="unreachable",
    )  # fmt: skip
    story.finish(1, "OSError: [Errno 101] Network is unreachable")


def _denied(story: Story) -> None:
    story.start(WORKER, "strace", "-f", "ls").after(3)
    story.tell(
        Seccomp, WORKER, "strace", syscall="ptrace", detail="PTRACE_TRACEME", errno="EPERM",
        filter="filter 1, rule 14",
    )  # fmt: skip
    said = "strace: ptrace(PTRACE_TRACEME, ...): Operation not permitted"
    story.after(1).end(WORKER, "strace", 1, last_words=said).finish(1, said)


def _full_disk(story: Story) -> None:
    path = f"/var/tmp/part-{story.dice.randrange(1000)}"
    story.after(700).tell(
        File, RUNNER, "python3", syscall="write", path=path, errno="ENOSPC", mount="/var/tmp",
        fstype="tmpfs", size=64 << 20, free=0, free_inodes=9000,
    )  # fmt: skip
    story.finish(1, "OSError: [Errno 28] No space left on device")


def _read_only(story: Story) -> None:
    story.tell(
        File, RUNNER, "python3", syscall="openat", path="/opt/cache/index", errno="EROFS",
        mount="/", fstype="overlay", mount_flags="ro",
    )  # fmt: skip
    story.finish(1, "OSError: [Errno 30] Read-only file system: '/opt/cache/index'")


def _pids(story: Story) -> None:
    for _ in range(4):
        story.after(3).tell(
            Fork, RUNNER, "python3", syscall="clone3", errno="EAGAIN", cgroup="/sandbox",
            pids_max=64, pids_current=64,
        )  # fmt: skip
    story.finish(1, "BlockingIOError: [Errno 11] Resource temporarily unavailable")


def _killed(story: Story) -> None:
    story.after(30_000).tell(
        Signal, 77, "timeout", signal="SIGKILL", target=RUNNER, target_comm="python3", inside=False
    )
    story.end(RUNNER, "python3", None, signal="SIGKILL").after(1).end(SHELL, "sh", 137)
    story.exit_code, story.ended_ns = 137, story.events[-1].time_ns


def _assertion(story: Story) -> None:
    story.after(80).finish(1, f"AssertionError: {story.dice.randrange(90)} != 90")


def _crash(story: Story) -> None:
    story.start(WORKER, "convert", "in.png").after(40)
    story.end(WORKER, "convert", None, signal="SIGSEGV", core=False).finish(139)


def _silence(story: Story) -> None:
    story.start(WORKER, "java", "-jar", "index.jar").after(400)


TELLERS: dict[str, Callable[[Story], None]] = {
    "memory.cgroup_oom": _oom,
    "exec.not_found": _missing_program,
    "net.refused": _refused,
    "net.dns_not_found": _no_name,
    "net.unreachable": _unreachable,
    "seccomp.denied": _denied,
    "fs.no_space": _full_disk,
    "fs.read_only": _read_only,
    "fork.pids_limit": _pids,
    "limit.killed": _killed,
    "sandbox.lost": _silence,
    "sandbox.restarted": _silence,
    "interface.timeout": _assertion,
    "interface.corrupted": _assertion,
    "workload.failed": _assertion,
    "workload.crashed": _crash,
    "unknown": _assertion,
}
# How often each happens, and the domains that have most of it.
_COMMON: dict[str, tuple[int, tuple[str, ...]]] = {
    "memory.cgroup_oom": (30, ("search", "rendering", "compression")),
    "exec.not_found": (14, ("parsing", "rendering")),
    "net.refused": (14, ("database", "billing")),
    "net.dns_not_found": (8, ("networking",)),
    "net.unreachable": (5, ("networking", "crypto")),
    "seccomp.denied": (8, ("scheduling", "crypto")),
    "fs.no_space": (9, ("storage", "compression")),
    "fs.read_only": (5, ("storage",)),
    "fork.pids_limit": (6, ("scheduling",)),
    "limit.killed": (3, ("search",)),
    "sandbox.lost": (4, ()),
    "sandbox.restarted": (3, ()),
    "interface.timeout": (5, ()),
    "interface.corrupted": (4, ("parsing",)),
    "workload.failed": (10, ()),
    "workload.crashed": (3, ("rendering",)),
    "unknown": (3, ()),
}


@dataclass(frozen=True)
class Made:
    """A test that was made, and what it is meant to fail by; None where it passes."""

    test: str
    application: str
    domain: str
    cause: str | None


def fill(url: str, tests: int = 600, seed: int = 7) -> list[Made]:
    """The run RUN, in a database that is made where there is none."""
    dice = random.Random(seed)
    made = []
    with contextlib.closing(open_store(url)) as store:
        sequence = 0
        for number in range(tests):
            one = _made(dice, number)
            sandbox, boot = _sandbox(dice, one.cause)
            sequence += 100
            delivery = _delivery(one, sandbox, boot, number + 1, sequence, dice)
            is_old = one.cause == "sandbox.lost"
            heard = time.time_ns() - (OUTDATED_S * SECOND if is_old else 0)
            with mock.patch("time.time_ns", return_value=heard):
                store.greet(Hello(sandbox, boot, "0.1.0", FULL, 0))
                store.add([delivery])
            made.append(one)
        for sandbox in ("sandbox-31", "sandbox-32"):
            store.greet(Hello(sandbox, "boot-2", "0.1.0", FULL, 0))
    return made


def _made(dice: random.Random, number: int) -> Made:
    domain = dice.choice(DOMAINS)
    application = dice.choices(APPLICATIONS, (3, 2))[0]
    cause = None
    if dice.random() < 0.24:
        weights = [
            often * (4 if domain in domains else 1 if not domains else 0.15)
            for often, domains in _COMMON.values()
        ]
        cause = dice.choices(list(_COMMON), weights)[0]
    verb = dice.choice(("accepts", "refuses", "keeps", "sorts", "restores", "merges"))
    return Made(f"{application}/{domain}/test_{verb}_{number:04}", application, domain, cause)


def _sandbox(dice: random.Random, cause: str | None) -> tuple[str, str]:
    if cause == "sandbox.lost":
        return f"sandbox-{dice.randrange(21, 23)}", LOST_BOOT
    if cause == "sandbox.restarted":
        return f"sandbox-{dice.randrange(31, 33)}", "boot-1"
    return f"sandbox-{dice.randrange(10):02}", "boot-1"


def _delivery(
    made: Made, sandbox: str, boot: str, key: int, sequence: int, dice: random.Random
) -> Delivery:
    started = 1_790_000_000 * SECOND + key * 2 * SECOND
    story = Story(key, sequence, started, dice)
    if made.cause is not None:
        TELLERS[made.cause](story.begin())
    is_lost = made.cause in ("sandbox.lost", "sandbox.restarted")
    passed_ns = started + int(dice.uniform(0.1, 3) * SECOND)
    is_blind = made.cause == "unknown" or (made.cause is None and dice.random() < 0.05)
    losses = Losses({"files": dice.randrange(40, 400)} if made.cause == "unknown" else {})
    span = Span(
        key=key,
        run=RUN,
        test=made.test,
        command=("sh", SCRIPT, made.domain),
        sandbox=sandbox,
        boot=boot,
        pid=SHELL,
        started_ns=started,
        ended_ns=None if is_lost else story.ended_ns if made.cause else passed_ns,
        exit_code=None if is_lost else story.exit_code if made.cause else 0,
        outcome="lost" if is_lost else "failed" if made.cause else "passed",
        labels={
            "application": made.application,
            "domain": made.domain,
            **({"demo": made.cause} if made.cause else {}),
        },
    )
    events = tuple(event_row(event_message(event)) for event in story.events)
    return Delivery(
        sandbox,
        boot,
        sequence + 99,
        events,
        ((sequence + 99, Observation(span, PARTIAL if is_blind else FULL, losses)),),
    )


_TOLD = {
    "interface.timeout": (
        "the client gave up after 10 s, while python3 was still working normally",
        "give the client more time than the work takes: 60 s for a start",
    ),
    "interface.corrupted": (
        "bytes above 0x7f came back as U+FFFD: the interface decodes output as UTF-8",
        "let the interface hand over bytes, or encode the output as base64",
    ),
}


@contextlib.contextmanager
def told_by_clients() -> Iterator[None]:
    """Verdicts about the interface, of the tests that were made for them."""

    def explained(case: Case) -> Explanation:
        found = explain(case)
        told = _TOLD.get(case.span.labels.get("demo", ""))
        if told is None or case.span.passed:
            return found
        evidence = tuple(event.id for event in case.events[-1:])
        verdict = Finding(case.span.labels["demo"], 0.93, *told, evidence)
        return Explanation(verdict, (found.verdict,) if found.verdict else (), found.dismissed)

    with mock.patch.object(explanation, "explain", explained):
        yield
