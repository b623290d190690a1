"""The decoder's view of bpf/events.h against the C compiler's, field by field."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

import pytest

from probe.engine import core, records
from probe.engine.bcc import engine as bcc

ROOT = Path(__file__).parent.parent.parent
PRELUDE = """
#include <stddef.h>
#include <stdio.h>
#include <linux/types.h>
#include "events.h"
"""


def c_name(structure: type[ctypes.Structure]) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", structure.__name__).lower()


def compiled(lines: list[str], folder: Path) -> list[list[str]]:
    """Compiles a program of the given statements; the words of each line that it prints."""
    source = folder / "layout.c"
    source.write_text(PRELUDE + "int main(void) {\n" + "\n".join(lines) + "\nreturn 0; }\n")
    binary = folder / "layout"
    subprocess.run(["cc", "-I", ROOT / "bpf", "-o", binary, source], check=True)
    output = subprocess.run([binary], capture_output=True, text=True, check=True).stdout
    return [line.split() for line in output.splitlines()]


def test_every_field_lies_where_c_puts_it(tmp_path: Path) -> None:
    statements, expected = [], []
    for structure in records.ALL:
        name = c_name(structure)
        statements.append(f'printf("{name} %zu\\n", sizeof(struct {name}));')
        expected.append([name, str(ctypes.sizeof(structure))])
        for field, *_ in structure._fields_:
            statements.append(
                f'printf("{name}.{field} %zu %zu\\n", offsetof(struct {name}, {field}), '
                f"sizeof(((struct {name} *)0)->{field}));"
            )
            place = getattr(structure, field)
            expected.append([f"{name}.{field}", str(place.offset), str(place.size)])
    assert compiled(statements, tmp_path) == expected


def test_no_structure_has_holes() -> None:
    for structure in records.ALL:
        sizes = sum(getattr(structure, field).size for field, *_ in structure._fields_)
        assert sizes == ctypes.sizeof(structure), c_name(structure)


def test_kinds_and_actions_have_the_numbers_of_the_header(tmp_path: Path) -> None:
    names = ["RECORD_" + c_name(kind).removesuffix("_record").upper() for kind in records.KINDS[1:]]
    actions = {name: number for name, number in vars(records).items() if name.startswith("ACTION_")}
    statements = [f'printf("%d\\n", {name});' for name in [*names, "RECORD_KINDS", *actions]]
    numbers = [int(line[0]) for line in compiled(statements, tmp_path)]
    assert numbers == [*range(1, len(records.KINDS) + 1), *actions.values()]


@pytest.mark.parametrize("name", [n for n in vars(records) if n.isupper() and n[0] != "_"])
def test_constants_are_those_of_the_header(name: str, tmp_path: Path) -> None:
    value = getattr(records, name)
    if isinstance(value, int) and not name.startswith("ACTION_"):
        assert compiled([f'printf("%llu\\n", (unsigned long long){name});'], tmp_path) == [
            [str(value)]
        ]


def test_the_task_state_matches_its_map(tmp_path: Path) -> None:
    """struct task_state is the kernel's own, but user space writes the span into it."""
    header = (ROOT / "bpf" / "task.h").read_text()
    start = header.index("struct task_state {")
    structure = header[start : header.index("};", start) + 2].replace("u64", "__u64")
    structure = structure.replace("u32", "__u32")
    statement = f'{structure} printf("%zu\\n", sizeof(struct task_state));'
    assert compiled([statement], tmp_path) == [[str(ctypes.sizeof(core._TaskState))]]


@pytest.mark.parametrize(
    ("name", "mirror"), [("task", bcc._Task), ("socket", bcc._Socket)], ids=lambda value: str(value)
)
def test_what_bcc_shares_matches_its_maps(
    name: str, mirror: type[ctypes.Structure], tmp_path: Path
) -> None:
    header = (ROOT / "bpf" / "bcc" / "task.h").read_text()
    start = header.index(f"struct {name} {{")
    structure = header[start : header.index("\n};", start) + 3]
    for size in (8, 16, 32, 64):
        structure = re.sub(rf"\bu{size}\b", f"__u{size}", structure)
    fields = [field[0] for field in mirror._fields_]
    offsets = [f'printf("%zu\\n", offsetof(struct {name}, {field}));' for field in fields]
    statements = [f'{structure} printf("%zu\\n", sizeof(struct {name}));', *offsets]
    expected = [ctypes.sizeof(mirror), *(getattr(mirror, field).offset for field in fields)]
    assert compiled(statements, tmp_path) == [[str(number)] for number in expected]
