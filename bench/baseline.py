"""What an engineer would write without a probe: patterns over the output and the exit status.

It is meant to be good. It reads what the probe may read (stderr, or stdout where stderr
is empty) and the real exit status; statuses that say something by themselves come first,
then the last line that any pattern knows, because what was handled is said before what
was not. Within a line the first pattern wins, so the special ones stand above the
general ones. A pattern may name several causes, the likeliest first: the others count
for top-3, as the probe's alternatives do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

TAIL = 16_384  # characters of output that are read, from the end

_CRASHED = ("workload.crashed",)
_STATUSES: dict[int, tuple[str, ...]] = {
    124: ("limit.killed", "net.timeout"),  # timeout(1)
    132: _CRASHED,
    134: _CRASHED,
    135: ("memory.shm_full", "workload.crashed"),
    136: _CRASHED,
    137: ("memory.cgroup_oom", "limit.killed", "seccomp.denied"),
    139: _CRASHED,
    143: ("limit.killed",),
    152: ("limit.cpu_time",),
    153: ("fs.file_size_limit",),
    159: ("seccomp.denied",),
}
# Only where no line says more.
_VAGUE_STATUSES: dict[int, tuple[str, ...]] = {
    126: ("exec.permission", "exec.bad_format"),
    127: ("exec.not_found",),
}
# What a file error means where a program was being started, by a shell or a runtime.
_STARTING = {"fs.permission": "exec.permission", "fs.missing": "exec.not_found"}
_STARTERS = ("_execute_child", "ProcessBuilder.start", "ChildProcess._handle")
# Lines that name an error and are not the failure: warnings, and the fields that node
# prints of an error whose message stands above them.
_PASSED_OVER = re.compile(r"\bwarn(ing)?\b|\bignor(ed|ing)\b|^\s+(errno|code|syscall|path): ", re.I)

_PATTERNS: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), tuple(causes.split()))
    for pattern, causes in (
        # programs
        (r"\^M|\\r\b|\r['’:]", "exec.crlf_shebang"),
        (
            r"bad interpreter|required file not found|cannot run .*hook",
            "exec.interpreter_missing exec.loader_missing",
        ),
        (r"cannot execute binary file", "exec.wrong_architecture exec.bad_format"),
        (r"Exec format error|\bENOEXEC", "exec.bad_format exec.wrong_architecture"),
        (r"Argument list too long|\bE2BIG", "exec.args_too_long"),
        (r"error while loading shared libraries|cannot open shared object", "fs.missing"),
        (
            r"command not found|executable file not found|is not a git command|"
            r"failed to (run|execute) command.*No such file|Cannot run program|"
            r"spawn \S+ \bENOENT|No such file or directory: '[\w.+-]+'|"
            r"^\S*\b(env|xargs|find|make|nohup|nice|timeout|sudo)\b.*(No such file|not found)|"
            r"error=2, No such file|\w: not found$",
            "exec.not_found fs.missing",
        ),
        (r"spawn \S+ \bEACCES|cannot execute: Permission denied", "exec.permission"),
        # processes and memory
        (r"Java heap space|GC overhead limit|heap out of memory", "workload.failed"),
        (
            r"can(no|')t fork|fork: retry|start new thread|create (native )?thread|"
            r"Resource temporarily unavailable|BlockingIOError|\bEAGAIN|pthread_create",
            "fork.pids_limit fork.process_limit seccomp.denied",
        ),
        (
            r"MemoryError|cannot allocate|\bENOMEM|bad_alloc|could not reserve|"
            r"insufficient memory|unable to allocate",
            "memory.limit memory.cgroup_oom",
        ),
        (
            r"out of memory|\boom\b|\bKilled\b|SIGKILL|terminated abruptly|exit status 137|"
            r"Error 137",
            "memory.cgroup_oom limit.killed",
        ),
        (r"/dev/shm.*No space|No space.*/dev/shm", "memory.shm_full"),
        (r"Bus error|SIGBUS", "memory.shm_full workload.crashed"),
        # network
        (r"TimeoutExpired", "limit.killed"),
        (r"\btime[d-]? ?out\b|\bETIMEDOUT|TimeoutError", "net.timeout limit.killed"),
        (
            r"Connection ?refused|\bECONNREFUSED|failed to connect to|"
            r"Could ?n[o']t connect to server|Is the server running|fetch failed",
            "net.refused net.timeout",
        ),
        (
            r"Network is unreachable|No route to host|\bENETUNREACH|\bEHOSTUNREACH|"
            r"Host is unreachable",
            "net.unreachable",
        ),
        (
            r"temporary failure in name resolution|EAI_AGAIN|Resolving timed out",
            "net.dns_unreachable net.dns_failed",
        ),
        (
            r"Name or service not known|NXDOMAIN|\bENOTFOUND|could not resolve|"
            r"UnknownHost|No address associated|nodename nor servname|no such host",
            "net.dns_not_found net.dns_unreachable",
        ),
        (r"Connection ?reset|\bECONNRESET|reset by peer", "net.reset"),
        (
            r"Address family not supported|\bEAFNOSUPPORT|cannot assign requested address|"
            r"\bEADDRNOTAVAIL",
            "net.family_unsupported",
        ),
        # files and limits
        (r"read-?only file ?system|\bEROFS|readonly database", "fs.read_only"),
        (
            r"No space left|\bENOSPC|disk (is )?full|Wrote only",
            "fs.no_space fs.no_inodes memory.shm_full",
        ),
        (r"quota exceeded|\bEDQUOT", "fs.quota"),
        (r"too many open files|\bEMFILE|\bENFILE", "fs.open_files_limit"),
        (r"File too large|\bEFBIG|file size limit", "fs.file_size_limit"),
        (r"CPU time limit|SIGXCPU", "limit.cpu_time"),
        (r"unable to open database", "fs.missing fs.read_only fs.permission"),
        # rights
        (r"Bad system call|SIGSYS|seccomp|died with.* 31\b", "seccomp.denied"),
        (r"Function not implemented|\bENOSYS", "seccomp.denied syscall.unsupported"),
        (
            r"must be superuser|CAP_[A-Z]+|you must be root|mount: .*permission denied|"
            r"changing ownership|cannot change root|\bbind\b.*denied|denied.*\bbind\b",
            "capability.missing seccomp.denied",
        ),
        (
            r"Operation not permitted|\bEPERM\b|\bsocket: Permission denied",
            "seccomp.denied capability.missing fs.permission",
        ),
        (
            r"Permission denied|\bEACCES\b|PermissionError|AccessDenied",
            "fs.permission exec.permission seccomp.denied",
        ),
        (
            r"No such file or directory|\bENOENT\b|FileNotFound|NoSuchFile|nonexistent",
            "fs.missing exec.not_found",
        ),
        # the work itself
        (r"Assertion [`'].* failed|Assertion failed", "workload.crashed workload.failed"),
        (
            r"AssertionError|ERR_ASSERTION|^E +assert\b|^FAILED\b|"
            r"expected\b.*\b(got|but|instead|actual|was)\b|mismatch|does not match",
            "workload.failed",
        ),
        (
            r"\b(Value|Key|Type|Index|Name|Attribute|ZeroDivision|Syntax|Range)Error\b|"
            r"NullPointer|IllegalArgument|IllegalState|OutOfBounds|panic:|"
            r"error: expected|undefined reference",
            "workload.failed",
        ),
        (r"address already in use|\bEADDRINUSE", "workload.failed"),
        (
            r"Segmentation fault|SIGSEGV|\bAborted\b|SIGABRT|core dumped|"
            r"Floating point exception|Illegal instruction",
            "workload.crashed",
        ),
        (r"^Terminated|SIGTERM|KeyboardInterrupt", "limit.killed"),
    )
)


def explain(output: str, status: int) -> list[str]:
    """The causes, the likeliest first; "none" for status 0, the work's own fault at a loss."""
    if status == 0:
        return ["none"]
    found = [*_STATUSES.get(status, ()), *_in_lines(output, status)]
    found += _VAGUE_STATUSES.get(status, ())
    return list(dict.fromkeys([*found, "workload.failed"]))


def _in_lines(output: str, status: int) -> Iterator[str]:
    """What the lines say, from the last to the first."""
    starting = status in _VAGUE_STATUSES or any(one in output for one in _STARTERS)
    for line in reversed(output[-TAIL:].splitlines()):
        if _PASSED_OVER.search(line):
            continue
        causes = next((causes for known, causes in _PATTERNS if known.search(line)), ())
        instead = _STARTING.get(causes[0]) if starting and causes else None
        if instead in causes:
            yield instead
        yield from causes
