"""The labels in a column of a table."""

from __future__ import annotations

import numpy as np

from crwn.data.arrays import check_labels
from crwn.data.image_set import Array
from crwn.data.tables.cells import as_text, is_blank
from crwn.data.tables.table import Table
from crwn.errors import DataError


def labels_of(table: Table, name: str, *, several: bool = False) -> Array:
    """The labels in a column: integers where all are, else text or the values of a frame.

    Args:
        several: a cell has any number of labels, so an empty one has none of them, and all cells are text.

    Raises:
        DataError: there is no such column, or a row has no label.
    """
    cells = table.column(table.find(name))
    if isinstance(cells, np.ndarray) and cells.dtype.kind != "f":
        return cells
    if several:
        return np.array(["" if is_blank(cell) else as_text(cell) for cell in cells])
    found = [cell.strip() if isinstance(cell, str) else cell for cell in cells]
    for row, cell in enumerate(found):
        if is_blank(cell):
            raise DataError(f"{table.source}: {table.place(row)} has no label in column {name!r}: give every row one")
    kinds = {type(cell) for cell in found}
    if kinds == {str}:
        texts = np.array(found)
        try:
            return texts.astype(np.int64)
        except (ValueError, OverflowError):
            return texts
    if len(kinds) == 1 and kinds <= {bool, int, float}:
        return check_labels(np.array(found), len(found), f"column {name!r} of {table.source}")
    values = np.empty(len(found), dtype=object)
    values[:] = found
    return values
