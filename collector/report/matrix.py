"""Counts of failing tests by two of their properties, as a table that fits on a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

OTHERS = "(others)"
Order = Callable[[str], tuple[int, str]]


@dataclass(frozen=True, slots=True)
class Matrix:
    """`cells[row][column]`: failing tests. `ran`: all that ran, of each row."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[int, ...], ...]
    ran: tuple[int, ...]

    @property
    def most(self) -> int:
        return max((cell for row in self.cells for cell in row), default=0)


def matrix(
    failing: Iterable[tuple[str, str]], ran: Counter[str], rows: int, columns: int, order: Order
) -> Matrix:
    """At most so many rows and columns, those with the most failures; the rest are one more.

    `failing` has a row and a column for each failing test; `order` sorts the columns.
    """
    counts = Counter(failing)
    of_row: Counter[str] = Counter()
    of_column: Counter[str] = Counter()
    for (row, column), count in counts.items():
        of_row[row] += count
        of_column[column] += count
    row_names = sorted(_named(of_row, rows), key=lambda name: (-of_row[name], name))
    column_names = sorted(_named(of_column, columns), key=order)
    shown_rows = [*row_names, *([OTHERS] if len(row_names) < len(of_row) else [])]
    shown_columns = [*column_names, *([OTHERS] if len(column_names) < len(of_column) else [])]
    folded: Counter[tuple[str, str]] = Counter()
    for (row, column), count in counts.items():
        folded[_shown(row, row_names), _shown(column, column_names)] += count
    folded_ran: Counter[str] = Counter()
    for row in of_row:
        folded_ran[_shown(row, row_names)] += ran[row]
    return Matrix(
        tuple(shown_rows),
        tuple(shown_columns),
        tuple(tuple(folded[row, column] for column in shown_columns) for row in shown_rows),
        tuple(folded_ran[row] for row in shown_rows),
    )


def _named(counts: Counter[str], limit: int) -> list[str]:
    return [name for name, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))][
        :limit
    ]


def _shown(name: str, names: list[str]) -> str:
    return name if name in names else OTHERS
