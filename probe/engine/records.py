"""The records that cross from the kernel, as bpf/events.h lays them out.

tests/unit/test_records.py compiles that header and compares every offset and size.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import c_char, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64

NOBODYS_SPAN = 1  # of what is part of none, where everybody is watched
COMM_SIZE = 16
PATH_SIZE = 256
LONG_PATH_SIZE = 4096
ARGV_SIZE = 512
ARGV_COUNT = 8
ARG_SIZE = 64
UNIX_PATH_SIZE = 108
CGROUP_NAME_SIZE = 64
STREAM_NAME_SIZE = 60
CGROUP_DEPTH = 4
FOLLOW_UPS = 8
FILTER_CHUNK = 256
MISSING_COUNT = 32
MISSING_SIZE = 128
GONE_COUNT = 4
WORDS_COUNT = 8
WORDS_SIZE = 256
DNS_SIZE = 288
NAME_SIZE = 128
COMPAT_CALL = 0x80000000
UNKNOWN_CALL = 0x3FFFFFFF
UNKNOWN_CAPABILITIES = (1 << 64) - 1  # there are not so many

ACTION_RESULT = 1
ACTION_KILL = 2
ACTION_TRAP = 3
ACTION_KILL_THREAD = 4
ACTION_STRICT = 5

ENTERED_UNKNOWN = 0
ENTERED_YES = 1
ENTERED_NO = 2

CONNECT_CALLED = 0
CONNECT_PENDING = 1
CONNECT_IN_USE = 2
CONNECT_BOUND = 3


class Record(ctypes.Structure):
    _fields_ = [
        ("time_ns", c_uint64),
        ("span", c_uint64),
        ("kind", c_uint32),
        ("pid", c_uint32),
        ("tid", c_uint32),
        ("ppid", c_uint32),
        ("uid", c_uint32),
        ("mnt_ns", c_uint32),
        ("serial", c_uint32),
        ("count", c_uint32),
        ("inner_pid", c_uint32),
        ("session", c_uint32),
        ("comm", c_char * COMM_SIZE),
    ]


class FilterInstruction(ctypes.Structure):
    _fields_ = [
        ("code", c_uint16),
        ("jump_true", c_uint8),
        ("jump_false", c_uint8),
        ("k", c_uint32),
    ]


class FilterRecord(ctypes.Structure):
    _fields_ = [
        ("head", Record),
        ("filter", c_uint64),
        ("previous", c_uint64),
        ("length", c_uint32),
        ("offset", c_uint32),
        ("instructions", FilterInstruction * FILTER_CHUNK),
    ]


class SeccompRecord(ctypes.Structure):
    _fields_ = [
        ("head", Record),
        ("args", c_uint64 * 6),
        ("ip", c_uint64),
        ("filter", c_uint64),
        ("ret", c_int64),
        ("syscall", c_uint32),
        ("compat", c_uint32),
        ("action", c_uint32),
        ("entered", c_uint32),
        ("path", c_char * PATH_SIZE),
    ]


class FollowUp(ctypes.Structure):
    _fields_ = [("syscall", c_uint32), ("ret", c_int32)]


class FollowRecord(ctypes.Structure):
    _fields_ = [
        ("head", Record),
        ("calls", FollowUp * FOLLOW_UPS),
        ("total", c_uint64),
        ("pad", c_uint32),
        ("ended", c_uint32),
    ]


class Stream(ctypes.Structure):
    _fields_ = [("pipe", c_uint32), ("file", c_char * STREAM_NAME_SIZE)]


class ExecRecord(ctypes.Structure):
    _fields_ = [
        ("head", Record),
        ("streams", Stream * 2),
        ("argv_size", c_uint32),
        ("argc", c_uint32),
        ("path", c_char * PATH_SIZE),
        ("argv", c_char * ARGV_SIZE),
    ]


class ExecFailedRecord(ctypes.Structure):
    _fields_ = [
        ("head", Record),
        ("error", c_int32),
        ("dirfd", c_int32),
        ("flags", c_uint32),
        ("argc", c_uint32),
        ("stack_limit", c_uint64),
        ("size", c_uint64),
        ("strings", c_uint32),
        ("longest", c_uint32),
        ("cwd", c_char * PATH_SIZE),
        ("argv", (c_char * ARG_SIZE) * ARGV_COUNT),
        ("path", c_char * LONG_PATH_SIZE),
    ]


class CgroupLimit(ctypes.Structure):
    _fields_ = [
        ("limit", c_uint64),
        ("usage", c_uint64),
        ("name", (c_char * CGROUP_NAME_SIZE) * CGROUP_DEPTH),
    ]


class ForkFailedRecord(ctypes.Structure):
    _fields_ = [
        ("head", Record),
        ("error", c_int32),
        ("syscall", c_uint32),
        ("nproc_limit", c_uint64),
        ("without_init", c_uint32),
        ("pad", c_uint32),
        ("pids", CgroupLimit),
    ]


class ExitRecord(ctypes.Structure):
    _fields_ = [
        ("head", Record),
        ("status", c_int32),
        ("real_ppid", c_uint32),
        ("started_ns", c_uint64),
        ("silenced", c_uint32),
        ("pad", c_uint32),
    ]


class ConnectRecord(ctypes.Structure):
    _fields_ = [
        ("head", Record),
        ("duration_ns", c_uint64),
        ("capabilities", c_uint64),
        ("error", c_int32),
        ("family", c_uint16),
        ("port", c_uint16),
        ("type", c_uint16),
        ("stage", c_uint16),
        ("abandoned", c_uint32),
        ("server", c_uint32),
        ("address", c_uint8 * 16),
        ("path", c_char * UNIX_PATH_SIZE),
    ]


class OomRecord(ctypes.Structure):
    _fields_ = [
        ("head", Record),
        ("total_vm_pages", c_uint64),
        ("trigger_pid", c_uint32),
        ("pad", c_uint32),
        ("memory", CgroupLimit),
    ]


class SignalRecord(ctypes.Structure):
    _fields_ = [
        ("head", Record),
        ("target_pid", c_uint32),
        ("signal", c_int32),
        ("code", c_int32),
        ("from_kernel", c_uint32),
        ("target_span", c_uint64),
        ("limit", c_uint64),
        ("address", c_uint64),
        ("offset", c_uint64),
        ("file_size", c_uint64),
        ("target_comm", c_char * COMM_SIZE),
        ("mapping", c_char * PATH_SIZE),
    ]


class FileRecord(ctypes.Structure):
    _fields_ = [
        ("head", Record),
        ("error", c_int32),
        ("syscall", c_uint32),
        ("dirfd", c_int32),
        ("user_ns_level", c_uint32),
        ("args", c_uint64 * 6),
        ("limit", c_uint64),
        ("capabilities", c_uint64),
        ("cwd", c_char * PATH_SIZE),
        ("path", c_char * LONG_PATH_SIZE),
    ]


class NamespaceRecord(ctypes.Structure):
    _fields_ = [("head", Record), ("old_mnt_ns", c_uint32), ("pad", c_uint32)]


class NamedRecord(ctypes.Structure):
    _fields_ = [
        ("head", Record),
        ("test", c_char * NAME_SIZE),
        ("run", c_char * NAME_SIZE),
    ]


class Missing(ctypes.Structure):
    _fields_ = [("time_ns", c_uint64), ("path", c_char * MISSING_SIZE)]


class Words(ctypes.Structure):
    _fields_ = [
        ("total", c_uint32),
        ("used", c_uint32),
        ("size", c_uint32 * WORDS_COUNT),
        ("text", (c_char * WORDS_SIZE) * (WORDS_COUNT + 1)),
    ]


class Recent(ctypes.Structure):
    _fields_ = [
        ("missing_total", c_uint32),
        ("silenced", c_uint32),
        ("missing", Missing * MISSING_COUNT),
        ("errors", Words),
        ("output", Words),
    ]


class Writer(ctypes.Structure):
    _fields_ = [
        ("time_ns", c_uint64),
        ("span", c_uint64),
        ("pid", c_uint32),
        ("mnt_ns", c_uint32),
        ("comm", c_char * COMM_SIZE),
    ]


class RecentRecord(ctypes.Structure):
    _fields_ = [
        ("head", Record),
        ("of_creator", c_uint32),
        ("gone", c_uint32),
        ("gone_slots", c_uint32 * GONE_COUNT),
        ("writers", Writer * GONE_COUNT),
        ("recent", Recent),
    ]


class CallRecord(ctypes.Structure):
    _fields_ = [
        ("head", Record),
        ("args", c_uint64 * 6),
        ("error", c_int32),
        ("syscall", c_uint32),
        ("limit", c_uint64),
        ("usage", c_uint64),
        ("capabilities", c_uint64),
        ("user_ns_level", c_uint32),
        ("pad", c_uint32),
        ("path", c_char * PATH_SIZE),
    ]


class DnsRecord(ctypes.Structure):
    _fields_ = [
        ("head", Record),
        ("family", c_uint16),
        ("port", c_uint16),
        ("answer", c_uint16),
        ("size", c_uint16),
        ("address", c_uint8 * 16),
        ("data", c_uint8 * DNS_SIZE),
    ]


class Settings(ctypes.Structure):
    _fields_ = [
        ("pid_ns", c_uint32),
        ("self_tgid", c_uint32),
        ("mnt_ns", c_uint32),
        ("everyone", c_uint32),
        ("connect_nr", c_int32),
        ("seccomp_nr", c_int32),
        ("prctl_nr", c_int32),
        ("write_nr", c_int32),
        ("writev_nr", c_int32),
        ("sendto_nr", c_int32),
        ("sendmsg_nr", c_int32),
        ("sendmmsg_nr", c_int32),
        ("brk_nr", c_int32),
        ("socketcall_nr", c_int32),
        ("compat_seccomp_nr", c_int32),
        ("compat_prctl_nr", c_int32),
        ("file_errnos", c_uint64 * 3),
        ("call_errnos", c_uint64 * 3),
        ("successes", c_uint64 * 8),
    ]


class FoldKey(ctypes.Structure):
    _fields_ = [
        ("span", c_uint64),
        ("pid", c_uint32),
        ("kind", c_uint32),
        ("syscall", c_uint32),
        ("error", c_int32),
        ("thing", c_uint32),
        ("pad", c_uint32),
    ]


class Fold(ctypes.Structure):
    _fields_ = [("told_ns", c_uint64), ("told", c_uint32), ("hidden", c_uint32)]


class LossKey(ctypes.Structure):
    _fields_ = [("span", c_uint64), ("kind", c_uint32), ("pad", c_uint32)]


# In the order of enum record_kind.
KINDS: tuple[type[ctypes.Structure], ...] = (
    Record,
    FilterRecord,
    SeccompRecord,
    FollowRecord,
    ExecRecord,
    ExecFailedRecord,
    ForkFailedRecord,
    ExitRecord,
    ConnectRecord,
    OomRecord,
    SignalRecord,
    FileRecord,
    NamespaceRecord,
    RecentRecord,
    CallRecord,
    DnsRecord,
    NamedRecord,
)


def parse(raw: bytes) -> ctypes.Structure:
    """The record of the kind that its head names."""
    kind = int.from_bytes(raw[16:20], sys.byteorder)
    return KINDS[kind].from_buffer_copy(raw)


# The sense that suffers when a record of a kind is lost.
SENSE = {
    1: "seccomp",
    2: "seccomp",
    3: "seccomp",
    4: "exec",
    5: "exec",
    6: "fork",
    7: "exec",
    8: "connect",
    9: "oom",
    10: "oom",
    11: "files",
    12: "exec",
    13: "files",
    14: "seccomp",
    15: "dns",
    16: "exec",
}
ALL = (
    *KINDS,
    FilterInstruction,
    FollowUp,
    CgroupLimit,
    Missing,
    Recent,
    Writer,
    Settings,
    FoldKey,
    Fold,
    LossKey,
)
