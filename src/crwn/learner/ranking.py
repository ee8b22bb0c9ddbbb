"""Tasks ranked for a group of rows: the number they are ranked by, and the answer "none of these"."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

# Below this fit the rows count as those of no task; rows of the task fall below it in about one group of fifty.
STRANGER = 0.02


class TaskScore(NamedTuple):
    """A task and how well it fits.

    `score`, in 0..1, is what tasks are ranked by: over 0.5 for tasks that the rows may be of, lower the less certain
    the outputs and the less similar the rows to the training rows; under 0.5 where other tasks have more similar
    training rows, under 0.1 where the rows are strange to the task. `fit` is how usual such outputs and such rows are
    for the task, the less usual of the two: near 0 for rows of another kind; None for a context without these
    statistics. `certainty` is one minus the normalised output entropy. `probability` is that of the task among those
    that were compared, calibrated on held-out rows; None where a task has no density (`contexts/density.py`).
    """

    task: str
    score: float
    fit: float | None = None
    certainty: float = 0.0
    probability: float | None = None

    @property
    def strange(self) -> bool:
        """Whether these rows are unlike the training rows of the task."""
        return self.fit is not None and self.fit < STRANGER


class Ranking(list[TaskScore]):
    """Tasks ranked by how well they fit a group of rows, best first."""

    @property
    def none_of_these(self) -> bool | None:
        """Whether none of the tasks fits: the rows are strange even to the best one. None when not known."""
        return none_fits(self)


def ranking_score(cost: float, *, strange: bool, likely: bool = True) -> float:
    """The number that ranks a task: by whether rows are strange to it, then by similar training rows, then by cost.

    >>> [round(ranking_score(0.1, strange=strange), 2) for strange in (False, True)]
    [0.95, 0.1]
    >>> round(ranking_score(0.1, strange=False, likely=False), 2)
    0.46
    """
    low, high = (0.05 * likely, 0.05 + 0.05 * likely) if strange else (0.5, 1.0) if likely else (0.1, 0.5)
    return low + (high - low) * math.exp(-cost)


def none_fits(ranking: Sequence[TaskScore]) -> bool | None:
    """Whether none of the tasks fits: these rows are unusual even for the best one. None when not known."""
    if not ranking or ranking[0].fit is None:
        return None
    return ranking[0].strange
