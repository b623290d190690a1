"""The seccomp table in force for this process: which calls are allowed, which are not."""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from probe import abi
from probe.doctor import trial
from probe.doctor.dependents import DEPENDENTS
from probe.doctor.section import Section, attempt, fact, passing
from probe.doctor.trial import Question, TrialError
from probe.engine.filters import Answer, Filters

if TYPE_CHECKING:
    from probe.engine.choice import Choice

_PR_GET_SECCOMP = 21  # prctl(2)
_MODES = {"0": "off", "1": "strict", "2": "filter"}
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_QUERY = 0xFFFFFFFF
_ANY = (0,) * 6


def _first(values: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    return {name: (value, 0, 0, 0, 0, 0) for name, value in values.items()}


# What filters tell apart by arguments: a name for each case, and arguments that are one.
# clone(2) with flags first is x86's and ARM's order.
CASES: dict[str, dict[str, tuple[int, ...]]] = {
    "clone": _first(
        {
            "CLONE_NEWUSER": 0x10000000 | signal.SIGCHLD,
            "CLONE_NEWNS": 0x00020000 | signal.SIGCHLD,
            "CLONE_NEWPID": 0x20000000 | signal.SIGCHLD,
            "CLONE_NEWNET": 0x40000000 | signal.SIGCHLD,
            "a plain fork": signal.SIGCHLD,
        }
    ),
    "unshare": _first(
        {"CLONE_NEWUSER": 0x10000000, "CLONE_NEWNS": 0x00020000, "CLONE_NEWNET": 0x40000000}
    ),
    "socket": _first(
        {"unix": 1, "ipv4": 2, "ipv6": 10, "netlink": 16, "packet": 17, "alg": 38, "vsock": 40}
    ),
    "personality": _first(
        {
            "PER_LINUX": 0,
            "PER_LINUX32": 0x0008,
            "UNAME26": 0x0020000,
            "ADDR_NO_RANDOMIZE": 0x0040000,
            "a query": _QUERY,
        }
    ),
    "ioctl": {
        "TIOCSTI": (0, _TIOCSTI, 0, 0, 0, 0),
        "TIOCLINUX": (0, _TIOCLINUX, 0, 0, 0, 0),
        "others": _ANY,
    },
    "ptrace": _first({"PTRACE_TRACEME": 0, "PTRACE_ATTACH": 16, "PTRACE_SEIZE": 0x4206}),
    "mmap": {
        "writable and executable": (0, 4096, 7, 0x22, 0, 0),
        "writable": (0, 4096, 3, 0x22, 0, 0),
    },
    "mprotect": {
        "writable and executable": (0, 4096, 7, 0, 0, 0),
        "executable": (0, 4096, 5, 0, 0, 0),
        "writable": (0, 4096, 3, 0, 0, 0),
    },
}


Table = dict[str, dict[str, str]]  # the answer by call and case


@dataclass
class Syscalls(Section):
    mode: str | None = fact(0.5, "`off`, `filter`, or `strict` (seccomp(2))")
    filters: int | None = fact(0.1, "how many filters lie on each other")
    learned: str | None = passing(
        "how the table was learned: `no filter`, `programs` (copied out of the kernel and "
        "evaluated), `trial` (each call tried under a filter on top that keeps it from being "
        "carried out), or none"
    )
    allowed: list[str] | None = passing("calls that every filter lets through")
    refused: dict[str, str] | None = fact(
        0.8, "calls that are not, with the answer: an errno, `kill`, `trap`, `notify`, `trace`"
    )
    conditional: dict[str, dict[str, str]] | None = fact(
        0.5, "calls whose answer differs by arguments: the cases that were looked at"
    )
    breaks: dict[str, list[str]] | None = passing(
        "well-known programs, with the refused calls they need"
    )


def examine(status: dict[str, str] | None, choice: Choice | Exception) -> Syscalls:
    """By the fields of /proc/self/status. Forks, so no other thread may run."""
    fields, unknown = status or {}, dict[str, str]()
    if status is None:
        unknown["filters"] = "/proc/self/status cannot be read"
    mode = _MODES.get(fields.get("Seccomp") or str(_mode()))
    if status is not None and "Seccomp_filters" not in fields:
        unknown["filters"] = "this kernel does not say"
    if mode is None:
        unknown["mode"] = "neither /proc nor prctl(2) tells"
    try:
        table, learned = _table(mode, choice)
    except TrialError as error:
        names = ("learned", "allowed", "refused", "conditional", "breaks")
        unknown.update(dict.fromkeys(names, str(error)))
        return Syscalls(mode, _count(fields), None, None, None, None, None, unknown=unknown)
    always = {
        name: answers.pop()
        for name, told in table.items()
        if len(answers := set(told.values())) == 1
    }
    refused = {name: answer for name, answer in always.items() if answer != "allow"}
    return Syscalls(
        mode=mode,
        filters=_count(fields),
        learned=learned,
        allowed=sorted(always.keys() - refused.keys()),
        refused=refused,
        conditional={name: told for name, told in table.items() if name not in always},
        breaks=broken(refused),
        unknown=unknown,
    )


def _mode() -> int | None:
    """Without /proc: prctl(2) ends a process in strict mode, and a filter may refuse it."""
    try:
        return attempt(lambda: ctypes.CDLL(None).prctl(_PR_GET_SECCOMP, 0, 0, 0, 0))
    except OSError:
        return None


def _count(fields: Mapping[str, str]) -> int | None:
    count = fields.get("Seccomp_filters")
    return int(count) if count is not None else None


def broken(refused: Mapping[str, str]) -> dict[str, list[str]]:
    """The well-known programs that need what is refused."""
    found: dict[str, list[str]] = {}
    for dependent in DEPENDENTS:
        missing = [name for name in dependent.needs if name in refused]
        if missing:
            found[dependent.program] = missing
    return found


def _table(mode: str | None, choice: Choice | Exception) -> tuple[Table, str]:
    """For each call the answer by case, and how that was learned.

    TrialError where neither way is open.
    """
    if mode == "off":
        return {name: {"": "allow"} for name in abi.syscall_numbers(abi.machine())}, "no filter"
    if not isinstance(choice, Exception):
        from probe.doctor.copies import copied

        found = copied(choice.engine)
        if found is not None:
            return _evaluated(*found), "programs"
    return _tried(), "trial"


def _questions() -> list[tuple[str, str, Question]]:
    numbers = abi.syscall_numbers(abi.machine())
    return [
        (name, case, (number, arguments))
        for name, number in numbers.items()
        for case, arguments in CASES.get(name, {"": _ANY}).items()
    ]


def _tried() -> Table:
    asked = _questions()
    table: Table = {}
    told = trial.answers([question for _, _, question in asked])
    for (name, case, _), answer in zip(asked, told, strict=True):
        table.setdefault(name, {})[case] = _WORDS.get(answer) or _errno(answer)
    return table


_WORDS = {trial.ALLOWED: "allow", trial.KILLED: "kill", trial.TRAPPED: "trap"}


def _errno(number: int) -> str:
    return abi.errno_name(number) if number else "pretended success"


def _evaluated(filters: Filters, top: int) -> Table:
    arch = abi.AUDIT_ARCH[abi.machine()]
    table: Table = {}
    for name, case, (number, arguments) in _questions():
        answer = filters.evaluate(top, number, arch, 0, arguments)
        if answer is not None:
            table.setdefault(name, {})[case] = _in_words(answer)
    for name, possible in filters.possible(top, abi.syscall_numbers(abi.machine()), arch).items():
        unseen = {_in_words(answer) for answer in possible} - set(table[name].values())
        if unseen:
            # The filter asks for something that no case here is about.
            table[name]["with other arguments"] = " or ".join(sorted(unseen))
    return table


def _in_words(answer: Answer) -> str:
    words = {"user_notif": "notify", "kill_process": "kill", "kill_thread": "kill", "log": "allow"}
    if answer.action == "errno":
        return _errno(answer.data)
    return words.get(answer.action, answer.action)
