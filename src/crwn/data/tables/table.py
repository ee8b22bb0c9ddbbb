"""A table: rows of named columns whose cells may be numbers, text, dates, true or false, or missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crwn.data.image_set import Array
from crwn.errors import DataError

Cells = Sequence[Any] | Array


@dataclass(frozen=True)
class Table:
    """Columns in their order; names may repeat.

    Args:
        source: where the table comes from, for messages.
        names: the columns' names.
        rows: number of rows.
        column: position of a column -> its cells: text as it is written, Python values, or an array of numbers.
        block: positions of columns -> all their cells as float32 `[rows, columns]`, or None where any of them is not
            a finite number. An alternative to `column` that is fast for wide tables.
        lines: the line of every row in the file, counted from 1; None where rows are counted from 0.
        separator: what separates the columns in the file.
        label: the column with the labels.
        ignored: further columns that are no inputs.
        text: columns that are read as text although their cells are numbers, such as postal codes.
        backbone: the text backbone that embeds all columns of `text`; None embeds those of sentences, by WordLlama.
    """

    source: str
    names: tuple[str, ...]
    rows: int
    column: Callable[[int], Cells]
    block: Callable[[Sequence[int]], Array | None]
    lines: Callable[[], Sequence[int]] | None = None
    separator: str = ","
    label: str = "label"
    ignored: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    backbone: str | None = None

    def __len__(self) -> int:
        return self.rows

    def place(self, row: int) -> str:
        """Where a row is, as an editor counts lines."""
        return f"row {row} (counted from 0)" if self.lines is None else f"line {self.lines()[row]}"

    def find(self, name: str) -> int:
        """The position of the column with this name.

        Raises:
            DataError: no column or several columns have it.
        """
        count = self.names.count(name)
        if count == 1:
            return self.names.index(name)
        if count:
            raise DataError(f"{self.source} has {count} columns named {name!r}: there can be one")
        raise DataError(f"{self.source} has no column {name!r}: it has {listed(self.names)}")

    def select(self, rows: Sequence[int]) -> Table:
        """The table of these rows only."""
        chosen = np.asarray(rows, dtype=np.int64)

        def column(at: int) -> Cells:
            cells = self.column(at)
            return cells[chosen] if isinstance(cells, np.ndarray) else [cells[row] for row in chosen]

        def block(at: Sequence[int]) -> Array | None:
            found = self.block(at)
            return None if found is None else found[chosen]

        lines = self.lines
        chosen_lines = None if lines is None else lambda: [lines()[row] for row in chosen]
        return replace(self, rows=len(chosen), column=column, block=block, lines=chosen_lines)

    def using(self, *, label: str | None = None, ignore: Sequence[str] = (), text: Sequence[str] = ()) -> Table:
        """The table with a column of labels, columns that are not used, and columns that are read as text.

        Raises:
            DataError: there is no such column.
        """
        for name in (*([] if label is None else [label]), *ignore, *text):
            if name not in self.names:
                raise DataError(f"{self.source} has no column {name!r}: it has {listed(self.names)}")
        return replace(self, label=label or self.label, ignored=tuple(ignore), text=tuple(text))


def listed(names: Sequence[str], most: int = 12) -> str:
    """Column names for a message.

    >>> listed(["a", "b"])
    'a, b'
    """
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def table_of_columns(source: str, names: Sequence[str], columns: Sequence[Cells]) -> Table:
    """A table of columns in memory, one array or list of cells each."""

    def block(at: Sequence[int]) -> Array | None:
        arrays = [columns[place] for place in at]
        if not all(isinstance(array, np.ndarray) and array.dtype.kind in "iuf" for array in arrays):
            return None
        stacked = np.column_stack([np.asarray(array, dtype=np.float32) for array in arrays])
        return stacked if np.isfinite(stacked).all() else None

    rows = len(columns[0]) if columns else 0
    return Table(source, tuple(names), rows, lambda at: columns[at], block)


def table_of_objects(rows: Sequence[Mapping[str, Any]], source: str = "rows") -> Table:
    """A table of objects `{column: value}`; a column that a row does not have is a missing value.

    >>> table_of_objects([{"age": 3}, {"city": "Bern"}]).names
    ('age', 'city')
    """
    names = list(dict.fromkeys(str(name) for row in rows for name in row))
    return table_of_columns(source, names, [[row.get(name) for row in rows] for name in names])


def is_texts(x: Any) -> bool:
    """Whether rows are texts: a list or an array of strings."""
    if isinstance(x, np.ndarray):
        return x.ndim == 1 and (x.dtype.kind == "U" or (x.dtype == object and len(x) > 0 and isinstance(x[0], str)))
    return isinstance(x, list | tuple) and len(x) > 0 and all(isinstance(text, str) for text in x)


def table_of_texts(texts: Sequence[str], *, backbone: str | None = None) -> Table:
    """A table of one column, `text`.

    Args:
        backbone: the text backbone that embeds them; by default WordLlama, where they are sentences.

    >>> table_of_texts(["good morning", "good night"]).names
    ('text',)
    """
    table = table_of_columns("texts", ["text"], [[str(text) for text in texts]])
    return replace(table, text=("text",), backbone=backbone)
