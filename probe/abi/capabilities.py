"""Names of capabilities(7) by their number in the kernel's masks."""

from __future__ import annotations

NAMES = (
    *("CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID"),
    *("SETPCAP", "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW"),
    *("IPC_LOCK", "IPC_OWNER", "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT"),
    *("SYS_ADMIN", "SYS_BOOT", "SYS_NICE", "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD"),
    *("LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG"),
    *("WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF", "CHECKPOINT_RESTORE"),
)

KNOWN = (1 << len(NAMES)) - 1  # the mask of all of them


def names(mask: int) -> list[str]:
    """`CAP_CHOWN` for bit 0; `CAP_41` where the kernel is newer than the list."""
    bits = (bit for bit in range(64) if mask >> bit & 1)
    return [f"CAP_{NAMES[bit] if bit < len(NAMES) else bit}" for bit in bits]
