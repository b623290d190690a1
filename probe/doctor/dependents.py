"""Well-known programs and the syscalls that they cannot do without, each with its source.

Calls that a program replaces by another one when they are refused (clone3, statx,
close_range, openat2, faccessat2 with ENOSYS) are not listed.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Dependent:
    program: str
    needs: tuple[str, ...]
    source: str
    likelihood: float = 0.1  # how likely work in a sandbox needs it


DEPENDENTS = (
    Dependent("gdb, lldb and delve (debuggers)", ("ptrace",), "ptrace(2)", 0.35),
    Dependent("strace and ltrace", ("ptrace",), "strace(1)", 0.3),
    Dependent(
        "LeakSanitizer", ("ptrace",), "sanitizer_stoptheworld_linux_libcdep.cpp of LLVM", 0.15
    ),
    Dependent("rr", ("ptrace", "perf_event_open"), "rr-project.org: building and installing"),
    Dependent("perf", ("perf_event_open",), "perf_event_open(2)", 0.2),
    Dependent("bpftrace, bcc and this probe's engine", ("bpf", "perf_event_open"), "bpf(2)"),
    Dependent(
        "Chromium, Playwright and Puppeteer with their own sandbox",
        ("unshare", "chroot"),
        "docs/linux/sandboxing.md of Chromium",
        0.35,
    ),
    Dependent(
        "bubblewrap and Flatpak", ("unshare", "mount", "umount2", "pivot_root"), "bwrap(1)", 0.15
    ),
    Dependent(
        "docker, podman and runc (containers inside)",
        ("unshare", "setns", "mount", "umount2", "pivot_root", "sethostname", "keyctl"),
        "runc(8); keyctl: session keyring of each container",
        0.2,
    ),
    Dependent("unshare and nsenter", ("unshare", "setns"), "unshare(1), nsenter(1)"),
    Dependent("mount and umount", ("mount", "umount2"), "mount(2), umount(2)", 0.15),
    Dependent("FUSE file systems", ("mount", "umount2"), "mount.fuse3(8)"),
    Dependent("chroot and debootstrap", ("chroot",), "chroot(2)", 0.1),
    Dependent("mknod", ("mknodat",), "mknod(2)", 0.1),
    Dependent("sudo, su and sshd", ("setresuid", "setresgid", "setgroups"), "setresuid(2)", 0.4),
    Dependent(
        "apt (drops to the user _apt)", ("setresuid", "setresgid", "setgroups"), "apt.conf(5)", 0.45
    ),
    Dependent("rsyslogd and dmesg", ("syslog",), "syslog(2)"),
    Dependent(
        "io_uring users (liburing, tokio-uring, QEMU)", ("io_uring_setup",), "io_uring(7)", 0.15
    ),
    Dependent("MySQL/InnoDB with native AIO", ("io_setup",), "innodb_use_native_aio"),
    Dependent("numactl", ("set_mempolicy", "mbind", "get_mempolicy"), "numactl(8)"),
    Dependent("taskset", ("sched_setaffinity",), "taskset(1)"),
    Dependent("chrt and real-time threads", ("sched_setscheduler",), "sched(7)"),
    Dependent("nice and renice", ("setpriority",), "setpriority(2)", 0.2),
    Dependent("ionice", ("ioprio_set",), "ioprio_set(2)"),
    Dependent("setarch (reproducible address spaces)", ("personality",), "setarch(8)"),
    Dependent("keyctl and Kerberos keyrings", ("keyctl", "add_key", "request_key"), "keyrings(7)"),
    Dependent("userfaultfd users (CRIU, QEMU migration)", ("userfaultfd",), "userfaultfd(2)"),
    Dependent("fanotify watchers", ("fanotify_init",), "fanotify(7)"),
    Dependent(
        "file watchers (webpack, vite, jest --watch, tail -f)",
        ("inotify_init1", "inotify_add_watch"),
        "inotify(7)",
        0.5,
    ),
    Dependent("hostname", ("sethostname",), "sethostname(2)"),
    Dependent("date -s, ntpd and chronyd", ("clock_settime", "adjtimex"), "clock_settime(2)"),
    Dependent("insmod and modprobe", ("finit_module",), "finit_module(2)"),
    Dependent("swapon", ("swapon",), "swapon(2)"),
    Dependent(
        "cp --preserve=xattr, rsync -X and setcap", ("setxattr", "fsetxattr"), "xattr(7)", 0.2
    ),
    Dependent("any networking at all", ("socket", "connect"), "socket(2)", 0.95),
    Dependent("any server", ("socket", "bind", "listen"), "bind(2)", 0.7),
    Dependent("wine", ("ptrace", "modify_ldt"), "modify_ldt(2)"),
    Dependent(
        "PostgreSQL", ("shmget", "shmat"), "PostgreSQL manual: managing kernel resources", 0.4
    ),
)

# What the profiles of container engines refuse as a matter of course, so that programs are
# used to it (docs.docker.com/engine/security/seccomp, containers-common's seccomp.json),
# and calls that the kernel itself has given up or keeps for few machines (syscalls(2)).
USUALLY_REFUSED = frozenset(
    "acct add_key afs_syscall bpf clock_adjtime clock_settime create_module delete_module "
    "fanotify_init finit_module fsconfig fsmount fsopen fspick get_kernel_syms get_mempolicy "
    "getpmsg init_module io_pgetevents io_uring_enter io_uring_register io_uring_setup ioperm "
    "iopl kcmp kexec_file_load kexec_load keyctl listmount lookup_dcookie lsm_get_self_attr "
    "lsm_list_modules lsm_set_self_attr mbind migrate_pages mount mount_setattr move_mount "
    "move_pages name_to_handle_at nfsservctl open_by_handle_at open_tree open_tree_attr "
    "perf_event_open personality pidfd_getfd pivot_root process_madvise process_vm_readv "
    "process_vm_writev ptrace putpmsg query_module quotactl quotactl_fd reboot request_key "
    "security set_mempolicy set_mempolicy_home_node setdomainname sethostname setns "
    "settimeofday statmount swapoff swapon sysfs syslog tuxcall umount2 unshare uprobe "
    "uretprobe uselib userfaultfd ustat vhangup vmsplice vserver _sysctl".split()
)
