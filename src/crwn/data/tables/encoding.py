"""How a table becomes numbers: learned from a task's training rows, stored in its context, applied to new rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crwn.data.image_set import Array
from crwn.data.tables.columns import Column, NumberColumn
from crwn.data.tables.table import Table, listed
from crwn.data.tables.text_columns import OneHotColumn, read_column
from crwn.errors import DataError


@dataclass(frozen=True)
class TableEncoding:
    """Columns in the order of the inputs they become.

    Args:
        columns: what is an input, in order.
        label: name of the column with the labels; rows to predict may have it too.
        ignored: names of columns that are not used; rows to predict may have them too.
    """

    columns: tuple[Column, ...]
    label: str = "label"
    ignored: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns that are inputs."""
        return tuple(column.name for column in self.columns)

    @property
    def width(self) -> int:
        """Number of inputs that a row becomes."""
        return sum(column.width for column in self.columns)

    @property
    def plain(self) -> bool:
        """Whether every column is a number without gaps, so that inputs are the cells themselves."""
        return all(column == NumberColumn(column.name) for column in self.columns)

    @property
    def inputs(self) -> tuple[str, ...]:
        """A name for every input: the column's, with what it stands for where a column becomes several."""
        named: list[str] = []
        for column in self.columns:
            if isinstance(column, OneHotColumn):
                named += [f"{column.name}={category}" for category in column.categories]
            elif column.values == 1:
                named.append(column.name)
            else:
                named += [f"{column.name}[{at}]" for at in range(column.values)]
            named += [f"{column.name} missing"] * column.flag
        return tuple(named)

    def apply(self, table: Table, width: int | None = None) -> Array:
        """The rows of a table as float32 inputs `[rows, width]`; columns are found by name, in any order.

        Args:
            width: inputs of the model; narrower rows get zeros up to it.

        Raises:
            DataError: a column is missing or unknown, or a cell is not of its column's kind.
        """
        at = self._places(table)
        if not len(table):
            raise DataError(f"{table.source} has no rows")
        found = self._encoded(table, at)
        if width is None or width <= found.shape[1]:
            return found
        return np.pad(found, ((0, 0), (0, width - found.shape[1])))

    def fits(self, names: Sequence[str]) -> bool:
        """Whether a table with these columns has all that are inputs, and no unknown ones."""
        unknown = set(names) - set(self.names) - {self.label, *self.ignored}
        return not unknown and set(self.names) <= set(names)

    def record(self) -> dict[str, Any]:
        """The encoding as JSON."""
        found: dict[str, Any] = {"columns": [column.record() for column in self.columns]}
        if self.label != "label":
            found["label"] = self.label
        if self.ignored:
            found["ignored"] = list(self.ignored)
        return found

    def _encoded(self, table: Table, at: Sequence[int]) -> Array:
        if self.plain and (block := table.block(at)) is not None:
            return block
        return np.concatenate(
            [column.encode(table.column(place), table.place) for column, place in zip(self.columns, at, strict=True)],
            axis=1,
        )

    def _places(self, table: Table) -> list[int]:
        """Positions in the table of the columns that are inputs."""
        rest = [at for at, name in enumerate(table.names) if name not in {self.label, *self.ignored}]
        names = [table.names[at] for at in rest]
        if names == list(self.names):
            return rest
        missing = [name for name in self.names if name not in names]
        unknown = [name for name in names if name not in self.names]
        if missing or unknown or len(set(names)) < len(names):
            differences = [
                f"{what} {', '.join(map(repr, found[:5]))}"
                for what, found in (("lacks", missing), ("has", unknown))
                if found
            ]
            raise DataError(
                f"{table.source} has other columns than the task was learned from: it "
                f"{' and '.join(differences) or 'repeats names'}; give {listed(self.names)}"
            )
        place = {table.names[at]: at for at in rest}
        return [place[name] for name in self.names]


def read_encoding(stored: object) -> TableEncoding | None:
    """The encoding of a stored record; None where it is none."""
    if not isinstance(stored, dict) or not isinstance(stored.get("columns"), list):
        return None
    label, ignored = stored.get("label", "label"), stored.get("ignored", [])
    try:
        columns = tuple(read_column(record) for record in stored["columns"])
    except (KeyError, TypeError, ValueError):
        return None
    if not columns or not isinstance(label, str) or not isinstance(ignored, list):
        return None
    return TableEncoding(columns, label, tuple(str(name) for name in ignored))
