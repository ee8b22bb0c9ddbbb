"""Columns of numbers, dates, and true and false: each makes a fixed number of input values of a cell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

import numpy as np

from crwn.data.image_set import Array
from crwn.data.tables.cells import as_boolean, as_days, as_number, is_missing
from crwn.data.tables.table import Cells
from crwn.errors import DataError

Place = Callable[[int], str]  # row -> where it is, for messages
_YEAR, _WEEK = 365.25, 7.0


@dataclass(frozen=True)
class Column:
    """A column of the table.

    Args:
        name: its name in the file.
        flag: whether cells were missing in the training rows: then one more input is 1 where a cell is missing.
    """

    kind: ClassVar[str]
    name: str
    flag: bool = False

    @property
    def width(self) -> int:
        """Number of inputs that a cell becomes."""
        return self.values + self.flag

    @property
    def values(self) -> int:
        """Number of inputs without the flag."""
        return 1

    def encode(self, cells: Cells, place: Place) -> Array:
        """Inputs `[rows, width]` in float32.

        Raises:
            DataError: a cell is not of this kind, with the column's name and the line.
        """
        missing = np.fromiter((self.lacks(cell) for cell in cells), dtype=bool, count=len(cells))
        out = np.zeros((len(cells), self.width), dtype=np.float32)
        if missing.any():
            if not self.flag:
                self.refuse_missing(place(int(missing.argmax())))
            out[missing, -1] = 1.0
        for row, cell in enumerate(cells):
            if not missing[row]:
                try:
                    out[row, : self.values] = self.inputs(cell)
                except (ValueError, OverflowError):
                    raise DataError(
                        f"{str(cell).strip()[:60]!r} is not {self.what} in column {self.name!r}, {place(row)}"
                    ) from None
        if missing.any():
            out[missing, : self.values] = self.filling()
        return out

    def lacks(self, cell: Any) -> bool:
        """Whether a cell has no value."""
        return is_missing(cell)

    def refuse_missing(self, where: str) -> None:
        """Raise DataError for a missing value in a column that had none in the training rows."""
        raise DataError(
            f"there is nothing in column {self.name!r}, {where}, and no training row lacked it: give a value, "
            "or learn the task from rows of which some lack it"
        )

    @property
    def what(self) -> str:
        """What a cell of this column is, for messages."""
        raise NotImplementedError

    def inputs(self, cell: Any) -> Any:
        """The inputs of a cell that has a value; ValueError where it is not of this kind."""
        raise NotImplementedError

    def filling(self) -> Any:
        """The inputs of a missing cell, beside its flag."""
        return 0.0

    def record(self) -> Any:
        """The column as JSON: fields at their defaults are left out."""
        given = asdict(self)
        unset = {field.name: field.default for field in fields(self)}
        return {"kind": self.kind} | {key: value for key, value in given.items() if value != unset[key]}


@dataclass(frozen=True)
class NumberColumn(Column):
    """A number; a missing one is the median of the training rows. `comma` is the decimal comma."""

    kind = "number"
    median: float = 0.0
    comma: bool = False

    @property
    def what(self) -> str:
        return "a number"

    def encode(self, cells: Cells, place: Place) -> Array:
        if isinstance(cells, np.ndarray) and cells.dtype.kind in "biuf":
            numbers = cells.astype(np.float32)
            if np.isfinite(numbers).all():
                out = np.zeros((len(cells), self.width), dtype=np.float32)
                out[:, 0] = numbers
                return out
        return super().encode(cells, place)

    def inputs(self, cell: Any) -> float:
        return as_number(cell, self.comma)

    def filling(self) -> float:
        return self.median

    def record(self) -> Any:
        # A table of pixels has hundreds of these.
        return self.name if self == NumberColumn(self.name) else super().record()


@dataclass(frozen=True)
class BooleanColumn(Column):
    """True or false, as 1 and 0; a missing one is 0.5."""

    kind = "boolean"

    @property
    def what(self) -> str:
        return "true or false"

    def inputs(self, cell: Any) -> float:
        return as_boolean(cell)

    def filling(self) -> float:
        return 0.5


@dataclass(frozen=True)
class DateColumn(Column):
    """A date: years since 2000, and sine and cosine of its place in the year, in the week and (`times`) in the day.

    A missing date is the median of the training rows.
    """

    kind = "date"
    form: str = "iso"
    times: bool = False
    median: float = 0.0

    @property
    def values(self) -> int:
        return 7 if self.times else 5

    @property
    def what(self) -> str:
        return f"a date like {'2024-12-31' if self.form == 'iso' else self.form}"

    def inputs(self, cell: Any) -> list[float]:
        return self._cycles(as_days(cell, self.form))

    def filling(self) -> list[float]:
        return self._cycles(self.median)

    def _cycles(self, days: float) -> list[float]:
        found = [days / _YEAR]
        for period in (_YEAR, _WEEK, 1.0)[: 3 if self.times else 2]:
            angle = 2 * np.pi * days / period
            found += [float(np.sin(angle)), float(np.cos(angle))]
        return found
