"""The vocabulary of every explanation.

Ids are public: reports, the wire, storage, docs and tests use exactly these.
`layer` says whether it was the sandbox, the interface in front of it, or the
work itself; `primitive` names the part of the sandbox.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason why a test can fail, and when it holds."""

    id: str
    layer: str
    primitive: str
    holds: str


_ALL = (
    Cause(
        "seccomp.denied",
        "sandbox",
        "syscalls",
        "A seccomp filter refused a syscall (ERRNO, TRAP, KILL_*, TRACE without tracer, "
        "USER_NOTIF refused) and the work failed through it",
    ),
    Cause(
        "lsm.denied",
        "sandbox",
        "syscalls",
        "EPERM/EACCES that neither seccomp, file modes, mount flags nor capabilities "
        "explain (Landlock, AppArmor, BPF LSM …)",
    ),
    Cause(
        "capability.missing",
        "sandbox",
        "syscalls",
        "A privileged operation (mount, chroot, raw socket, low port, chown to another "
        "…) was let through by seccomp and refused by the kernel for want of a "
        "capability; plain file modes are fs.permission",
    ),
    Cause(
        "syscall.unsupported",
        "sandbox",
        "syscalls",
        "The kernel itself answered ENOSYS (not seccomp)",
    ),
    Cause(
        "exec.not_found",
        "sandbox",
        "process",
        "The program does not exist on the path tried or on PATH; also when a shell, "
        "make or git finds that out by stat alone and never calls execve",
    ),
    Cause(
        "exec.permission",
        "sandbox",
        "process",
        "EACCES: no execute bit, or a directory on the way not searchable",
    ),
    Cause(
        "exec.noexec_mount",
        "sandbox",
        "process",
        "EACCES because the file lies on a mount with noexec",
    ),
    Cause(
        "exec.interpreter_missing",
        "sandbox",
        "process",
        "ENOENT though the file exists: the #! interpreter does not",
    ),
    Cause(
        "exec.crlf_shebang",
        "sandbox",
        "process",
        "The shebang line ends in CR, so the interpreter (or what env is asked for) has "
        "a CR in its name",
    ),
    Cause(
        "exec.loader_missing",
        "sandbox",
        "process",
        "ENOENT though the ELF file exists: its PT_INTERP loader does not",
    ),
    Cause(
        "exec.wrong_architecture",
        "sandbox",
        "process",
        "ENOEXEC: the ELF machine is not this machine's",
    ),
    Cause("exec.bad_format", "sandbox", "process", "ENOEXEC: neither ELF nor shebang (or corrupt)"),
    Cause("exec.args_too_long", "sandbox", "process", "E2BIG"),
    Cause("fork.pids_limit", "sandbox", "process", "EAGAIN: the pids cgroup is full"),
    Cause("fork.process_limit", "sandbox", "process", "EAGAIN: RLIMIT_NPROC (or threads-max)"),
    Cause("fork.no_memory", "sandbox", "process", "ENOMEM from fork or clone"),
    Cause(
        "memory.cgroup_oom",
        "sandbox",
        "memory",
        "The OOM killer of a memory cgroup killed a task of this span (or the one it waited for)",
    ),
    Cause("memory.system_oom", "sandbox", "memory", "The same, for the whole machine"),
    Cause("memory.limit", "sandbox", "memory", "Mmap/brk answered ENOMEM (RLIMIT_AS, overcommit)"),
    Cause(
        "memory.shm_full",
        "sandbox",
        "memory",
        "ENOSPC or SIGBUS on a tmpfs used as shared memory (/dev/shm)",
    ),
    Cause(
        "net.refused",
        "sandbox",
        "network",
        "ECONNREFUSED: TCP, UDP or a unix socket nobody listens on (a resolver that "
        "refuses so is net.dns_unreachable)",
    ),
    Cause(
        "net.unreachable",
        "sandbox",
        "network",
        "ENETUNREACH/EHOSTUNREACH: no route, or a gateway said so",
    ),
    Cause(
        "net.denied",
        "sandbox",
        "network",
        "EPERM/EACCES on connect/send: a local firewall or policy",
    ),
    Cause(
        "net.timeout",
        "sandbox",
        "network",
        "No answer: SYN retries ran out, or the work gave up while connecting",
    ),
    Cause("net.reset", "sandbox", "network", "ECONNRESET while connecting or in use"),
    Cause(
        "net.family_unsupported",
        "sandbox",
        "network",
        "EAFNOSUPPORT/EADDRNOTAVAIL (IPv6 off, no such local address)",
    ),
    Cause("net.dns_not_found", "sandbox", "network", "NXDOMAIN"),
    Cause("net.dns_failed", "sandbox", "network", "SERVFAIL/REFUSED"),
    Cause(
        "net.dns_unreachable",
        "sandbox",
        "network",
        "The resolver never answered or could not be reached; or none is configured",
    ),
    Cause("fs.read_only", "sandbox", "filesystem", "EROFS"),
    Cause("fs.permission", "sandbox", "filesystem", "EACCES/EPERM from file modes or ownership"),
    Cause("fs.no_space", "sandbox", "filesystem", "ENOSPC: blocks used up"),
    Cause("fs.no_inodes", "sandbox", "filesystem", "ENOSPC: inodes used up"),
    Cause("fs.quota", "sandbox", "filesystem", "EDQUOT: the quota is used up"),
    Cause(
        "fs.missing",
        "sandbox",
        "filesystem",
        "ENOENT on a file that the work needs and that was never seen here (else fs.not_persisted)",
    ),
    Cause(
        "fs.not_persisted",
        "sandbox",
        "filesystem",
        "A file written earlier in this sandbox is gone (other mount namespace, "
        "ephemeral layer, restart)",
    ),
    Cause("fs.open_files_limit", "sandbox", "filesystem", "EMFILE/ENFILE"),
    Cause("fs.file_size_limit", "sandbox", "filesystem", "EFBIG / SIGXFSZ"),
    Cause(
        "limit.cpu_time",
        "sandbox",
        "limits",
        "RLIMIT_CPU: SIGXCPU, or the SIGKILL of the hard limit",
    ),
    Cause(
        "limit.killed",
        "sandbox",
        "limits",
        "Ended by another's signal with no OOM: a harness timeout, an operator, a "
        "timeout inside the command. If something explains why it was still running (a "
        "denied wake-up, an unanswered connect) that comes first; a program's signals "
        "to its own children are not this",
    ),
    Cause(
        "sandbox.lost",
        "sandbox",
        "sandbox",
        "The sandbox or its probe stopped talking before the test ended",
    ),
    Cause("sandbox.restarted", "sandbox", "sandbox", "Boot id changed under the test"),
    Cause(
        "sandbox.clock",
        "sandbox",
        "sandbox",
        "The sandbox clock is off by more than certificates and leases tolerate",
    ),
    Cause(
        "interface.corrupted",
        "interface",
        "interface",
        "Bytes inside the sandbox differ from the bytes the client sent or got (with "
        "how: UTF-8 replacement, base64 alphabet, newline translation …)",
    ),
    Cause(
        "interface.truncated",
        "interface",
        "interface",
        "The client got a prefix of what the sandbox wrote",
    ),
    Cause(
        "interface.null_byte",
        "interface",
        "interface",
        "Data or an argument was cut or refused at a NUL byte",
    ),
    Cause(
        "interface.timeout",
        "interface",
        "interface",
        "The client gave up while the sandbox was still working normally",
    ),
    Cause(
        "interface.error",
        "interface",
        "interface",
        "The client saw a transport error though the command in the sandbox ended well",
    ),
    Cause(
        "interface.not_delivered",
        "interface",
        "interface",
        "The request never reached the sandbox (no process was started for it)",
    ),
    Cause(
        "workload.failed",
        "workload",
        "work",
        "It failed by itself: full coverage, nothing lost, and no sandbox event "
        "explains it (its own assertion, its own port already in use, a runtime's own "
        "limit such as a Java heap)",
    ),
    Cause(
        "workload.crashed",
        "workload",
        "work",
        "SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL … of its own making",
    ),
    Cause(
        "unknown",
        "unknown",
        "unknown",
        "No cause found, and coverage was partial or events were lost: the report says "
        "which eye was shut",
    ),
)

CAUSES: dict[str, Cause] = {cause.id: cause for cause in _ALL}
