"""What a workflow may need of its sandbox, beyond a directory, loopback and a little memory."""

from __future__ import annotations

MEMORY = "memory:"  # memory:N, the MiB that it touches at once
NETWORK = "network"  # an address outside of its sandbox: the origin's
EXEC_TMP = "exec-tmp"  # runs a file that it wrote under /tmp
WRITE_ROOT = "write-root"  # writes outside of its own directory and /tmp: /opt, /srv, /var/lib
PROCESSES = "processes:"  # processes:N, so many at once
SHARED_MEMORY = "shm"  # puts something into /dev/shm
SYSCALL = "syscall:"  # syscall:NAME, one that containers usually refuse
CHROMIUM = "chromium"  # a browser

PLAIN = frozenset((NETWORK, EXEC_TMP, WRITE_ROOT, SHARED_MEMORY, CHROMIUM))
COUNTED = (MEMORY, PROCESSES)


def valid(need: str) -> bool:
    """Whether it is of this vocabulary."""
    if need.startswith(SYSCALL):
        return need.removeprefix(SYSCALL).isidentifier()
    return need in PLAIN or any(
        need.startswith(prefix) and need.removeprefix(prefix).isdecimal() for prefix in COUNTED
    )


def memory(needs: frozenset[str]) -> int:
    """The MiB that are touched; 0 where it is too little to be told."""
    return max((int(n.removeprefix(MEMORY)) for n in needs if n.startswith(MEMORY)), default=0)


def syscalls(needs: frozenset[str]) -> frozenset[str]:
    return frozenset(n.removeprefix(SYSCALL) for n in needs if n.startswith(SYSCALL))
