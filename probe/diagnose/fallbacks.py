"""What callers are known to do when a syscall is refused. Data, with its sources.

A family is a set of calls of which callers take another member when one is
refused: that success follows a refusal in the same thread shows that it did no
harm. Members that only start a family are no proof of success themselves.
"""

from __future__ import annotations

_FAMILIES: tuple[frozenset[str], ...] = tuple(
    frozenset(family.split())
    for family in (
        "clone3 clone fork vfork",  # glibc 2.34: clone3 ENOSYS falls back to clone
        "faccessat2 faccessat access",  # musl 1.2.3 and glibc 2.33 faccessat()
        "statx newfstatat fstatat64 stat lstat fstat",  # glibc, coreutils, libuv
        "openat2 openat open",  # runc, systemd chase()
        "close_range close",  # Python subprocess, OpenSSH closefrom
        "copy_file_range sendfile splice write pwrite64",  # coreutils, Go, Python shutil
        "io_uring_setup epoll_create1 epoll_create",  # libuv, liburing users
        "renameat2 renameat rename",
        "preadv2 preadv pread64",
        "pwritev2 pwritev pwrite64",
        "pidfd_open pidfd_send_signal kill wait4 waitid",
        "getrandom openat open",  # /dev/urandom
        "memfd_create openat open",
        "fchmodat2 fchmodat chmod",
        "epoll_pwait2 epoll_pwait epoll_wait",
        "futex_waitv futex",
        "sendmmsg sendmsg sendto",
        "recvmmsg recvmsg recvfrom",
        "accept4 accept",
        "dup3 dup2",
        "pipe2 pipe",
        "prlimit64 getrlimit setrlimit",
    )
)

# Calls that start a thread or report to the kernel and whose refusal no caller minds.
HARMLESS = frozenset(
    {
        "rseq",  # glibc 2.35 goes without
        "set_robust_list",
        "membarrier",
        "get_mempolicy",
        "set_mempolicy",
        "mbind",
        "madvise",
        "prctl",
        "sched_setaffinity",
        "sched_getattr",
        "ioprio_set",
        "ioprio_get",
        "io_uring_setup",
    }
)


def substitutes(syscall: str) -> frozenset[str]:
    """The calls whose success after a refusal shows that the caller found another way."""
    found: set[str] = set()
    for family in _FAMILIES:
        if syscall in family:
            found |= family
    return frozenset(found - {syscall})
