"""Tables made from a rule that is known: thresholds, circles, and rare cases (57 of 3,000) of four kinds.

Every table comes as two files' worth of rows, to learn from and to predict. The rule is the same for both; a rare
case's threshold is set so that exactly 57 of the rows to learn from are above it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import make_circles

Array = np.ndarray[Any, Any]
ROWS, RARE = 3000, 57


class Made(NamedTuple):
    """Rows and labels to learn from, and others to predict."""

    x: Array
    y: Array
    new_x: Array
    new_y: Array


def temperature(seed: int) -> Made:
    """One column, warm days: more than 28 degrees of a normal(20, 8)."""
    x = np.random.default_rng([seed, 1]).normal(20, 8, size=(1200, 1))
    return _halves(x, x[:, 0] > 28)


def circles(seed: int) -> Made:
    """scikit-learn's two circles, the inner half as wide."""
    x, y = make_circles(1200, factor=0.5, noise=0.05, random_state=seed)
    return _halves(x, y)


def corner(seed: int) -> Made:
    """Two uniform columns whose sum is more than 1."""
    x = np.random.default_rng([seed, 2]).random((1200, 2))
    return _halves(x, x.sum(axis=1) > 1)


def night(seed: int) -> Made:
    """Rare: large amounts, less large ones between midnight and six; a third column says nothing."""
    rng = np.random.default_rng([seed, 3])
    x = np.column_stack(
        [rng.lognormal(3, 0.6, 2 * ROWS), rng.integers(0, 24, 2 * ROWS), rng.integers(1, 2000, 2 * ROWS)]
    )
    return _rare(x, np.log(x[:, 0]) + (x[:, 1] < 6))


def both(seed: int) -> Made:
    """Rare: large amounts, but only between midnight and six; two more columns say nothing."""
    rng = np.random.default_rng([seed, 4])
    amount, hour = rng.lognormal(4, 1, 2 * ROWS), rng.integers(0, 24, 2 * ROWS)
    x = np.column_stack([amount, hour, rng.normal(40, 12, 2 * ROWS), rng.integers(0, 2, 2 * ROWS)])
    return _rare(x, np.where(hour < 6, np.log(amount), -np.inf))


def weighted(seed: int) -> Made:
    """Rare: a weighted sum of four of five columns, in units from hundredths to hundreds."""
    z = np.random.default_rng([seed, 5]).normal(size=(2 * ROWS, 5))
    return _rare(z * [1, 100, 0.01, 5, 20] + [0, 1000, 0, 3, 50], z @ [2, 1, -1, 0.5, 0])


def far(seed: int) -> Made:
    """Rare: places far from a town's centre in any direction; a third column says nothing."""
    rng = np.random.default_rng([seed, 6])
    z = rng.normal(size=(2 * ROWS, 2))
    x = np.column_stack([7.4 + 0.05 * z[:, 0], 46.9 + 0.03 * z[:, 1], rng.lognormal(3, 0.5, 2 * ROWS)])
    return _rare(x, np.square(z).sum(axis=1))


USUAL: dict[str, Callable[[int], Made]] = {"temperature": temperature, "circles": circles, "a + b > 1": corner}
RARE_CASES: dict[str, Callable[[int], Made]] = {"night": night, "both": both, "weighted": weighted, "far": far}


def found_and_false(predicted: Array, y: Array) -> tuple[int, int]:
    """Rare rows that were found, and others that were taken for them."""
    return int(predicted[y == 1].sum()), int(predicted[y == 0].sum())


def _rare(x: Array, strength: Array) -> Made:
    return _halves(x, strength > np.sort(strength[:ROWS])[-RARE - 1])


def _halves(x: Array, y: Array) -> Made:
    half = len(x) // 2
    x, y = x.astype(np.float32), y.astype(int)
    return Made(x[:half], y[:half], x[half:], y[half:])
