"""How much of anything this process may have: cgroups, resource limits, settings of the kernel."""

from __future__ import annotations

import resource
from dataclasses import dataclass

from probe.context import mount as mountinfo
from probe.context.cgroup import Cgroup
from probe.doctor.section import Learner, Section, fact, passing, read, sysctls

_SYSCTLS = (
    "kernel.pid_max",
    "kernel.threads-max",
    "kernel.shmmax",
    "fs.file-max",
    "fs.nr_open",
    "fs.inotify.max_user_watches",
    "fs.inotify.max_user_instances",
    "vm.max_map_count",
    "vm.overcommit_memory",
    "net.core.somaxconn",
)


@dataclass
class Rlimit:
    soft: int | None = fact(0.4, "what counts; none for no limit")
    hard: int | None = fact(0.2, "up to where the process may raise it")


@dataclass
class Limits(Section):
    cgroup_version: int | None = fact(0.1, "1 or 2; none where no cgroup is in sight")
    cgroup: str | None = passing("the folder of this process's cgroup")
    memory_limit: int | None = fact(0.8, "bytes, the strictest on the way up; none for no limit")
    memory_used: int | None = passing("bytes, page cache included")
    swap_limit: int | None = fact(0.3, "bytes of memory and swap (version 1) or of swap (2)")
    oom_kills: int | None = passing("how often the OOM killer was there")
    pids_limit: int | None = fact(0.7, "processes and threads; none for no limit")
    pids_used: int | None = passing("processes and threads in this cgroup")
    cpu_limit: float | None = fact(0.4, "CPUs' worth of time; none for no limit")
    cpu_throttled: int | None = passing("periods in which the quota was used up")
    rlimits: dict[str, Rlimit] = fact(0.4, "resource limits of this process (getrlimit(2))")
    settings: dict[str, str] = fact(0.2, "kernel settings that limit")


def examine() -> Limits:
    learner = Learner()
    learn = learner.learn
    group = learn("cgroup", _cgroup) or Cgroup([], "")
    return Limits(
        cgroup_version=group.version,
        cgroup=group.path,
        memory_limit=learn(
            "memory_limit",
            lambda: group.limit("memory", "memory.limit_in_bytes", "memory.max"),
        ),
        memory_used=learn(
            "memory_used",
            lambda: group.value("memory", "memory.usage_in_bytes", "memory.current"),
        ),
        swap_limit=learn(
            "swap_limit",
            lambda: group.limit("memory", "memory.memsw.limit_in_bytes", "memory.swap.max"),
        ),
        oom_kills=learn(
            "oom_kills",
            lambda: group.event("memory", "memory.oom_control", "memory.events", "oom_kill"),
        ),
        pids_limit=learn("pids_limit", lambda: group.limit("pids", "pids.max", "pids.max")),
        pids_used=learn("pids_used", lambda: group.value("pids", "pids.current", "pids.current")),
        cpu_limit=learn("cpu_limit", group.cpus),
        cpu_throttled=learn(
            "cpu_throttled", lambda: group.event("cpu", "cpu.stat", "cpu.stat", "nr_throttled")
        ),
        rlimits=dict(_rlimits()),
        settings=sysctls(*_SYSCTLS),
        unknown=learner.unknown,
    )


def _cgroup() -> Cgroup:
    return Cgroup(mountinfo.entries(), read("/proc/self/cgroup"))


def _rlimits() -> list[tuple[str, Rlimit]]:
    names = sorted(name for name in dir(resource) if name.startswith("RLIMIT_"))
    found: dict[int, tuple[str, Rlimit]] = {}
    for name in names:
        try:
            soft, hard = (_number(value) for value in resource.getrlimit(getattr(resource, name)))
        except (OSError, ValueError):
            continue  # a limit that this kernel does not have
        found.setdefault(getattr(resource, name), (name[7:].lower(), Rlimit(soft, hard)))
    return list(found.values())


def _number(value: int) -> int | None:
    return None if value == resource.RLIM_INFINITY else value
