"""Seccomp filters as the kernel holds them, and what they answer.

A filter is a classic BPF program over struct seccomp_data (seccomp(2)). A task
has a stack of them; each is asked and the strictest answer wins.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Mapping
from dataclasses import dataclass

# Answers in the order of strictness (SECCOMP_RET_ACTION_FULL compares as signed).
ACTIONS = {
    0x80000000: "kill_process",
    0x00000000: "kill_thread",
    0x00030000: "trap",
    0x00050000: "errno",
    0x7FC00000: "user_notif",
    0x7FF00000: "trace",
    0x7FFC0000: "log",
    0x7FFF0000: "allow",
}
_ACTION_MASK = 0xFFFF0000
_DATA_MASK = 0x0000FFFF
_U32 = 0xFFFFFFFF
_NO_SYSCALL = 0x3FFFFFFF  # a number that no rule names

Instruction = tuple[int, int, int, int]  # code, jump_true, jump_false, k


@dataclass(frozen=True, slots=True)
class Answer:
    """What a filter stack says of one call."""

    action: str
    data: int  # the errno of "errno", the tracer's message of "trace"
    filter: int = 0  # which filter of the stack, 0 is the one installed last
    instruction: int = 0  # where its program returned

    @property
    def refuses(self) -> bool:
        return self.action not in ("allow", "log")


class FilterError(ValueError):
    """The program is not one that the kernel would have accepted."""


def run(program: tuple[Instruction, ...], data: bytes) -> tuple[int, int]:
    """The program's return value for one struct seccomp_data, and where it returned.

    Covers what seccomp_check_filter() admits; FilterError otherwise.
    """
    accumulator = index = at = 0
    memory = [0] * 16
    while at < len(program):
        code, jump_true, jump_false, k = program[at]
        kind = code & 0x07
        if kind == 0x06:  # return
            return (accumulator if code & 0x18 == 0x10 else k), at
        if kind == 0x05:  # jump
            if code & 0xF0 == 0x00:
                at += k
            else:
                operand = index if code & 0x08 else k
                at += jump_true if _compare(code & 0xF0, accumulator, operand) else jump_false
        elif kind in (0x00, 0x01):  # load
            value = _load(code, k, data, memory)
            if kind == 0x00:
                accumulator = value
            else:
                index = value
        elif kind == 0x02:
            memory[k & 15] = accumulator
        elif kind == 0x03:
            memory[k & 15] = index
        elif kind == 0x04:
            accumulator = _arithmetic(code & 0xF0, accumulator, index if code & 0x08 else k)
        elif code & 0xF8 == 0x00:  # tax
            index = accumulator
        else:  # txa
            accumulator = index
        at += 1
    raise FilterError("the program ran past its end")


def returns(program: tuple[Instruction, ...], number: int, arch: int) -> set[int]:
    """Every value that the program may return for a call, whatever its arguments.

    What is loaded of arguments and addresses is unknown, and a jump on it is
    followed both ways, so a value too many is possible, one too few is not.
    """
    known = {0: number & _U32, 4: arch}
    found: set[int] = set()
    start = (0, 0, 0, (0,) * 16)
    waiting: list[tuple[int, int | None, int | None, tuple[int | None, ...]]] = [start]
    seen = set()
    while waiting:
        state = waiting.pop()
        at, accumulator, index, memory = state
        if state in seen or at >= len(program):
            continue
        seen.add(state)
        code, jump_true, jump_false, k = program[at]
        kind = code & 0x07
        if kind == 0x06:
            value = accumulator if code & 0x18 == 0x10 else k
            found |= {value} if value is not None else set(ACTIONS)
        elif kind == 0x05 and code & 0xF0 == 0x00:
            waiting.append((at + 1 + k, accumulator, index, memory))
        elif kind == 0x05:
            operand = index if code & 0x08 else k
            both = accumulator is None or operand is None
            for way in (True, False):
                if both or _compare(code & 0xF0, accumulator or 0, operand or 0) == way:
                    step = jump_true if way else jump_false
                    waiting.append((at + 1 + step, accumulator, index, memory))
        else:
            waiting.append((at + 1, *_step(program[at], accumulator, index, memory, known)))
    return found


def _step(
    instruction: Instruction,
    accumulator: int | None,
    index: int | None,
    memory: tuple[int | None, ...],
    known: dict[int, int],
) -> tuple[int | None, int | None, tuple[int | None, ...]]:
    """What an instruction that neither jumps nor returns makes of the registers; None: unknown."""
    code, _, _, k = instruction
    kind, mode = code & 0x07, code & 0xE0
    if kind in (0x00, 0x01):
        loaded = {0x00: k, 0x20: known.get(k), 0x60: memory[k & 15], 0x80: 64}.get(mode)
        return (loaded, index, memory) if kind == 0x00 else (accumulator, loaded, memory)
    if kind in (0x02, 0x03):
        stored = accumulator if kind == 0x02 else index
        return accumulator, index, (*memory[: k & 15], stored, *memory[(k & 15) + 1 :])
    if kind == 0x04:
        operand = index if code & 0x08 else k
        if accumulator is None or operand is None:
            return None, index, memory
        return _arithmetic(code & 0xF0, accumulator, operand), index, memory
    return (accumulator, accumulator, memory) if code & 0xF8 == 0 else (index, index, memory)


def _load(code: int, k: int, data: bytes, memory: list[int]) -> int:
    mode = code & 0xE0
    if mode == 0x20 and k % 4 == 0 and k + 4 <= len(data):
        return int(struct.unpack_from("=I", data, k)[0])
    if mode == 0x00:
        return k
    if mode == 0x60:
        return memory[k & 15]
    if mode == 0x80:
        return len(data)
    raise FilterError(f"load {code:#x} from {k}")


def _compare(operation: int, a: int, b: int) -> bool:
    if operation == 0x10:
        return a == b
    if operation == 0x20:
        return a > b
    if operation == 0x30:
        return a >= b
    if operation == 0x40:
        return bool(a & b)
    raise FilterError(f"jump {operation:#x}")


def _arithmetic(operation: int, a: int, b: int) -> int:
    if operation == 0x30 and b == 0:  # the kernel ends such a program with 0
        return 0
    results = {
        0x00: lambda: a + b,
        0x10: lambda: a - b,
        0x20: lambda: a * b,
        0x30: lambda: a // b,
        0x40: lambda: a | b,
        0x50: lambda: a & b,
        0x60: lambda: a << (b & 31),
        0x70: lambda: a >> (b & 31),
        0x80: lambda: -a,
        0xA0: lambda: a ^ b,
    }
    if operation not in results:
        raise FilterError(f"arithmetic {operation:#x}")
    return results[operation]() & _U32


def _is_ambiguous(instruction: Instruction) -> bool:
    """Returns what a supervisor may still turn into a yes, or an errno that looks like success."""
    code, _, _, k = instruction
    action = ACTIONS.get(k & _ACTION_MASK)
    supervised = action in ("user_notif", "trace")
    return code == 0x06 and (supervised or (action == "errno" and k & _DATA_MASK == 0))


def seccomp_data(number: int, arch: int, ip: int, args: tuple[int, ...]) -> bytes:
    """struct seccomp_data in this machine's byte order."""
    return struct.pack("=IIQ6Q", number & _U32, arch, ip, *args)


