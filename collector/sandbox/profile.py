"""What a sandbox allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Profile:
    """What a sandbox allows. Memory in bytes; `seccomp` maps syscalls to an errno or an action."""

    driver: str = "bubblewrap"  # or runc, podman: those have a root of their own
    seccomp: Mapping[str, str] = field(default_factory=dict)
    seccomp_default: str = "ALLOW"
    memory: int | None = None
    pids: int | None = None
    network: str = "host"  # host, none (no interface but lo), or loopback (lo, up)
    firewall: str | None = None  # an nftables ruleset for a network of its own
    nameserver: Sequence[str] | None = None  # a command that serves names on 127.0.0.1:53
    read_only: Sequence[str] = ()
    tmpfs: Mapping[str, int] = field(default_factory=dict)  # mount point: size
    noexec: Sequence[str] = ()  # of these mount points, where nothing may be executed
    user: int | None = None
    landlock: Sequence[str] | None = None  # the only directories that may be written
    shared: Sequence[str] = ()  # of the host's directories, by the same path inside, writable
    capabilities: Sequence[str] | None = None  # CAP_*; None: what the driver gives by itself
