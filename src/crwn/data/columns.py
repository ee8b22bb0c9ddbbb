"""Reorder the columns of a table by name, so that a file to predict matches the file a task was trained on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crwn.data.image_set import Array
from crwn.errors import DataError


def in_order(x: Array, columns: Sequence[str], wanted: Sequence[str], where: str) -> Array:
    """Return the table with its columns in the order `wanted`.

    Raises:
        DataError: a column is missing, there are additional ones, or names repeat.

    >>> in_order(np.array([[1, 2]]), ("age", "price"), ("price", "age"), "today.csv").tolist()
    [[2, 1]]
    """
    if list(columns) == list(wanted):
        return x
    missing = [name for name in wanted if name not in columns]
    unknown = [name for name in columns if name not in wanted]
    if missing or unknown or len(set(columns)) < len(columns) or len(columns) != len(wanted):
        differences = [
            f"{what} {', '.join(map(repr, names[:5]))}"
            for what, names in (("lacks", missing), ("has", unknown))
            if names
        ]
        raise DataError(
            f"{where} has other columns than the task was learned from: it "
            f"{' and '.join(differences) or 'repeats names'}; "
            f"give {', '.join(wanted[:12])}{', ...' if len(wanted) > 12 else ''}"
        )
    place = {name: at for at, name in enumerate(columns)}
    return np.ascontiguousarray(x[:, [place[name] for name in wanted]])
