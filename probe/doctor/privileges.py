"""Who this process is, and what it may do: users, capabilities, namespaces, security modules."""

from __future__ import annotations

import ctypes
import errno
import os
import pwd
from dataclasses import dataclass

from probe import abi
from probe.abi import capabilities
from probe.doctor.section import (
    Learner,
    Section,
    attempt,
    fact,
    passing,
    read,
    reason,
    sysctls,
)

_CLONE_NEWUSER = 0x10000000
_VERSION = 1  # LANDLOCK_CREATE_RULESET_VERSION
_PR_GET_NO_NEW_PRIVS = 39  # prctl(2)
_WHOLE_MAP = ["0 0 4294967295"]
_SYSCTLS = (
    "kernel.yama.ptrace_scope",
    "kernel.perf_event_paranoid",
    "kernel.unprivileged_bpf_disabled",
    "kernel.unprivileged_userns_clone",
    "kernel.apparmor_restrict_unprivileged_userns",
    "kernel.dmesg_restrict",
    "kernel.kptr_restrict",
    "user.max_user_namespaces",
)
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass
class Privileges(Section):
    uid: int = fact(0.5, "the effective user")
    gid: int = fact(0.2, "the effective group")
    groups: list[int] = fact(0.1, "the supplementary groups")
    user: str | None = fact(0.4, "the user's name; none where no passwd entry has this uid")
    effective: list[str] | None = fact(0.6, "capabilities in effect (capabilities(7))")
    bounding: list[str] | None = fact(0.3, "capabilities that a program may gain at exec")
    no_new_privs: bool | None = fact(0.4, "whether set-user-ID programs stay without effect")
    uid_map: list[str] | None = fact(0.4, "lines of user_namespaces(7): inside, outside, count")
    own_user_namespace: bool | None = fact(0.2, "whether this is not the first user namespace")
    new_user_namespace: str | None = fact(0.5, "`allowed`, or the errno of unshare(CLONE_NEWUSER)")
    lsms: list[str] | None = fact(0.1, "active security modules")
    profile: str | None = fact(0.3, "the security module's label of this process")
    landlock: int | None = fact(0.1, "the kernel's landlock ABI; 0 for none")
    settings: dict[str, str] = fact(0.2, "kernel settings about privileges")
    pid: int = passing("of the process that looked")


def examine() -> Privileges:
    learner = Learner()
    fields = learner.learn("effective", _status)
    uid_map = learner.learn("uid_map", _uid_map)
    if fields is None:
        learner.unknown["bounding"] = learner.unknown["effective"]
    return Privileges(
        uid=os.geteuid(),
        gid=os.getegid(),
        groups=sorted(os.getgroups()),
        user=learner.learn("user", _user),
        effective=capabilities.names(int(fields["CapEff"], 16)) if fields else None,
        bounding=capabilities.names(int(fields["CapBnd"], 16)) if fields else None,
        no_new_privs=learner.learn("no_new_privs", lambda: bool(attempt(_no_new_privs))),
        uid_map=uid_map,
        own_user_namespace=None if uid_map is None else uid_map != _WHOLE_MAP,
        new_user_namespace=learner.learn("new_user_namespace", _new_user_namespace),
        lsms=learner.learn("lsms", lambda: read("/sys/kernel/security/lsm").split(",")),
        profile=learner.learn("profile", _profile),
        landlock=learner.learn("landlock", _landlock),
        settings=sysctls(*_SYSCTLS),
        pid=os.getpid(),
        unknown=learner.unknown,
    )


def status() -> dict[str, str] | None:
    """/proc/self/status (proc(5)) by name; None where it cannot be read."""
    try:
        return _status()
    except OSError:
        return None


def _status() -> dict[str, str]:
    lines = (line.partition(":") for line in read("/proc/self/status").splitlines())
    return {name: value.strip() for name, _, value in lines}


def _user() -> str | None:
    def known() -> int:
        try:
            return len(pwd.getpwuid(os.geteuid()).pw_name)
        except KeyError:
            return 0

    # The C library may ask a daemon, for which it makes a socket.
    return pwd.getpwuid(os.geteuid()).pw_name if attempt(known) else None


def _no_new_privs() -> int:
    return int(_libc.prctl(_PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0))


def _uid_map() -> list[str]:
    return [" ".join(line.split()) for line in read("/proc/self/uid_map").splitlines()]


def _profile() -> str:
    return read("/proc/self/attr/current").rstrip("\0")


def _landlock() -> int:
    """landlock_create_ruleset(2) asked for its version."""
    number = abi.syscall_numbers(abi.machine())["landlock_create_ruleset"]
    try:
        return attempt(lambda: _libc.syscall(number, None, ctypes.c_size_t(0), _VERSION))
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EOPNOTSUPP):
            return 0
        raise


def _new_user_namespace() -> str:
    """Only trying tells: modules, settings, filters and nesting all have a say."""
    try:
        attempt(lambda: _libc.unshare(_CLONE_NEWUSER), alters=True)
    except BlockingIOError:  # no child can be had
        raise
    except OSError as error:
        return abi.errno_name(error.errno) if error.errno else reason(error)
    return "allowed"
