"""Tests of whether the similarity of contexts follows a known structure of the tasks."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from crwn._utils import counted
from crwn.data.sources.cifar100_superclasses import SUPERCLASS_OF
from crwn.errors import DataError
from crwn.insight.measures import Matrix, standardize
from crwn.layers.weights import named_generator

Vector = npt.NDArray[np.float64]
PERMUTATIONS = 9999
FULL_TURN = 360.0


@dataclass(frozen=True)
class Structure:
    """A known structure of the tasks: the distance of every pair, `[tasks, tasks]`."""

    name: str
    distances: Matrix


@dataclass(frozen=True)
class Meaning:
    """Result of a Mantel test.

    Args:
        structure: name of the structure that the contexts were compared with.
        correlation: Spearman's correlation of similarity with closeness over all pairs.
        p_value: the share of random permutations of the tasks with at least this correlation.
    """

    structure: str
    correlation: float
    p_value: float
    permutations: int
    pairs: int


def mantel(alike: Matrix, structure: Structure, *, permutations: int = PERMUTATIONS, seed: int = 0) -> Meaning:
    """Mantel test of the correlation between similarity and closeness, by permuting the tasks.

    Pairs are not independent (each task is in many), so an ordinary test of correlation would give p-values that are
    far too small; permuting tasks instead of pairs keeps the dependence.

    Raises:
        DataError: fewer than four tasks, or all pairs are equally far apart.
    """
    from scipy.stats import rankdata

    count = len(alike)
    if alike.shape != structure.distances.shape:
        raise DataError(f"{count} tasks in one matrix, {len(structure.distances)} in the other: they must be the same")
    if count < 4:
        raise DataError(f"{counted(count, 'task')}: a permutation test needs at least 4")
    upper = np.triu_indices(count, k=1)
    closeness = rankdata(-structure.distances[upper])
    if np.ptp(closeness) == 0:
        raise DataError(f'all pairs of tasks are equally far apart by "{structure.name}": there is nothing to test')
    closeness = standardize(closeness)
    ranks = np.zeros_like(alike)
    ranks[upper] = standardize(rankdata(alike[upper]))
    ranks += ranks.T
    found = float(closeness @ ranks[upper]) / len(closeness)
    generator = named_generator("mantel", seed, structure.name)
    as_good = 0
    for _ in range(permutations):
        order = generator.permutation(count)
        by_chance = float(closeness @ ranks[order[upper[0]], order[upper[1]]]) / len(closeness)
        as_good += by_chance >= found - 1e-12
    return Meaning(structure.name, found, (1 + as_good) / (1 + permutations), permutations, len(closeness))


def known_structures(
    factors: Sequence[Mapping[str, float | int | str]], classes: Sequence[Sequence[Hashable]]
) -> list[Structure]:
    """The structures of these tasks in which their pairs differ.

    Angles are periodic, other numeric factors are points on a line. Tasks can share classes, and classes of CIFAR-100
    can share a superclass.
    """
    found = []
    for name in factors[0] if factors else ():
        values = [one.get(name) for one in factors]
        if all(isinstance(value, int | float) for value in values):
            numeric = np.array(values, dtype=np.float64)
            apart = np.abs(numeric[:, None] - numeric)
            if is_angle(name):
                apart = turn_between(numeric[:, None], numeric)
            found.append(Structure(name, apart))
    sets = [set(labels) for labels in classes]
    shared = _apart(lambda i, j: len(sets[i] & sets[j]) / max(1, len(sets[i] | sets[j])), len(sets))
    found.append(Structure("shared classes", shared))
    if all(labels and all(label in SUPERCLASS_OF for label in labels) for labels in classes):
        groups = [np.array([SUPERCLASS_OF[str(label)] for label in labels]) for labels in classes]
        related = _apart(lambda i, j: float((groups[i][:, None] == groups[j]).mean()), len(sets))
        found.append(Structure("shared superclasses", related))
    upper = np.triu_indices(len(classes), k=1)
    return [one for one in found if len(upper[0]) and np.ptp(one.distances[upper]) > 0]


def is_angle(factor: str) -> bool:
    """Whether a factor of this name is an angle in degrees, periodic at 360."""
    return factor in ("angle", "rotation")


def is_share(structure: str) -> bool:
    """Whether a structure is what tasks have in common: its distance is 1 minus a share."""
    return structure.startswith("shared ")


def turn_between(one: npt.ArrayLike, other: npt.ArrayLike) -> Vector:
    """Smallest angle between two directions, in degrees.

    >>> float(turn_between(350.0, 20.0))
    30.0
    """
    apart = np.abs(np.asarray(one, dtype=np.float64) - np.asarray(other, dtype=np.float64)) % FULL_TURN
    found: Vector = np.minimum(apart, FULL_TURN - apart)
    return found


@dataclass(frozen=True)
class Step:
    """Similarity of all pairs of tasks at one distance."""

    distance: float
    mean: float
    low: float  # the middle 90 % of pairs lie between low and high
    high: float
    pairs: int


def by_distance(alike: Matrix, structure: Structure) -> list[Step]:
    """Similarity against known distance, one step for each distinct distance."""
    upper = np.triu_indices(len(alike), k=1)
    distances, values = np.round(structure.distances[upper], 6), alike[upper]
    steps = []
    for distance in np.unique(distances):
        here = values[distances == distance]
        low, high = np.percentile(here, [5, 95])
        steps.append(Step(float(distance), float(here.mean()), float(low), float(high), len(here)))
    return steps


def circular_correlation(one: npt.ArrayLike, other: npt.ArrayLike) -> float:
    """Fisher and Lee's correlation of two sets of directions in degrees: 1 for a pure rotation, -1 for a mirrored one.

    `sum sin(a_i - a_j) sin(b_i - b_j)` over all pairs, divided by the root of the product of both sums of squares.

    >>> round(circular_correlation([0, 90, 180, 270], [30, 120, 210, 300]), 6)
    1.0
    """
    a, b = np.radians(np.asarray(one, dtype=np.float64)), np.radians(np.asarray(other, dtype=np.float64))
    left, right = np.sin(a[:, None] - a), np.sin(b[:, None] - b)
    size = math.sqrt(float((left**2).sum() * (right**2).sum()))
    return float((left * right).sum()) / size if size else 0.0


def goes_round(degrees: npt.ArrayLike) -> bool:
    """Whether angles cover the full circle: no gap is larger than a third of it.

    >>> goes_round([0, 90, 180, 270]), goes_round([0, 10, 20, 30])
    (True, False)
    """
    order = np.sort(np.asarray(degrees, dtype=np.float64) % FULL_TURN)
    return bool(np.diff(order, append=order[0] + FULL_TURN).max() <= FULL_TURN / 3)


def map_angles(places: Matrix) -> Vector:
    """The direction of every task from the centre of the map, in degrees."""
    centred = places[:, :2] - places[:, :2].mean(axis=0)
    found: Vector = np.degrees(np.arctan2(centred[:, 1], centred[:, 0])) % FULL_TURN
    return found


def _apart(alike: Callable[[int, int], float], count: int) -> Matrix:
    matrix = np.zeros((count, count))
    for i in range(count):
        for j in range(i):
            matrix[i, j] = matrix[j, i] = 1.0 - alike(i, j)
    return matrix
