"""Lets a command write beneath some directories only: Landlock, as landlock(7) has it.

`python -m collector.sandbox.landlock DIR ... -- CMD ...` restricts itself and becomes CMD.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Sequence

# The same on every architecture; libc has no wrappers for them.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PR_SET_NO_NEW_PRIVS = 38
_PATH_BENEATH = 1
# LANDLOCK_ACCESS_FS_*: all that changes something, of the first version of its interface.
_WRITE_FILE = 1 << 1
_CHANGES = _WRITE_FILE | sum(1 << bit for bit in range(4, 13))

_libc = ctypes.CDLL(None, use_errno=True)


def restrict(writable: Sequence[str]) -> None:
    """From here on, this thread and what it starts change nothing elsewhere. Raises OSError."""
    handled = struct.pack("Q", _CHANGES)
    ruleset = _call(_CREATE_RULESET, handled, len(handled), 0)
    for folder in writable:
        place = os.open(folder, os.O_PATH | os.O_CLOEXEC)
        rule = struct.pack("=Qi", _CHANGES, place)
        _call(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0)
        os.close(place)
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _call(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _call(number: int, *arguments: object) -> int:
    result: int = _libc.syscall(number, *arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def main(arguments: Sequence[str]) -> None:
    split = arguments.index("--")
    restrict(arguments[:split])
    command = list(arguments[split + 1 :])
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
