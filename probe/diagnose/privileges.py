"""Rules for calls that the kernel itself refused: a capability, a limit, or no such call."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from probe.abi import capabilities
from probe.diagnose.case import Dismissal
from probe.diagnose.fallbacks import is_harmless
from probe.diagnose.memory import size
from probe.diagnose.story import Story, Suspect
from probe.diagnose.tree import Process
from probe.events import Syscall

_NUMBERS = {f"CAP_{name}": number for number, name in enumerate(capabilities.NAMES)}
# The one that a call asks for; CAP_SYS_ADMIN where none is named.
_CAPABILITIES = {
    "bind": "CAP_NET_BIND_SERVICE",
    "bpf": "CAP_BPF",
    "chroot": "CAP_SYS_CHROOT",
    "clock_settime": "CAP_SYS_TIME",
    "settimeofday": "CAP_SYS_TIME",
    "adjtimex": "CAP_SYS_TIME",
    "clock_adjtime": "CAP_SYS_TIME",
    "finit_module": "CAP_SYS_MODULE",
    "init_module": "CAP_SYS_MODULE",
    "delete_module": "CAP_SYS_MODULE",
    "ioperm": "CAP_SYS_RAWIO",
    "iopl": "CAP_SYS_RAWIO",
    "kill": "CAP_KILL",
    "tkill": "CAP_KILL",
    "tgkill": "CAP_KILL",
    "mlock": "CAP_IPC_LOCK",
    "mlockall": "CAP_IPC_LOCK",
    "perf_event_open": "CAP_PERFMON",
    "process_vm_readv": "CAP_SYS_PTRACE",
    "process_vm_writev": "CAP_SYS_PTRACE",
    "ptrace": "CAP_SYS_PTRACE",
    "kcmp": "CAP_SYS_PTRACE",
    "pidfd_getfd": "CAP_SYS_PTRACE",
    "open_by_handle_at": "CAP_DAC_READ_SEARCH",
    "reboot": "CAP_SYS_BOOT",
    "sched_setaffinity": "CAP_SYS_NICE",
    "sched_setattr": "CAP_SYS_NICE",
    "sched_setparam": "CAP_SYS_NICE",
    "sched_setscheduler": "CAP_SYS_NICE",
    "setpriority": "CAP_SYS_NICE",
    "setgid": "CAP_SETGID",
    "setgroups": "CAP_SETGID",
    "setregid": "CAP_SETGID",
    "setresgid": "CAP_SETGID",
    "setuid": "CAP_SETUID",
    "setresuid": "CAP_SETUID",
    "setreuid": "CAP_SETUID",
    "setrlimit": "CAP_SYS_RESOURCE",
    "prlimit64": "CAP_SYS_RESOURCE",
    "socket": "CAP_NET_RAW",
    "setsockopt": "CAP_NET_ADMIN",
    "syslog": "CAP_SYSLOG",
}
# Callers ask for these and do without.
_TOLERATED = frozenset(
    {"prctl", "setpriority", "sched_setaffinity", "sched_setattr", "sched_setparam"}
    | {"sched_setscheduler", "setsockopt", "mlock", "setrlimit", "prlimit64", "kill"}
)

_FIRST_UNPRIVILEGED_PORT = 1024  # net.ipv4.ip_unprivileged_port_start, unless it was changed


def suspects(story: Story) -> Iterator[Suspect | Dismissal]:
    for event in story.worth_judging(Syscall):
        yield _RULES.get(event.errno, _refused)(story, event)
    for process in story.tree.processes.values():
        told = _NETLINK.search(story.own_words(process.pid)) if process.failed else None
        if told is not None and process.weight:
            yield _netlink(story, process, told[0])


# The answer lies in a message that was received well, so no call fails.
_NETLINK = re.compile(
    r"RTNETLINK answers: Operation not permitted|"
    r"(fetch rule set generation id|cache initialization failed): "
    r"(Operation not permitted|Permission denied)"
)


def _netlink(story: Story, process: Process, told: str) -> Suspect:
    assert process.exit is not None
    return Suspect(
        cause="capability.missing",
        event=process.exit,
        prior=0.85,
        summary=f"{story.who(process.exit)} may not change the network: the process has no "
        "CAP_NET_ADMIN",
        advice="grant CAP_NET_ADMIN to the sandbox, or set its network up from outside",
        spellings=(told,),
    )


def _suspect(
    story: Story, event: Syscall, cause: str, prior: float, what: str, advice: str
) -> Suspect:
    about = event.path or (event.detail if event.syscall == "bind" else None)
    where = f" {about}" if about else ""
    return Suspect(
        cause=cause,
        event=event,
        prior=prior,
        summary=f"{story.who(event)}: {event.syscall}{where} failed, {what} ({event.errno})",
        advice=advice,
        mentions=(event.syscall, *([about] if about else [])),
    )


def _refused(story: Story, event: Syscall) -> Suspect:
    if event.syscall == "capset":  # it raises nothing beyond the permitted set (capset(2))
        what = "a capability was asked for that the process is not permitted"
        advice = "grant the capability to the sandbox, or do without it"
        return _suspect(story, event, "capability.missing", 0.8, what, advice)
    capability = _CAPABILITIES.get(event.syscall, "CAP_SYS_ADMIN")
    prior = 0.4 if event.syscall in _TOLERATED else 0.8
    if _holds(event, capability):
        what = f"though the process has {capability}: a security module or policy refused it"
        advice = f"allow {event.syscall} in the sandbox's policy (Landlock, AppArmor, SELinux)"
        return _suspect(story, event, "lsm.denied", prior, what, advice)
    where = " in the initial user namespace" if event.user_ns else ""
    what = f"the process has no {capability}{where}"
    advice = f"grant {capability} to the sandbox, or do without {event.syscall}"
    return _suspect(story, event, "capability.missing", prior, what, advice)


def _holds(event: Syscall, capability: str) -> bool:
    """What is held in a nested user namespace does not reach beyond it."""
    if event.user_ns or event.capabilities is None:
        return False
    if event.syscall == "bind" and (event.port or 0) >= _FIRST_UNPRIVILEGED_PORT:
        return True  # no capability is asked for
    return bool(event.capabilities >> _NUMBERS[capability] & 1)


def _unsupported(story: Story, event: Syscall) -> Suspect:
    prior = 0.2 if is_harmless(event) else 0.6
    what, advice = "this kernel does not have it", "use a kernel that has it"
    return _suspect(story, event, "syscall.unsupported", prior, what, advice)


_MAP_HUGETLB = 0x40000
# Of these ENOMEM says that nothing is mapped at the address: mincore(2), msync(2), madvise(2).
_OF_MAPPINGS = frozenset({"mincore", "msync", "madvise", "munlock"})


def _no_memory(story: Story, event: Syscall) -> Suspect | Dismissal:
    if event.syscall in _OF_MAPPINGS:
        return Dismissal(event.id, "it asks for no memory: nothing is mapped at the address")
    asked = event.args[1] if event.syscall == "mmap" and len(event.args) > 1 else 0
    what = f"no memory was granted for {size(asked)}" if asked else "no memory was granted"
    advice = "raise the overcommit limit (vm.overcommit_memory) of the sandbox, or its memory"
    if event.syscall.startswith("mlock"):
        what, advice = "no more memory may be locked", "raise ulimit -l (RLIMIT_MEMLOCK)"
    elif event.limit is not None:
        used = f", {size(event.usage)} of which were in use" if event.usage else ""
        what += f": the address space is limited to {size(event.limit)}{used}"
        enough = size(max(event.limit, ((event.usage or 0) + asked) * 5 // 4))
        advice = f"raise ulimit -v (RLIMIT_AS) above {enough}, or use less at once"
    prior = 0.85
    if event.syscall == "mmap" and len(event.args) > 3 and event.args[3] & _MAP_HUGETLB:
        prior = 0.2  # who asks for huge pages is ready for small ones (mmap(2))
    if event.syscall in ("brk", "mremap"):
        # What these refuse is asked of mmap then. Without a limit there was a mapping in the way.
        prior = 0.2 if event.limit is not None else 0.01
    return _suspect(story, event, "memory.limit", prior, what, advice)


def _too_many_files(story: Story, event: Syscall) -> Suspect:
    if event.syscall.startswith("inotify"):
        what = "the limit on inotify instances is reached"
        advice = "raise fs.inotify.max_user_instances, or watch with fewer"
        return _suspect(story, event, "fs.open_files_limit", 0.85, what, advice)
    limit = f" (the limit is {event.limit})" if event.limit else ""
    what = f"too many files are open{limit}"
    advice = "raise ulimit -n, or close what is not needed"
    return _suspect(story, event, "fs.open_files_limit", 0.85, what, advice)


def _no_space(story: Story, event: Syscall) -> Suspect:
    if event.syscall.startswith("inotify"):
        what = "the limit on inotify watches is reached"
        advice = "raise fs.inotify.max_user_watches, or watch fewer files"
        return _suspect(story, event, "fs.open_files_limit", 0.85, what, advice)
    if event.syscall in ("unshare", "clone", "clone3", "setns"):
        what = "a limit on namespaces is reached"
        advice = "raise user.max_user_namespaces and its like (namespaces(7)) for the sandbox"
        return _suspect(story, event, "fork.process_limit", 0.85, what, advice)
    what, advice = "no space is left", "make the file system larger, or clean up"
    return _suspect(story, event, "fs.no_space", 0.85, what, advice)


def _over_quota(story: Story, event: Syscall) -> Suspect:
    return _suspect(story, event, "fs.quota", 0.85, "the quota is used up", "raise the quota")


def _no_such_address(story: Story, event: Syscall) -> Suspect:
    what = "this sandbox has no such address or address family"
    advice = "enable it in the sandbox, or use an address that it has (0.0.0.0, localhost)"
    # Any port of an address: that is how runtimes find out whether there is IPv6.
    prior = 0.2 if event.syscall == "bind" and event.port == 0 else 0.85
    return _suspect(story, event, "net.family_unsupported", prior, what, advice)


def _in_use(story: Story, event: Syscall) -> Dismissal:
    return Dismissal(event.id, "an address that is taken already is no fault of the sandbox")


_RULES: dict[str, Callable[[Story, Syscall], Suspect | Dismissal]] = {
    "EADDRINUSE": _in_use,
    "EADDRNOTAVAIL": _no_such_address,
    "EAFNOSUPPORT": _no_such_address,
    "ENOSYS": _unsupported,
    "ENOMEM": _no_memory,
    "EMFILE": _too_many_files,
    "ENFILE": _too_many_files,
    "ENOSPC": _no_space,
    "EDQUOT": _over_quota,
}
