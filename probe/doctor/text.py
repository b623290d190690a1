"""An examination, and a comparison, for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from probe.abi.capabilities import KNOWN, names
from probe.doctor.difference import ABSENT, Difference
from probe.doctor.findings import size
from probe.terminal import Terminal, escape

if TYPE_CHECKING:
    from probe.doctor.clock import Clock
    from probe.doctor.examination import Examination
    from probe.doctor.kernel import Kernel
    from probe.doctor.limits import Limits
    from probe.doctor.mounts import Mounts
    from probe.doctor.network import Network
    from probe.doctor.privileges import Privileges
    from probe.doctor.senses import Senses
    from probe.doctor.syscalls import Syscalls
    from probe.doctor.tools import Tools

_STYLES = {"high": "red", "medium": "yellow", "low": "dim"}
_LABEL = 12


def render(examination: Examination, terminal: Terminal) -> None:
    """The findings, then a line or two on each section."""
    found = examination.findings()
    if not found:
        terminal.line(terminal.style("nothing here is likely to break work", "green"))
    for finding in found:
        terminal.line(
            terminal.style(finding.severity, "bold", _STYLES[finding.severity]),
            terminal.style(f"  {finding.id}", "dim"),
        )
        terminal.text(finding.summary, "  ")
        terminal.text("→ " + finding.advice, "  ", "cyan")
    terminal.line()
    for name, lines in _SECTIONS.items():
        section = getattr(examination, name)
        _labelled(terminal, name, lines(section) if section.loss is None else [section.loss])
    _labelled(terminal, "not learned", _unknown(examination))


def render_differences(differences: list[Difference], terminal: Terminal) -> None:
    """One line each, worst first."""
    if not differences:
        terminal.line(terminal.style("no difference that matters", "green"))
    for one in differences:
        here, there = (_value(one.name, value) for value in (one.here, one.there))
        terminal.text(f"{one.name}: here {here}; there {there}")


def _labelled(terminal: Terminal, label: str, paragraphs: Iterable[str]) -> None:
    """Paragraphs beside a label in the margin."""
    import textwrap

    for paragraph in paragraphs:
        for line in textwrap.wrap(escape(paragraph), max(20, terminal.width - _LABEL)):
            terminal.line(terminal.style(label.ljust(_LABEL), "bold"), line)
            label = ""


def _unknown(examination: Examination) -> Iterator[str]:
    """Fields with the same reason together."""
    fields: dict[tuple[str, str], list[str]] = {}
    for name in _SECTIONS:
        section = getattr(examination, name)
        for field, why in section.unknown.items() if section.loss is None else ():
            fields.setdefault((name, why), []).append(field)
    for (name, why), learned in fields.items():
        yield f"{name} ({', '.join(learned)}): {why}"


def _value(name: str, value: Any) -> str:
    if value is None:
        return "none"
    if value == ABSENT and name.startswith("syscalls.refused."):
        return "allowed"
    sized = name.endswith(("_limit", ".size", ".memory")) and "pids" not in name
    if sized and isinstance(value, int) and not isinstance(value, bool):
        return size(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key} {one}" for key, one in value.items()) or "none"
    return str(value)


def _joined(*parts: str | None) -> str:
    return "; ".join(part for part in parts if part)


def _syscalls(section: Syscalls) -> Iterator[str]:
    if section.refused is None:
        yield f"seccomp {section.mode or 'mode unknown'}, table not learned"
        return
    if section.mode == "off":
        yield "no seccomp filter"
        return
    yield (
        f"seccomp filters: {section.filters or 'some'}; table learned by {section.learned}: "
        f"{len(section.allowed or [])} calls allowed, {len(section.refused)} refused, "
        f"{len(section.conditional or {})} conditional"
    )
    for answer in sorted(set(section.refused.values())):
        names = [name for name, told in section.refused.items() if told == answer]
        yield f"{answer}: {' '.join(sorted(names))}"
    for name, cases in (section.conditional or {}).items():
        yield f"{name}: " + ", ".join(f"{case or 'plain'} {told}" for case, told in cases.items())


def _privileges(section: Privileges) -> Iterator[str]:
    who = f"uid {section.uid} ({section.user or 'no name'}), gid {section.gid}"
    yield _joined(
        who,
        "no_new_privs" if section.no_new_privs else None,
        "in a user namespace of its own" if section.own_user_namespace else None,
        f"a new user namespace: {section.new_user_namespace or 'unknown'}",
        f"label {section.profile}" if section.profile else None,
        f"landlock {section.landlock}" if section.landlock else "no landlock",
    )
    if section.effective is not None:
        yield "capabilities: " + _capabilities(section.effective)


def _capabilities(held: list[str]) -> str:
    """The shorter way to say it."""
    missing = [name for name in names(KNOWN) if name not in held]
    if not missing or not held:
        return "all" if held else "none"
    few, what = (held, "only") if len(held) <= len(missing) else (missing, "all but")
    return f"{what} {' '.join(name.removeprefix('CAP_') for name in few)}"


def _limits(section: Limits) -> Iterator[str]:
    def limit(name: str, of: str, used: int | None = None) -> str | None:
        if name in section.unknown:
            return f"{of} unknown"
        found = getattr(section, name)
        value = "without limit" if found is None else _value(name, found)
        return f"{of} {value}" + (f" ({_value(name, used)} used)" if used is not None else "")

    yield _joined(
        f"cgroup v{section.cgroup_version}" if section.cgroup_version else "no cgroup in sight",
        limit("memory_limit", "memory", section.memory_used),
        limit("pids_limit", "pids", section.pids_used),
        limit("cpu_limit", "CPUs"),
    )
    shown = ("nofile", "nproc", "stack", "as", "core", "memlock")
    yield "ulimit: " + ", ".join(
        f"{name} {_value('', section.rlimits[name].soft).replace('none', 'unlimited')}"
        for name in shown
        if name in section.rlimits
    )


def _mounts(section: Mounts) -> Iterator[str]:
    for path in dict.fromkeys(place.mount for place in section.places.values() if place.exists):
        mount = (section.table or {}).get(path or "")
        if mount is not None:
            flags = [name for name in ("read_only", "noexec", "nosuid") if getattr(mount, name)]
            free = "room unknown"
            if mount.free is not None:
                free = f"{size(mount.free)} of {size(mount.size or 0)} free"
            yield _joined(
                f"{path}: {mount.fstype}",
                ", ".join(flags),
                free,
                f"{mount.free_inodes} inodes free" if mount.free_inodes is not None else None,
                f"survives a restart: {mount.survives} ({mount.judged})",
            )
    for field in ("writable", "executable"):
        places = {name: getattr(place, field) for name, place in section.places.items()}
        refused = ", ".join(name for name, allowed in places.items() if not allowed)
        yield f"{field}: all but {refused}" if refused else f"{field}: all places"


def _network(section: Network) -> Iterator[str]:
    for name, interface in (section.interfaces or {}).items():
        if interface.up or name == "lo":
            state = "" if interface.up else " (down)"
            yield f"{name}{state}: {', '.join(interface.addresses) or 'no address'}"
    routes = section.routes or {}
    ways = [f"{to} {routes[to]}" for to in ("0.0.0.0/0", "::/0") if to in routes]
    servers = (f"{one} {answer}" for one, answer in (section.name_servers or {}).items())
    yield _joined(
        "; ".join(ways) or "no default route",
        "resolver " + (", ".join(servers) or "none"),
        *(f"{name}={value}" for name, value in section.proxies.items()),
        *(f"{target}: {answer}" for target, answer in section.reached.items()),
    )


def _clock(section: Clock) -> Iterator[str]:
    yield _joined(
        f"{section.now}, time zone {section.timezone}",
        None
        if section.synchronised is None
        else f"synchronised: {_value('', section.synchronised)}",
    )


def _kernel(section: Kernel) -> Iterator[str]:
    yield _joined(
        f"{section.kind} {section.release} {section.machine}",
        section.distribution,
        section.libc,
        f"{section.cpus} CPUs",
        size(section.memory) if section.memory else None,
        f"in {section.container}" if section.container else None,
    )


def _tools(section: Tools) -> Iterator[str]:
    yield ", ".join(
        f"{name} {tool.version}" if tool.version else name for name, tool in section.tools.items()
    )
    for what, packages in (("python", section.python), ("node", section.node)):
        if packages is not None:
            state = "writable" if packages.writable else "not writable"
            yield f"{what} packages: {packages.packages} ({state})"


def _senses(section: Senses) -> Iterator[str]:
    shut = [f"{sense} {state}" for sense, state in section.senses.items() if state != "full"]
    if section.engine == "none":
        shut = [next(iter(section.senses.values()))]
    agent = "an agent runs" if section.agent else "no agent"
    yield _joined(f"engine {section.engine}, {agent}", *shut)


_SECTIONS: dict[str, Callable[..., Iterator[str]]] = {
    "syscalls": _syscalls,
    "privileges": _privileges,
    "limits": _limits,
    "mounts": _mounts,
    "network": _network,
    "clock": _clock,
    "kernel": _kernel,
    "tools": _tools,
    "senses": _senses,
}
