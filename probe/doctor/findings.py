"""Rules: from what a section says to what it is likely to break, and what to do about it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from probe import abi
from probe.coverage import LOOKING
from probe.doctor.dependents import DEPENDENTS, USUALLY_REFUSED
from probe.doctor.tools import EXPECTED

if TYPE_CHECKING:
    from probe.doctor.clock import Clock
    from probe.doctor.kernel import Kernel
    from probe.doctor.limits import Limits
    from probe.doctor.mounts import Mount, Mounts, Place
    from probe.doctor.network import Network
    from probe.doctor.privileges import Privileges
    from probe.doctor.section import Section
    from probe.doctor.senses import Senses
    from probe.doctor.syscalls import Syscalls
    from probe.doctor.tools import Tools
    from probe.events import JsonObject

SEVERITIES = {"high": 0.6, "medium": 0.3, "low": 0.0}  # each from which likelihood on
_FIRST_RECENT = 424  # pidfd_send_signal
_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30


@dataclass(frozen=True)
class Finding:
    """`likelihood` is how likely it breaks work of which nothing else is known (0 to 1)."""

    id: str
    likelihood: float
    summary: str
    advice: str

    @property
    def severity(self) -> str:
        return next(name for name, least in SEVERITIES.items() if self.likelihood >= least)

    def as_json(self) -> JsonObject:
        return {**dataclasses.asdict(self), "severity": self.severity}


def findings(sections: Mapping[str, Section]) -> list[Finding]:
    """What all rules find in an examination, the likeliest to break work first."""
    found: list[Finding] = []
    for rule, name in _RULES:
        section = sections[name]
        found += rule(section) if section.loss is None else [_lost(name, section.loss)]
    return sorted(found, key=lambda finding: -finding.likelihood)


def _lost(name: str, why: str) -> Finding:
    return Finding(
        f"{name}.unseen",
        0.3,
        f"nothing could be learned of the {name}: {why}",
        "let the seccomp profile answer with an errno instead of killing",
    )


def size(count: int) -> str:
    """`64 MiB`: bytes for people."""
    for unit, name in ((_GIB, "GiB"), (_MIB, "MiB"), (_KIB, "KiB")):
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return f"{count} bytes"


def _listed(names: Iterable[str], most: int = 5) -> str:
    """`a, b and c`; `a, b and 3 more`."""
    *first, last = [*names] or [""]
    if len(first) >= most:
        first, last = first[:most], f"{len(first) + 1 - most} more"
    return f"{', '.join(first)} and {last}" if first else last


def _syscalls(section: Syscalls) -> Iterator[Finding]:
    refused = section.refused or {}
    broken = {
        one: calls
        for one in DEPENDENTS
        if (calls := tuple(name for name in one.needs if name in refused))
    }
    likely = [one for one in broken if one.likelihood >= SEVERITIES["medium"]]
    groups = [
        [one for one in likely if broken[one] == calls] for calls in {*map(broken.get, likely)}
    ]
    # What few need is told together.
    for group in (*groups, [one for one in broken if one not in likely]):
        names = list(dict.fromkeys(name for one in group for name in broken[one]))
        if names:
            answers = _listed(dict.fromkeys(refused[name] for name in names))
            yield Finding(
                "syscalls.refused",
                max(one.likelihood for one in group),
                f"the seccomp filter refuses {_listed(names)} ({answers}), needed by "
                + _listed((one.program for one in group), 4),
                f"allow {_listed(names)} in the sandbox's seccomp profile, or do without",
            )
    needed = {name for calls in broken.values() for name in calls}
    replaced = {name for name in refused if refused[name] == "ENOSYS" and _is_recent(name)}
    unusual = sorted(refused.keys() - USUALLY_REFUSED - needed - replaced)
    if unusual:
        yield Finding(
            "syscalls.unusual",
            0.6,
            f"the seccomp filter refuses {_listed(unusual)}, which sandboxes usually allow",
            "allow them in the sandbox's seccomp profile",
        )
    fatal = sorted(name for name, answer in refused.items() if answer in ("kill", "trap"))
    if fatal:
        yield Finding(
            "syscalls.fatal",
            0.25,
            f"a program that calls {_listed(fatal)} is killed, without a chance to do without",
            "let the seccomp profile answer ENOSYS or EPERM instead",
        )


def _is_recent(call: str) -> bool:
    """Since Linux 5.1 calls have the same number everywhere; programs do without them, if told
    by ENOSYS that the kernel is older."""
    return abi.syscall_numbers(abi.machine()).get(call, 0) >= _FIRST_RECENT


def _privileges(section: Privileges) -> Iterator[Finding]:
    if section.user is None and "user" not in section.unknown:
        yield Finding(
            "privileges.nameless",
            0.35,
            f"the user {section.uid} has no entry in /etc/passwd, which git, ssh and npm ask for",
            "add one to the image, or mount a passwd file that has it",
        )
    if section.uid != 0:
        without = ", and no set-user-ID program can help" if section.no_new_privs else ""
        yield Finding(
            "privileges.not_root",
            0.3,
            f"the user {section.uid} is not root, so system packages cannot be installed{without}",
            "put what is needed into the image",
        )
    elif section.effective is not None:
        yield from _capabilities(section.effective)
    mapped = sum(int(line.split()[2]) for line in section.uid_map or [])
    if section.own_user_namespace and mapped < 1000:
        yield Finding(
            "privileges.few_users",
            0.35,
            f"only {mapped} user ids exist in this user namespace, so chown to others fails "
            "(apt, tar as root, su)",
            "map a range of ids (newuidmap, /etc/subuid)",
        )
    if section.new_user_namespace not in ("allowed", None):
        yield Finding(
            "privileges.user_namespaces",
            0.2,
            f"no user namespace can be made ({section.new_user_namespace}): "
            "Chromium's sandbox, bubblewrap and rootless containers need one",
            "allow unshare(CLONE_NEWUSER), or start Chromium with --no-sandbox",
        )


_NEEDED_OF_ROOT = {
    "CAP_DAC_OVERRIDE": (0.5, "root cannot write other users' files"),
    "CAP_CHOWN": (0.45, "root cannot give files away (apt, tar, install -o)"),
    "CAP_SETUID": (0.45, "root cannot become another user (apt, su, sudo, servers)"),
    "CAP_SETGID": (0.45, "root cannot change its groups (apt, su, sudo, servers)"),
    "CAP_FOWNER": (0.3, "root cannot change the mode of other users' files"),
    "CAP_KILL": (0.2, "root cannot end other users' processes"),
    "CAP_NET_BIND_SERVICE": (0.15, "root cannot bind ports below 1024"),
    "CAP_NET_RAW": (0.1, "ping and raw sockets do not work"),
    "CAP_SYS_PTRACE": (0.1, "root cannot debug other users' processes"),
}


def _capabilities(effective: list[str]) -> Iterator[Finding]:
    for name, (likelihood, consequence) in _NEEDED_OF_ROOT.items():
        if name not in effective:
            yield Finding(
                "privileges.capability",
                likelihood,
                f"{name} is not there: {consequence}",
                f"add {name} to the sandbox, or do without",
            )


def _limits(section: Limits) -> Iterator[Finding]:
    yield from _memory(section)
    yield from _pids(section)
    if section.cpu_limit is not None and section.cpu_limit < 1:
        yield Finding(
            "limits.cpu",
            0.25,
            f"there is {section.cpu_limit:.2g} of a CPU, so time limits may be too short",
            "raise the CPU quota, or the time limits",
        )
    for name, least, likelihood, consequence in _RLIMITS:
        limit = section.rlimits.get(name)
        if limit is not None and limit.soft is not None and limit.soft < least:
            yield Finding(
                f"limits.{name}",
                likelihood,
                f"RLIMIT_{name.upper()} is {limit.soft}: {consequence}",
                f"raise it, up to {'any value' if limit.hard is None else limit.hard} "
                "with ulimit, beyond that where the sandbox is made",
            )


_NEVER = 1 << 62
_RLIMITS = (
    ("nofile", 1024, 0.5, "few files and sockets can be open at once (EMFILE)"),
    ("nproc", 256, 0.4, "few processes and threads can be started (EAGAIN)"),
    ("as", 8 << 30, 0.5, "Java, Go and Node reserve more address space than that (ENOMEM)"),
    ("data", 2 << 30, 0.4, "little memory can be had (ENOMEM)"),
    ("stack", 1 << 20, 0.3, "deep recursion ends in SIGSEGV"),
    ("fsize", _NEVER, 0.4, "a file that grows beyond it ends its writer (SIGXFSZ)"),
    ("cpu", _NEVER, 0.4, "a process that has used so many seconds of CPU is killed (SIGXCPU)"),
)


def _memory(section: Limits) -> Iterator[Finding]:
    limit, used = section.memory_limit, section.memory_used
    if limit is not None and limit < 2 * _GIB:
        yield Finding(
            "limits.memory",
            0.7 if limit < 512 * _MIB else 0.35,
            f"the cgroup may have {size(limit)} of memory, "
            "less than compilers, browsers and Java take (exit 137)",
            "raise the memory limit of the sandbox",
        )
    if limit is not None and used is not None and used > 0.85 * limit:
        yield Finding(
            "limits.memory_used",
            0.5,
            f"{size(used)} of the {size(limit)} of memory are in use, page cache included",
            "end what is not needed, or raise the memory limit of the sandbox",
        )
    if section.oom_kills:
        yield Finding(
            "limits.oom",
            0.6,
            f"the OOM killer has ended processes of this cgroup ({section.oom_kills})",
            "raise the memory limit of the sandbox",
        )


def _pids(section: Limits) -> Iterator[Finding]:
    limit, used = section.pids_limit, section.pids_used
    if limit is not None and limit < 512:
        yield Finding(
            "limits.pids",
            0.7 if limit < 100 else 0.3,
            f"the cgroup may have {limit} processes and threads, "
            "fewer than builds and browsers start (EAGAIN)",
            "raise the pids limit of the sandbox",
        )
    if limit is not None and used is not None and used > 0.8 * limit:
        yield Finding(
            "limits.pids_used",
            0.75,
            f"{used} of the {limit} processes and threads are in use",
            "end what is not needed, or raise the pids limit of the sandbox",
        )


# Place: how likely work breaks without it, without writing there, without starting things there.
_PLACES = {
    "/": (0.0, 0.1, 0.9),
    "/tmp": (0.9, 0.9, 0.35),
    "/var/tmp": (0.1, 0.15, 0.0),
    "/dev/shm": (0.4, 0.4, 0.0),
    "home": (0.5, 0.5, 0.35),
    "working directory": (0.5, 0.5, 0.5),
    "temporary files": (0.95, 0.0, 0.0),
}


def _mounts(section: Mounts) -> Iterator[Finding]:
    for name, (absent, read_only, noexec) in _PLACES.items():
        yield from _place(name, section.places[name], absent, read_only, noexec)
    for path, places in _by_mount(section).items():
        yield from _room(path, (section.table or {})[path], places)
    shm = (section.table or {}).get("/dev/shm")
    if shm is not None and shm.size is not None and shm.size <= 64 * _MIB:
        yield Finding(
            "mounts.shared_memory",
            0.4,
            f"/dev/shm has {size(shm.size)}: browsers, PostgreSQL and PyTorch end in SIGBUS there",
            "give it more (--shm-size=1g), or start Chromium with --disable-dev-shm-usage",
        )
    if section.missing_devices:
        vital = {"null", "zero", "urandom"} & set(section.missing_devices)
        yield Finding(
            "mounts.devices",
            0.9 if vital else 0.4,
            f"/dev has no {_listed(section.missing_devices)}",
            "mount a /dev with the usual devices into the sandbox",
        )
    if section.table is None:
        yield Finding(
            "mounts.no_proc",
            0.8,
            f"/proc tells nothing ({section.unknown['table']}), and much reads it: ps, Java, Go",
            "mount proc on /proc in the sandbox",
        )


def _place(
    name: str, place: Place, absent: float, read_only: float, noexec: float
) -> Iterator[Finding]:
    what = place.path if name == place.path else f"{place.path or '?'} ({name})"
    if not place.exists and absent:
        yield Finding(
            "mounts.absent",
            absent,
            f"{what} is not there",
            "make it, or mount a tmpfs or a volume there",
        )
    elif place.exists and not place.writable and read_only:
        yield Finding(
            "mounts.not_writable",
            read_only,
            f"nothing can be written to {what}",
            f"mount a tmpfs or a volume there, or change its owner: {name}",
        )
    if place.exists and not place.executable and noexec:
        yield Finding(
            "mounts.noexec",
            noexec,
            f"nothing can be started from {what}: built programs, installers, native modules",
            "mount it without noexec, or build and run elsewhere (TMPDIR)",
        )


def _by_mount(section: Mounts) -> dict[str, list[str]]:
    """The mounts that something is to be written to, with the places there."""
    found: dict[str, list[str]] = {}
    for name, place in section.places.items():
        if place.writable and place.mount in (section.table or {}):
            found.setdefault(place.mount or "", []).append(name)
    return found


def _room(path: str, mount: Mount, places: list[str]) -> Iterator[Finding]:
    what = f"{path} ({', '.join(places)})" if places != [path] else path
    if mount.free is not None and mount.size and mount.free < _GIB and path != "/dev/shm":
        tight = mount.free < 64 * _MIB
        if path != "/run" or tight:
            yield Finding(
                "mounts.room",
                0.7 if tight else 0.3,
                f"{size(mount.free)} of {size(mount.size)} are free on {what}",
                "make the file system larger, or clean up",
            )
    if mount.free_inodes is not None and mount.free_inodes < 1000:
        yield Finding(
            "mounts.inodes",
            0.7,
            f"{mount.free_inodes} more files fit on {what}, however much room there is",
            "make the file system with more inodes, or clean up",
        )
    lost = [name for name in ("home", "working directory") if name in places]
    if mount.survives == "no" and lost:
        yield Finding(
            "mounts.survival",
            0.05,
            f"{path} ({', '.join(lost)}) does not survive a restart: {mount.judged}",
            "keep results on a volume",
        )


def _network(section: Network) -> Iterator[Finding]:
    for family, likelihood in (("unix", 0.9), ("ipv4", 0.9), ("netlink", 0.15), ("ipv6", 0.1)):
        if family not in section.families:
            yield Finding(
                "network.family",
                likelihood,
                f"no {family} socket can be made",
                f"allow the address family {family} in the sandbox",
            )
    loopback = (section.interfaces or {}).get("lo")
    if section.interfaces is not None and (loopback is None or not loopback.up):
        yield Finding(
            "network.loopback",
            0.7,
            "the loopback interface is not up, so no local server can be reached",
            "ip link set lo up, where the sandbox is made",
        )
    cut_off = section.default_routes == []
    if cut_off:
        yield Finding(
            "network.no_route",
            0.6,
            "no route leads out of this sandbox: downloads and remote services fail",
            "give the sandbox a network, or put what it needs into the image",
        )
    yield from _resolver(section, cut_off)
    for target, answer in section.reached.items():
        if answer != "connected":
            proxy = target in section.proxies.values()
            yield Finding(
                "network.unreachable",
                0.8,
                f"{'the proxy ' if proxy else ''}{target} cannot be reached: {answer}",
                "correct the proxy variables" if proxy else "open the way, or start the service",
            )


def _resolver(section: Network, cut_off: bool) -> Iterator[Finding]:
    servers = section.name_servers
    silent = [one for one, answer in (servers or {}).items() if answer != "answers"]
    if not servers and not cut_off:
        yield Finding(
            "network.no_resolver",
            0.6,
            "no name server is configured, so no host name can be resolved",
            "write a nameserver line to /etc/resolv.conf",
        )
    elif silent and servers and not (cut_off and not any(map(_is_loopback, silent))):
        yield Finding(
            "network.resolver",
            0.65 if len(silent) == len(servers) else 0.35,
            "name servers do not answer: " + _listed(f"{one} ({servers[one]})" for one in silent),
            "correct /etc/resolv.conf, or open port 53 to it",
        )
    if not section.localhost:
        yield Finding(
            "network.localhost",
            0.4,
            "/etc/hosts does not name localhost",
            "add the lines for 127.0.0.1 and ::1",
        )


def _is_loopback(server: str) -> bool:
    return server.startswith("127.") or server == "::1"


def _clock(section: Clock) -> Iterator[Finding]:
    if section.behind_s > 3600:
        yield Finding(
            "clock.behind",
            0.7,
            f"the clock is at least {section.behind_s / 3600:.0f} hours behind ({section.now}), "
            "so certificates are not valid yet and builds see files from the future",
            "set the clock of the host",
        )
    if section.faked_by:
        yield Finding(
            "clock.faked",
            0.4,
            f"{section.faked_by} makes up the time",
            "take it out of LD_PRELOAD where the time must be right",
        )


def _tools(section: Tools) -> Iterator[Finding]:
    missing = [name for name in EXPECTED if name not in section.tools]
    if missing:
        yield Finding(
            "tools.missing",
            0.5 if {"sh", "bash"} & set(missing) else 0.4,
            f"{_listed(missing)} cannot be found on PATH",
            "install them in the image, or correct PATH",
        )
    if section.encoding.upper().replace("-", "") != "UTF8":
        yield Finding(
            "tools.encoding",
            0.35,
            f"text is {section.encoding}, so programs trip over anything beyond it",
            "set LANG=C.UTF-8",
        )
    if section.python is not None and not section.python.writable:
        yield Finding(
            "tools.python_packages",
            0.3,
            f"pip cannot install to {section.python.packages}: it is not writable",
            "use a virtual environment, or pip install --user",
        )
    elif section.python is not None and section.python.managed:
        yield Finding(
            "tools.python_managed",
            0.3,
            "pip refuses to install: the distribution manages this Python (PEP 668)",
            "use a virtual environment, or set PIP_BREAK_SYSTEM_PACKAGES=1 in the image",
        )
    if section.node is not None and not section.node.writable:
        yield Finding(
            "tools.node_packages",
            0.2,
            f"npm install --global cannot write to {section.node.packages}",
            "set NPM_CONFIG_PREFIX to a directory of the user's",
        )
    if section.preload and "faketime" not in section.preload:
        yield Finding(
            "tools.preload",
            0.15,
            f"LD_PRELOAD puts {section.preload} into every program",
            "unset it where programs behave oddly",
        )


def _kernel(section: Kernel) -> Iterator[Finding]:
    if section.kind != "linux":
        yield Finding(
            "kernel.other",
            0.25,
            f"{section.kind} answers syscalls in Linux's stead, and not all of them",
            "look for unimplemented calls in the log of the sandbox",
        )


def _senses(section: Senses) -> Iterator[Finding]:
    if section.engine == "none" and not section.agent:
        why = next(iter(section.senses.values())).removeprefix("none: ")
        yield Finding(
            "senses.blind",
            0.02,
            f"failures here cannot be explained by the probe: {why}",
            section.mend or "run an agent where the probe may watch",
        )
    elif section.engine in LOOKING and not section.agent:
        yield Finding(
            "senses.half_blind",
            0.01,
            f"most refusals here cannot be seen by the probe: the {section.engine} engine "
            "is all that can run",
            section.mend or "run an agent where the probe may watch",
        )


_RULES: tuple[tuple[Callable[..., Iterator[Finding]], str], ...] = (
    (_syscalls, "syscalls"),
    (_privileges, "privileges"),
    (_limits, "limits"),
    (_mounts, "mounts"),
    (_network, "network"),
    (_clock, "clock"),
    (_tools, "tools"),
    (_kernel, "kernel"),
    (_senses, "senses"),
)
