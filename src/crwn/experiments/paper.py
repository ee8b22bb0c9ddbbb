"""The published results, from paper.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True)
class Published:
    """One cell of a table of the paper; what it does not print is None."""

    accuracy: float
    deviation: float
    params: str | None = None
    ratio: str | None = None
    seconds: float | None = None
    seconds_deviation: float | None = None

    def params_per_task(self, ours: float) -> float:
        """Parameters per task: ours if they round to what the paper prints, else what it prints.

        >>> published("table1", "neuromodnet-256", "rotated").params_per_task(1299)
        1299
        """
        if self.params is None:
            return ours
        unit = {"K": 1e3, "M": 1e6}[self.params[-1]]
        printed = float(self.params[:-1])
        return ours if round(ours / unit) == printed else printed * unit


def published(table: str, row: str | None, column: str) -> Published | None:
    """What the paper prints in a cell, or None where it prints nothing.

    >>> published("table1", "neuromodnet-256", "rotated")
    Published(accuracy=90.59, deviation=0.06, params='1K', ratio='1:207', seconds=None, seconds_deviation=None)
    """
    if row is None:
        return None
    entry = _numbers()[table][row]
    if column not in entry:
        return None
    whole_row = {key: entry[key] for key in ("params", "ratio") if key in entry}
    return Published(**(whole_row | entry[column]))


@cache
def _numbers() -> dict[str, Any]:
    return tomllib.loads(files("crwn.experiments").joinpath("paper.toml").read_text(encoding="utf-8"))
