"""File systems: where things can be written and run, how much room there is, and what stays."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from probe.context import mount as mountinfo
from probe.context.mount import Entry
from probe.doctor.section import Learner, Section, fact, passing

_IN_MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"})
# File systems that hold no files of anybody's, but show the kernel.
_KERNELS_OWN = frozenset(
    "autofs binfmt_misc bpf cgroup cgroup2 configfs debugfs devpts efivarfs fusectl mqueue nsfs "
    "proc pstore rpc_pipefs securityfs selinuxfs sysfs tracefs".split()
)
_DEVICES = "null zero full random urandom tty ptmx fd stdin stdout stderr".split()
_PATIENCE_S = 1.0
_NO_LIMIT = 1 << 60  # gVisor says so of file systems in memory


@dataclass
class Mount:
    fstype: str = fact(0.2, "type of file system")
    source: str = passing("what is mounted")
    root: str = passing("the directory of that file system which is seen here")
    read_only: bool = fact(0.7, "nothing can be written (here, or in the whole file system)")
    noexec: bool = fact(0.6, "nothing can be started")
    nosuid: bool = fact(0.2, "set-user-ID has no effect")
    nodev: bool = fact(0.1, "device files have no effect")
    size: int | None = fact(0.2, "bytes; none where it is not known, or has no limit")
    free: int | None = passing("bytes free for this user")
    inodes: int | None = fact(0.1, "how many files there can be; none where that is not fixed")
    free_inodes: int | None = passing("how many more files")
    survives: str = fact(0.3, "a restart of the sandbox: `yes`, `no` or `unknown`")
    judged: str = fact(0.0, "by what")


@dataclass
class Place:
    path: str = passing("where it is, links followed")
    mount: str | None = fact(0.2, "the mount that it lies on")
    exists: bool = fact(0.7, "whether it is there")
    writable: bool = fact(0.7, "whether this user can write there")
    executable: bool = fact(0.5, "whether programs there can be started")


@dataclass
class Mounts(Section):
    places: dict[str, Place] = fact(0.7, "directories that work relies on")
    table: dict[str, Mount] | None = fact(0.3, "by mount point, the kernel's own left out")
    missing_devices: list[str] = fact(0.6, "of those that programs expect in /dev")


def examine() -> Mounts:
    learner = Learner()
    entries = learner.learn("table", mountinfo.entries)
    return Mounts(
        places={name: _place(path, entries or []) for name, path in _places()},
        table=None if entries is None else dict(_table(entries)),
        missing_devices=[name for name in _DEVICES if not os.path.lexists(f"/dev/{name}")],
        unknown=learner.unknown,
    )


def _places() -> Iterator[tuple[str, str]]:
    yield from ((path, path) for path in ("/", "/tmp", "/var/tmp", "/dev/shm", "/run"))
    yield "home", os.path.expanduser("~")
    yield "working directory", _working_directory()
    yield "temporary files", _temporary()


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return ""


def _temporary() -> str:
    """Where Python, like most, puts them: the first of $TMPDIR, /tmp … that takes a file."""
    try:
        return tempfile.gettempdir()
    except OSError:
        return ""


def _place(path: str, entries: list[Entry]) -> Place:
    resolved = os.path.realpath(path) if path else ""
    entry = mountinfo.holding(resolved, entries) if resolved else None
    exists = bool(resolved) and os.path.isdir(resolved)
    room = _room(resolved) if exists else None
    return Place(
        path=resolved,
        mount=entry.path if entry else None,
        exists=exists,
        # access(2) asks the kernel, which knows capabilities, ACLs and read-only mounts.
        writable=exists and os.access(resolved, os.W_OK | os.X_OK),
        executable=room is not None and not _is_noexec(room, entry),
    )


def _is_noexec(room: os.statvfs_result, entry: Entry | None) -> bool:
    """Not every kernel tells by statvfs(3): gVisor does not."""
    return bool(room.f_flag & os.ST_NOEXEC) or (entry is not None and "noexec" in entry.options)


def _table(entries: list[Entry]) -> Iterator[tuple[str, Mount]]:
    shown = {entry.path: entry for entry in entries if _holds_files(entry)}
    for path, entry in sorted(shown.items()):
        yield path, _mount(entry, shown.get("/"))


def _mount(entry: Entry, root: Entry | None) -> Mount:
    survives, judged = _survival(entry, root)
    return Mount(
        fstype=entry.fstype,
        source=entry.source,
        root=entry.root,
        read_only="ro" in entry.options | entry.super_options,
        noexec="noexec" in entry.options,
        nosuid="nosuid" in entry.options,
        nodev="nodev" in entry.options,
        survives=survives,
        judged=judged,
        **_sizes(_room(entry.path)),
    )


def _sizes(room: os.statvfs_result | None) -> dict[str, int | None]:
    found: dict[str, int | None] = dict.fromkeys(("size", "free", "inodes", "free_inodes"))
    if room is not None and room.f_blocks * room.f_frsize < _NO_LIMIT:
        found.update(size=room.f_blocks * room.f_frsize, free=room.f_bavail * room.f_frsize)
    if room is not None and room.f_files:
        found.update(inodes=room.f_files, free_inodes=room.f_favail)
    return found


def _holds_files(entry: Entry) -> bool:
    """What lies below /proc and /sys hides something of the kernel's there."""
    return entry.fstype not in _KERNELS_OWN and not entry.path.startswith(("/proc/", "/sys/"))


def _survival(entry: Entry, root: Entry | None) -> tuple[str, str]:
    """What is written there: is it still there when the sandbox is started anew?"""
    if entry.fstype in _IN_MEMORY:
        return "no", f"{entry.fstype} is memory"
    if entry.fstype == "overlay":
        upper = next((o for o in entry.super_options if o.startswith("upperdir=")), None)
        if upper is None:
            return "no", "an overlay without an upper layer takes no writes"
        return "no", "the upper layer of an overlay goes with its container"
    if root is not None and entry is not root and entry.fstype != root.fstype:
        return "yes", f"a volume: {entry.fstype} of its own"
    if entry.root != "/" and entry is root:
        return "unknown", f"{entry.root} outside, which may go with the sandbox"
    if entry.root != "/":
        return "yes", f"a bind mount of {entry.root} outside"
    if entry.source.startswith("/dev/"):
        return "yes", f"the disk {entry.source}"
    return "unknown", f"nothing is known of {entry.fstype}"


def _room(path: str) -> os.statvfs_result | None:
    """statvfs(3), which a dead server keeps waiting for ever: then it is not known."""
    found: list[os.statvfs_result] = []

    def look() -> None:
        try:
            found.append(os.statvfs(path))
        except OSError:
            return

    looking = threading.Thread(target=look, daemon=True)
    try:
        looking.start()
        looking.join(_PATIENCE_S)
    except RuntimeError:  # no thread can be had
        look()
    return found[0] if found else None
