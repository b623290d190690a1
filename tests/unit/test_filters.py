"""What the evaluator says of a filter against what libseccomp compiled it from."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.sandbox import compile_filter
from probe import abi
from probe.engine.filters import FilterError, Filters, run, seccomp_data

MACHINE = abi.machine()
ARCH = abi.AUDIT_ARCH[MACHINE]
SYSCALLS = sorted(
    abi.syscall_numbers(MACHINE).keys()
    & {
        "mkdirat",
        "unlinkat",
        "ptrace",
        "clone3",
        "socket",
        "personality",
        "keyctl",
        "mount",
        "getpriority",
        "sethostname",
        "bpf",
        "statx",
        "openat2",
        "close_range",
        "getrandom",
    }
)
ACTIONS = {
    "EPERM": ("errno", 1),
    "ENOSYS": ("errno", 38),
    "ERRNO(0)": ("errno", 0),
    "KILL_PROCESS": ("kill_process", 0),
    "KILL_THREAD": ("kill_thread", 0),
    "TRAP": ("trap", 0),
    "TRACE": ("trace", 0),
    "LOG": ("log", 0),
}
NO_ARGS = (0,) * 6


def program(code: bytes) -> list[tuple[int, int, int, int]]:
    return list(struct.iter_unpack("=HBBI", code))


def loaded(*codes: bytes) -> tuple[Filters, int]:
    """Filters stacked in the given order, and the address of the top."""
    filters, below = Filters(), 0
    for number, code in enumerate(codes, 1):
        instructions = program(code)
        for offset in range(0, len(instructions), 256):
            piece = instructions[offset : offset + 256]
            filters.add_piece(number * 64, below, len(instructions), offset, piece)
        below = number * 64
    return filters, below


@given(
    st.dictionaries(st.sampled_from(SYSCALLS), st.sampled_from(sorted(ACTIONS)), max_size=8),
    st.sampled_from(SYSCALLS),
)
def test_each_rule_answers_as_it_was_written(rules: dict[str, str], asked: str) -> None:
    filters, top = loaded(compile_filter(rules))
    number = abi.syscall_numbers(MACHINE)[asked]
    answer = filters.evaluate(top, number, ARCH, 0, NO_ARGS)
    assert answer is not None
    action, data = ACTIONS.get(rules.get(asked, ""), ("allow", 0))
    assert (answer.action, answer.data) == (action, data)


@given(st.sampled_from(sorted(ACTIONS)), st.sampled_from(sorted(ACTIONS)))
def test_the_strictest_filter_of_a_stack_wins(older: str, newer: str) -> None:
    order = ["KILL_PROCESS", "KILL_THREAD", "TRAP", "E", "TRACE", "LOG"]
    rank = {name: order.index("E" if name[0] == "E" else name) for name in ACTIONS}
    filters, top = loaded(compile_filter({"ptrace": older}), compile_filter({"ptrace": newer}))
    answer = filters.evaluate(top, abi.syscall_numbers(MACHINE)["ptrace"], ARCH, 0, NO_ARGS)
    # Of equals the one asked first stays (seccomp_run_filters), which is the newest.
    strictest = newer if rank[newer] <= rank[older] else older
    assert answer is not None
    assert (answer.action, answer.data) == ACTIONS[strictest]


def test_the_default_action_is_named() -> None:
    rules = {"read": "ALLOW", "ptrace": "KILL_PROCESS"}
    filters, top = loaded(compile_filter(rules, default="EPERM"))
    numbers = abi.syscall_numbers(MACHINE)
    told = {}
    for name in ("bpf", "ptrace"):
        data = seccomp_data(numbers[name], ARCH, 0, NO_ARGS)
        answer = filters.evaluate(top, numbers[name], ARCH, 0, NO_ARGS)
        assert answer is not None
        told[name] = filters.rule(top, answer, data)
    assert told == {"bpf": "default action", "ptrace": "rule for this call"}


def test_a_rule_about_arguments_is_named() -> None:
    load = (0x20, 0, 0, 16)  # the low half of args[0]
    code = [load, (0x15, 0, 1, 5), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]
    filters = Filters()
    filters.add_piece(64, 0, len(code), 0, code)
    data = seccomp_data(1, ARCH, 0, (5, 0, 0, 0, 0, 0))
    answer = filters.evaluate(64, 1, ARCH, 0, (5, 0, 0, 0, 0, 0))
    assert answer is not None and answer.action == "errno"
    assert filters.rule(64, answer, data) == "rule for this call with these arguments"


def test_a_program_with_a_lost_piece_stays_unknown() -> None:
    filters = Filters()
    filters.add_piece(64, 0, 300, 256, [(0x06, 0, 0, 0)] * 44)
    assert filters.evaluate(64, 0, ARCH, 0, NO_ARGS) is None


def test_a_filter_at_a_reused_address_replaces_the_old_one() -> None:
    filters = Filters()
    for value, action in ((0x7FFF0000, "allow"), (0x00050001, "errno")):
        filters.add_piece(64, 0, 1, 0, [(0x06, 0, 0, value)])
        answer = filters.evaluate(64, 0, ARCH, 0, NO_ARGS)
        assert answer is not None and answer.action == action


INSTRUCTIONS = st.tuples(
    st.integers(0, 0xFF), st.integers(0, 255), st.integers(0, 255), st.integers(0, 2**32 - 1)
)


@given(st.lists(INSTRUCTIONS, max_size=30).map(tuple), st.binary(min_size=64, max_size=64))
def test_nonsense_ends_in_a_value_or_a_filter_error(
    code: tuple[tuple[int, int, int, int], ...], data: bytes
) -> None:
    try:
        value, at = run(code, data)
    except FilterError:
        return
    assert 0 <= value < 2**32 and 0 <= at < len(code)


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (0x00, 9),
        (0x10, 5),
        (0x20, 14),
        (0x30, 3),
        (0x40, 7),
        (0x50, 2),
        (0x60, 28),
        (0x70, 1),
        (0xA0, 5),
    ],
)
def test_arithmetic(operation: int, expected: int) -> None:
    code = ((0x00, 0, 0, 7), (0x04 | operation, 0, 0, 2), (0x16, 0, 0, 0))
    assert run(code, bytes(64))[0] == expected
