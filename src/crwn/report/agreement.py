"""How the records agree with the paper: its cells that were run at full length, and how many of those are close."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from crwn.experiments.suite import Filled
from crwn.report.tables import Table

CLOSE = 0.5  # points above or below
SEEDS = 3


def is_close(difference: float) -> bool:
    """Whether an accuracy is within half a point of the paper's, above or below.

    >>> is_close(-0.5), is_close(0.51)
    (True, False)
    """
    return abs(round(difference, 2)) <= CLOSE


@dataclass(frozen=True)
class Agreement:
    """The cells of one table that the paper prints, with our records: of these, those at full length, and so on."""

    cells: list[Filled]

    @property
    def full(self) -> list[Filled]:
        return [cell for cell in self.cells if cell.results and not cell.unusual]

    @property
    def close(self) -> list[Filled]:
        return [cell for cell in self.full if is_close(cell.difference or 0.0)]

    @property
    def apart(self) -> list[Filled]:
        """Cells at full length that differ by more than half a point, above as well as below."""
        return [cell for cell in self.full if not is_close(cell.difference or 0.0)]

    @property
    def with_seeds(self) -> list[Filled]:
        return [cell for cell in self.full if len(cell.results) >= SEEDS]

    @property
    def in_bf16(self) -> list[Filled]:
        return [cell for cell in self.full if cell.in_bf16]


def agreement(filled: Sequence[Filled]) -> Agreement:
    """Return the paper's cells of a table.

    Where several rows stand beside one cell of the paper (joint training, Hadamard weights), the first row is the
    one that follows it, and only that is counted.
    """
    first: dict[tuple[str | None, str], Filled] = {}
    for cell in filled:
        if cell.cell.published is not None:
            first.setdefault((cell.cell.row.paper, cell.cell.column.key), cell)
    return Agreement(list(first.values()))


def agreement_table(tables: Mapping[str, Sequence[Filled]]) -> Table:
    """Return the counts of every table, by its title, and their sums."""
    close, seeds = f"full length, within {CLOSE}", f"full length, {SEEDS} seeds"
    head = ["table", "cells of the paper", "at full length", close, seeds, "full length, in bf16"]
    found = [agreement(filled) for filled in tables.values()]
    counts = [[len(cells) for cells in (one.cells, one.full, one.close, one.with_seeds, one.in_bf16)] for one in found]
    rows = [[title, *map(str, row)] for title, row in zip(tables, counts, strict=True)]
    return Table(head, [*rows, ["all", *(str(sum(column)) for column in zip(*counts, strict=True))]])


def agreement_text(filled: Sequence[Filled]) -> str:
    """Return which cells at full length differ from the paper by more than half a point, as a sentence."""
    found = agreement(filled)
    if not found.full:
        return f"None of the paper's {len(found.cells)} cells was run at full length."
    text = (
        f"Of the paper's {len(found.cells)} cells {len(found.full)} were run at full length; {len(found.close)} of "
        f"these are within {CLOSE} points of it, above or below, and {len(found.with_seeds)} have {SEEDS} seeds."
    )
    if found.apart:
        text += f" Further away: {', '.join(_apart(cell) for cell in found.apart)}."
    return text


def _apart(cell: Filled) -> str:
    text = f"{cell.cell.row.label} on {cell.cell.column.label} ({cell.difference:+.2f}"
    if cell.forgetting:
        text += f"; right after learning {cell.right_after:.2f}"
    return text + ")"
