"""Measures of a run from its accuracies: average, forgetting, transfer, and their spread over seeds. In percent."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def average(values: Sequence[float]) -> float:
    return statistics.fmean(values)


def deviation(values: Sequence[float]) -> float:
    """Sample standard deviation over seeds; 0 where there is only one.

    >>> deviation([90.0, 92.0, 94.0])
    2.0
    """
    return statistics.stdev(values) if len(values) > 1 else 0.0


def forgetting(after: Sequence[float], final: Sequence[float]) -> float:
    """Mean loss of accuracy from right after learning a task to the end, over all tasks but the last.

    The last task cannot be forgotten: its two evaluations follow each other. Negative where tasks improved.

    >>> forgetting(after=[98.0, 97.0, 96.0], final=[60.0, 81.0, 96.0])
    27.0
    """
    if len(after) != len(final):
        raise ValueError(f"{len(after)} accuracies after learning but {len(final)} at the end")
    if len(final) < 2:
        return 0.0
    return average([then - now for then, now in zip(after[:-1], final[:-1], strict=True)])


def backward_transfer(after: Sequence[float], final: Sequence[float]) -> float:
    """Mean gain of earlier tasks from learning later ones: the opposite of forgetting.

    >>> backward_transfer(after=[98.0, 96.0], final=[60.0, 96.0])
    -38.0
    """
    return 0.0 - forgetting(after, final)


def forward_transfer(before: Sequence[float | None], untrained: Sequence[float | None]) -> float | None:
    """Mean head start of a task, before it is learned, over the untrained network; None where it was not measured.

    >>> forward_transfer(before=[10.0, 50.0, 70.0], untrained=[10.0, 10.0, 12.0])
    49.0
    """
    gains = [
        ahead - start
        for ahead, start in zip(before[1:], untrained[1:], strict=True)
        if ahead is not None and start is not None
    ]
    return average(gains) if gains and len(gains) == len(before) - 1 else None