def _strictness(value: int) -> int:
    action = value & _ACTION_MASK
    return action - (1 << 32) if action & 0x80000000 else action


class Filters:
    """The programs that the kernel has shown, by the address of their filter."""

    def __init__(self) -> None:
        self.ambiguous = False  # a filter was seen whose answer alone does not tell the outcome
        self._programs: dict[int, tuple[tuple[Instruction, ...], int]] = {}
        self._pieces: dict[int, list[Instruction]] = {}
        self._evaluate = functools.lru_cache(maxsize=4096)(self._evaluate_stack)

    def add_piece(
        self, address: int, previous: int, length: int, offset: int, piece: list[Instruction]
    ) -> None:
        """Takes one record; pieces of a program come in order, and all before it is needed."""
        if offset == 0:
            self._pieces[address] = []
            self._programs.pop(address, None)
            self._evaluate.cache_clear()
        have = self._pieces.get(address)
        if have is None or len(have) != offset:
            return  # an earlier piece was lost, so the program stays unknown
        have.extend(piece[: length - offset])
        if len(have) == length:
            self.ambiguous |= any(_is_ambiguous(instruction) for instruction in have)
            self._programs[address] = tuple(self._pieces.pop(address)), previous

    def tops(self) -> list[int]:
        """The filters that no other one lies on: each stands for a task's whole stack."""
        below = {previous for _, previous in self._programs.values()}
        return [address for address in self._programs if address not in below]

    def stack(self, address: int) -> list[tuple[Instruction, ...]] | None:
        """The programs from the newest to the oldest; None where one is not known."""
        programs = []
        while address:
            if address not in self._programs:
                return None
            program, address = self._programs[address]
            programs.append(program)
        return programs

    def evaluate(
        self, address: int, number: int, arch: int, ip: int, args: tuple[int, ...]
    ) -> Answer | None:
        """What the stack under `address` answers; None where it is not known."""
        return self._evaluate(address, seccomp_data(number, arch, ip, args))

    def _evaluate_stack(self, address: int, data: bytes) -> Answer | None:
        stack = self.stack(address)
        if not stack:
            return None
        strictest = Answer("allow", 0)
        lowest = 0x7FFF0000
        for position, program in enumerate(stack):
            value, at = run(program, data)
            if _strictness(value) < lowest:
                lowest = _strictness(value)
                action = ACTIONS.get(value & _ACTION_MASK, "kill_process")
                strictest = Answer(action, value & _DATA_MASK, position, at)
        return strictest

    def possible(
        self, address: int, numbers: Mapping[str, int], arch: int
    ) -> dict[str, list[Answer]]:
        """What a known stack may answer to each of the named calls, whatever their arguments."""
        stack = self.stack(address) or []
        found = {}
        for name, number in numbers.items():
            # The strictest of any combination is one of the single values.
            values = [returns(program, number, arch) for program in stack]
            least = min(max(_strictness(value) for value in each) for each in values)
            reached = {value for each in values for value in each if _strictness(value) <= least}
            found[name] = [
                Answer(ACTIONS.get(value & _ACTION_MASK, "kill_process"), value & _DATA_MASK)
                for value in sorted(reached)
            ]
        return found

    def rule(self, address: int, answer: Answer, data: bytes) -> str:
        """Which rule gave the answer, in words: the default action, or one for the call."""
        stack = self.stack(address) or []
        number, arch, ip = struct.unpack_from("=IIQ", data)
        program = stack[answer.filter]
        which = f"filter {answer.filter + 1} of {len(stack)}: " if len(stack) > 1 else ""
        unknown = seccomp_data(_NO_SYSCALL, arch, ip, (0,) * 6)
        if run(program, unknown)[1] == answer.instruction:
            return which + "default action"
        told = run(program, data)[0]
        for filler in (0, (1 << 64) - 1):
            if run(program, seccomp_data(number, arch, ip, (filler,) * 6))[0] != told:
                return which + "rule for this call with these arguments"
        return which + "rule for this call"
