"""Columns of a table by name: what is learned from one file and predicted from another must mean the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crwn.data.image_set import Array
from crwn.errors import DataError


def in_order(x: Array, columns: Sequence[str], wanted: Sequence[str], where: str) -> Array:
    """The table with its columns as wanted.

    Raises:
        DataError: a column is missing, there are others, or names repeat.

    >>> in_order(np.array([[1, 2]]), ("age", "price"), ("price", "age"), "today.csv").tolist()
    [[2, 1]]
    """
    if list(columns) == list(wanted):
        return x
    missing = [name for name in wanted if name not in columns]
    strange = [name for name in columns if name not in wanted]
    if missing or strange or len(set(columns)) < len(columns) or len(columns) != len(wanted):
        said = [
            f"{what} {', '.join(map(repr, names[:5]))}"
            for what, names in (("lacks", missing), ("has", strange))
            if names
        ]
        raise DataError(
            f"{where} has other columns than the task was learned from: it {' and '.join(said) or 'repeats names'}; "
            f"give {', '.join(wanted[:12])}{', ...' if len(wanted) > 12 else ''}"
        )
    place = {name: at for at, name in enumerate(columns)}
    return np.ascontiguousarray(x[:, [place[name] for name in wanted]])
