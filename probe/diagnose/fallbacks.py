"""What callers are known to do when a syscall is refused. Data, each with its source.

Pairs that are not here are judged by what happened alone (probe.diagnose.story).
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from probe.events import Seccomp, Syscall


@dataclass(frozen=True, slots=True)
class Family:
    """Calls of which a caller takes another one when one is refused.

    That a later member succeeds in the same thread shows that the refusal did no harm.
    """

    calls: frozenset[str]
    source: str


@dataclass(frozen=True, slots=True)
class Pattern:
    """What a caller makes of an answer: goes without, or cannot go on."""

    calls: frozenset[str]
    harmless: bool
    why: str
    source: str
    answers: frozenset[str] = frozenset()  # errnos or actions; none: any errno
    callers: str = ""  # a regular expression for the program's name; empty: any
    detail: str = ""  # what the arguments are in words; empty: any


@dataclass(frozen=True, slots=True)
class Keepsake:
    """Files that a program keeps for its next run, and ends as well without."""

    paths: str  # a regular expression
    why: str
    source: str


def _calls(text: str) -> frozenset[str]:
    return frozenset(text.split())


FAMILIES = (
    Family(_calls("clone3 clone fork vfork"), "https://github.com/moby/moby/issues/42680"),
    Family(
        _calls("faccessat2 faccessat access"),
        "https://github.com/alpinelinux/docker-alpine/issues/182",
    ),
    Family(
        _calls("statx newfstatat fstatat64 stat lstat fstat"),
        "https://github.com/libuv/libuv/pull/2184",
    ),
    Family(_calls("openat2 openat open"), "https://github.com/opencontainers/runc/issues/2151"),
    Family(_calls("close_range close"), "https://github.com/containers/crun/pull/672"),
    Family(
        _calls("copy_file_range sendfile splice write pwrite64"),
        "https://github.com/golang/go/issues/40893",
    ),
    Family(
        _calls("io_uring_setup epoll_create1 epoll_create"),
        "https://github.com/libuv/libuv/pull/3952",
    ),
    Family(_calls("renameat2 renameat rename"), "rename(2)"),
    Family(
        _calls("linkat link renameat2 renameat rename"),
        "https://github.com/git/git/blob/v2.39.0/object-file.c (finalize_object_file)",
    ),
    Family(_calls("preadv2 preadv pread64"), "readv(2)"),
    Family(_calls("pwritev2 pwritev pwrite64"), "readv(2)"),
    Family(
        _calls("pidfd_open pidfd_send_signal kill wait4 waitid"),
        "https://github.com/python/cpython/issues/98023",
    ),
    Family(_calls("getrandom openat open"), "https://github.com/rust-random/getrandom/issues/229"),
    Family(_calls("memfd_create openat open"), "memfd_create(2)"),
    Family(_calls("fchmodat2 fchmodat chmod"), "chmod(2)"),
    Family(_calls("epoll_pwait2 epoll_pwait epoll_wait"), "epoll_wait(2)"),
    Family(_calls("futex_waitv futex"), "futex(2)"),
    Family(_calls("sendmmsg sendmsg sendto"), "sendmmsg(2)"),
    Family(_calls("recvmmsg recvmsg recvfrom"), "recvmmsg(2)"),
    Family(_calls("accept4 accept"), "accept(2)"),
    Family(_calls("dup3 dup2"), "dup(2)"),
    Family(_calls("pipe2 pipe"), "pipe(2)"),
    Family(_calls("prlimit64 getrlimit setrlimit"), "getrlimit(2)"),
    Family(_calls("process_vm_readv ptrace pread64"), "process_vm_readv(2)"),
    Family(_calls("name_to_handle_at newfstatat statx openat"), "open_by_handle_at(2)"),
)

PATTERNS = (
    Pattern(
        _calls("clone3"),
        harmless=False,
        answers=_calls("EPERM EACCES"),
        why="the C library takes clone only after ENOSYS, so no thread can be started",
        source="https://github.com/moby/moby/issues/42680",
    ),
    Pattern(
        _calls("close_range"),
        harmless=False,
        answers=_calls("EPERM EACCES"),
        callers=r"^(glib-|gdbus|gio)",
        why="GLib takes another way only after ENOSYS",
        source="https://github.com/moby/moby/issues/43595",
    ),
    Pattern(
        _calls("faccessat2"),
        harmless=False,
        answers=_calls("EPERM"),
        callers=r"^g?make$",
        why="make believes that it may not execute the shell",
        source="https://github.com/alpinelinux/docker-alpine/issues/182",
    ),
    Pattern(
        _calls("personality"),
        harmless=True,
        callers=r"^(gdb|lldb|rr)\b",
        why="the debugger goes on with address space randomization",
        source="https://github.com/golang/go/issues/35547",
    ),
    Pattern(
        _calls("mbind get_mempolicy set_mempolicy migrate_pages move_pages"),
        harmless=True,
        why="memory is placed without regard to NUMA nodes",
        source="https://github.com/docker-library/mysql/issues/303",
    ),
    Pattern(
        _calls("io_uring_setup"),
        harmless=True,
        why="event loops take epoll instead",
        source="https://github.com/libuv/libuv/pull/3952",
    ),
    Pattern(
        _calls("rseq set_robust_list set_tid_address membarrier"),
        harmless=True,
        why="the C library does without it",
        source="https://github.com/moby/moby/pull/41381",
    ),
    Pattern(
        _calls(
            "madvise prctl sched_setaffinity sched_getaffinity sched_getattr ioprio_set ioprio_get "
            "setpriority"
        ),
        harmless=True,
        why="it is advice that few callers insist on",
        source="madvise(2), sched_setaffinity(2), ioprio_set(2)",
    ),
    Pattern(
        _calls("prlimit64 getrlimit"),
        harmless=True,
        detail="RLIMIT_STACK",
        why="the C library only wants to know how large the stacks of threads should be",
        source="https://sourceware.org/git/?p=glibc.git;f=nptl/pthread_create.c",
    ),
    Pattern(
        _calls("sysinfo"),
        harmless=True,
        why="the C library and runtimes only ask how much memory there is",
        source="sysinfo(2), https://sourceware.org/git/?p=glibc.git;f=misc/getsysstats.c",
    ),
    Pattern(
        _calls("timer_create eventfd2 sigaltstack"),
        harmless=True,
        callers=r"^ruby",
        why="threads take turns by another timer, and are woken by a pipe",
        source="https://github.com/ruby/ruby/blob/v3_1_0/thread_pthread.c",
    ),
    Pattern(
        _calls("prlimit64 getrlimit"),
        harmless=True,
        detail="RLIMIT_NPROC",
        callers=r"^(ba)?sh$",
        why="the shell only wants to know how many children it may have to remember",
        source="sysconf(3), https://git.savannah.gnu.org/cgit/bash.git (jobs.c)",
    ),
    Pattern(
        _calls("pkey_alloc pkey_mprotect"),
        harmless=True,
        why="memory is protected without keys",
        source="pkeys(7), https://chromium.googlesource.com/v8/v8 (thread-isolation.cc)",
    ),
    Pattern(
        _calls("prlimit64 setrlimit getrlimit"),
        harmless=True,
        callers=r"^(g?make|gcc|cc|g\+\+|c\+\+|cpp|cc1(plus)?|collect2|lto1)\b",
        why="make and the compiler go on with the stack that they have",
        source="https://gcc.gnu.org/git/?p=gcc.git;f=libiberty/stack-limit.c, make's src/main.c",
    ),
    Pattern(
        _calls("keyctl add_key request_key"),
        harmless=True,
        callers=r"^(runc|crun|podman|sshd|login|su|sudo|systemd)",
        why="a session goes on without a keyring of its own",
        source="https://github.com/opencontainers/runc/issues/2151",
    ),
    Pattern(
        _calls("landlock_create_ruleset"),
        harmless=True,
        callers=r"^(xz|unxz|xzdec|file|pacman)",
        why="the program runs without confining itself",
        source="landlock(7)",
    ),
    Pattern(
        _calls("kcmp pidfd_getfd userfaultfd perf_event_open"),
        harmless=True,
        answers=_calls("ENOSYS"),
        why="callers are ready for kernels that were built without it",
        source="kcmp(2), userfaultfd(2), perf_event_open(2)",
    ),
)

KEEPSAKES = (
    Keepsake(r"/__pycache__(/|$)|\.pyc\b", "Python runs without bytecode kept", "PEP 3147"),
    Keepsake(
        r"/[._]?viminfo\w*$|/main\.shada\b", "the editor forgets its past", "https://vimhelp.org"
    ),
    Keepsake(
        r"/\.(\w+_)?history$|/\.lesshst\b|/\.wget-hsts$|/\.rnd$|/\.node_repl_history$",
        "the program forgets what it did",
        "bash(1), less(1), wget(1), openssl-rand(1)",
    ),
    Keepsake(
        r"/\.(pytest|mypy|ruff)_cache\b|/\.eslintcache$|/\.hypothesis\b",
        "the next run takes longer",
        "https://docs.pytest.org/en/stable/how-to/cache.html",
    ),
    Keepsake(
        r"/hsperfdata_\w+|/coredump_filter$",
        "the JVM goes unwatched",
        "java(1), -XX:+UsePerfData, core(5)",
    ),
    Keepsake(r"\.gcda$|/\.coverage$|\.profraw$", "it is not measured", "gcov(1)"),
    Keepsake(
        r"/\.npm/_(logs|update-notifier-last-checked)\b",
        "npm keeps no log",
        "https://docs.npmjs.com/cli/using-npm/logging",
    ),
    Keepsake(
        r"/(fontconfig|mesa_shader_cache)/|/dconf/user\b",
        "what is kept there is made anew",
        "fonts-conf(5), https://docs.mesa3d.org/envvars.html",
    ),
)


# Where configure scripts try out what there is: each trial may fail.
_PROBING = re.compile(
    r"\bconftest(\.\w+)?\b"  # https://www.gnu.org/software/autoconf (Running the Compiler)
    r"|CMakeFiles/(CMakeScratch|CMakeTmp)\b"  # https://cmake.org/cmake/help/latest/command/try_compile.html
    r"|\bmeson-private/tmp"  # https://mesonbuild.com/Compiler-properties.html
    r"|\b_configtest\.\w+\b"  # distutils.command.config
    r"|\bcmTC_[0-9a-f]{5}\b"
)


def is_probing(command_lines: str) -> bool:
    return _PROBING.search(command_lines) is not None


def substitutes(syscall: str) -> frozenset[str]:
    """The calls whose success after a refusal shows that the caller found another way."""
    found: set[str] = set()
    for family in FAMILIES:
        if syscall in family.calls:
            found |= family.calls
    return frozenset(found - {syscall})


def known(event: Seccomp | Syscall) -> Pattern | None:
    """What this caller is known to make of this answer; the first pattern that fits."""
    caller = os.path.basename(event.exe) or event.comm
    answer = event.errno or (event.action if isinstance(event, Seccomp) else "")
    for pattern in PATTERNS:
        answered = answer in pattern.answers if pattern.answers else event.errno is not None
        fits = pattern.detail in (event.detail or "") and re.search(pattern.callers, caller)
        if event.syscall in pattern.calls and answered and fits:
            return pattern
    return None


def is_keepsake(path: str) -> bool:
    return any(re.search(one.paths, path) for one in KEEPSAKES)


def is_harmless(event: Seccomp | Syscall) -> bool:
    pattern = known(event)
    return pattern is not None and pattern.harmless
