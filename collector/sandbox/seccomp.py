"""Seccomp filters from a profile's rules: as a program, and as OCI runtimes read them."""

from __future__ import annotations

import ctypes
import ctypes.util
import errno
import tempfile
from collections.abc import Mapping
from typing import Any

from probe.problem import Problem

_ACTIONS = {
    "ALLOW": 0x7FFF0000,
    "LOG": 0x7FFC0000,
    "TRACE": 0x7FF00000,
    "USER_NOTIF": 0x7FC00000,
    "TRAP": 0x00030000,
    "KILL_PROCESS": 0x80000000,
    "KILL_THREAD": 0x00000000,
}
_ERRNO = 0x00050000


def action_value(name: str) -> int:
    """SECCOMP_RET_* of an action's name, or SECCOMP_RET_ERRNO of an errno's."""
    if name in _ACTIONS:
        return _ACTIONS[name]
    number = 0 if name == "ERRNO(0)" else getattr(errno, name, None)
    if number is None:
        raise Problem(f"unknown seccomp action {name!r}", f"use an errno or {', '.join(_ACTIONS)}")
    return _ERRNO + int(number)


def compile_filter(rules: Mapping[str, str], default: str = "ALLOW") -> bytes:
    """A seccomp program for bubblewrap, by the system's libseccomp."""
    library = ctypes.CDLL(ctypes.util.find_library("seccomp") or "libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_init.argtypes = [ctypes.c_uint32]
    library.seccomp_rule_add.argtypes = [
        ctypes.c_void_p,
        ctypes.c_uint32,
        ctypes.c_int,
        ctypes.c_uint,
    ]
    library.seccomp_export_bpf.argtypes = [ctypes.c_void_p, ctypes.c_int]
    library.seccomp_release.argtypes = [ctypes.c_void_p]
    context = library.seccomp_init(action_value(default))
    try:
        for syscall, action in rules.items():
            number = library.seccomp_syscall_resolve_name(syscall.encode())
            if number == -1:
                raise Problem(f"unknown syscall {syscall!r}", "see syscalls(2)")
            library.seccomp_rule_add(context, action_value(action), number, 0)
        with tempfile.TemporaryFile() as file:
            if library.seccomp_export_bpf(context, file.fileno()) != 0:
                raise Problem("libseccomp could not write the filter")
            file.seek(0)
            return file.read()
    finally:
        library.seccomp_release(context)


def oci_filter(rules: Mapping[str, str], default: str = "ALLOW") -> dict[str, Any]:
    """The same as `linux.seccomp` of an OCI runtime specification."""
    return {
        **_oci_action("defaultAction", "defaultErrnoRet", default),
        "syscalls": [
            {"names": [syscall], **_oci_action("action", "errnoRet", action)}
            for syscall, action in rules.items()
        ],
    }


def _oci_action(name: str, returned: str, action: str) -> dict[str, Any]:
    value = action_value(action)
    if action in _ACTIONS:
        return {name: f"SCMP_ACT_{action.replace('USER_NOTIF', 'NOTIFY')}"}
    return {name: "SCMP_ACT_ERRNO", returned: value - _ERRNO}
