"""Parse the cells of a column: missing values, numbers, true and false, dates; text for everything else."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np

# What stands for "no value" in a column of numbers, dates or booleans; compared without case.
MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "?", "-", "--", ".", "<na>"})
TRUE = frozenset({"true", "yes", "t", "y"})
FALSE = frozenset({"false", "no", "f", "n"})
# Tried in this order on columns of text; "iso" is any form of ISO 8601, with or without a time.
FORMATS = (
    "iso", "%d.%m.%Y", "%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S", "%Y/%m/%d", "%Y/%m/%d %H:%M", "%Y/%m/%d %H:%M:%S",
    "%m/%d/%Y", "%m/%d/%Y %H:%M", "%m/%d/%Y %H:%M:%S", "%d/%m/%Y", "%d/%m/%Y %H:%M", "%d/%m/%Y %H:%M:%S",
    "%d %b %Y", "%b %d, %Y", "%d %B %Y", "%B %d, %Y",
)  # fmt: skip
_NULLS = ("NAType", "NaTType")  # of pandas, which compare with nothing
_EPOCH = datetime(2000, 1, 1)


def is_missing(cell: Any) -> bool:
    """Whether a cell of a column of numbers, dates or booleans has no value."""
    if cell is None or type(cell).__name__ in _NULLS:
        return True
    if isinstance(cell, str):
        return cell.strip().lower() in MISSING
    if isinstance(cell, np.datetime64):
        return bool(np.isnat(cell))
    return isinstance(cell, float | np.floating) and math.isnan(cell)


def is_blank(cell: Any) -> bool:
    """Whether a cell of text has no value: text such as "none" is a value there."""
    return not cell.strip() if isinstance(cell, str) else is_missing(cell)


def as_text(cell: Any) -> str:
    """A cell as the text that a category is compared by; whole floats are written as integers.

    >>> as_text(" Bern "), as_text(8001.0)
    ('Bern', '8001')
    """
    if isinstance(cell, float | np.floating) and float(cell).is_integer():
        return str(int(cell))
    return str(cell).strip()


def as_number(cell: Any, comma: bool = False) -> float:
    """A cell as a finite number; `comma` is the decimal comma.

    Raises:
        ValueError: it is none.
    """
    if isinstance(cell, str):
        if "_" in cell:  # Python takes 1_000
            raise ValueError(cell)
        value = float(cell.replace(",", ".") if comma else cell)
    elif isinstance(cell, bool | np.bool_ | int | float | np.integer | np.floating | Decimal):
        value = float(cell)
    else:
        raise ValueError(cell)
    if not abs(value) <= float(np.finfo(np.float32).max):
        raise ValueError(cell)
    return value


def as_boolean(cell: Any) -> float:
    """A cell as 1.0 (true) or 0.0 (false).

    Raises:
        ValueError: it is neither.
    """
    if isinstance(cell, bool | np.bool_):
        return float(cell)
    if isinstance(cell, str):
        text = cell.strip().lower()
        if text in TRUE or text in FALSE:
            return float(text in TRUE)
    if isinstance(cell, str | int | float | np.integer | np.floating) and float(cell) in (0.0, 1.0):
        return float(cell)
    raise ValueError(cell)


def as_days(cell: Any, form: str) -> float:
    """A date as days since the year 2000, with the time as a fraction; time zones are converted to UTC.

    >>> as_days("2000-01-02", "iso"), as_days("02.01.2000 12:00", "%d.%m.%Y %H:%M")
    (1.0, 1.5)

    Raises:
        ValueError: it is no date of this form.
    """
    if isinstance(cell, str):
        text = cell.strip()
        if form != "iso":
            found = datetime.strptime(text, form)
        elif len(text) < 8 or not text[:4].isdigit():  # a bare number is no date
            raise ValueError(cell)
        else:
            found = datetime.fromisoformat(text)
    elif isinstance(cell, datetime):
        found = cell
    elif isinstance(cell, date):
        found = datetime(cell.year, cell.month, cell.day)
    elif isinstance(cell, np.datetime64):
        return float((cell - np.datetime64(_EPOCH)) / np.timedelta64(1, "D"))
    else:
        raise ValueError(cell)
    if found.tzinfo is not None:
        found = found.astimezone(UTC).replace(tzinfo=None)
    return (found - _EPOCH).total_seconds() / 86_400


def date_form(cells: Sequence[Any]) -> str | None:
    """The form of a column of dates, its missing cells left out; None where they are not all dates of one form.

    Of month/day and day/month, the one that all cells allow; month/day where both do.
    """
    if not cells or any(isinstance(cell, int | float | np.number) for cell in cells[:1]):
        return None
    return next((form for form in FORMATS if _all_dates(cells, form)), None)


def _all_dates(cells: Iterable[Any], form: str) -> bool:
    try:
        for cell in cells:
            as_days(cell, form)
    except (ValueError, OverflowError):
        return False
    return True
