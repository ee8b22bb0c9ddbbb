"""Hierarchical clustering of tasks, and a map on which similar tasks are close."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from crwn._utils import counted
from crwn.errors import DataError
from crwn.insight.measures import Matrix


@dataclass(frozen=True)
class Tree:
    """A hierarchical clustering: SciPy's linkage, and the order of the leaves."""

    linkage: Matrix
    order: list[int]


def cluster(alike: Matrix) -> Tree:
    """Average linkage over `1 - similarity`, with leaves ordered so that neighbours are as similar as possible."""
    from scipy.cluster.hierarchy import average, leaves_list, optimal_leaf_ordering

    if len(alike) < 2:
        raise DataError(f"{len(alike)} task: at least 2 are needed to compare any")
    distances = _distances(alike)
    linkage = average(distances)
    if len(alike) <= 400:  # the optimal order takes cubic time
        linkage = optimal_leaf_ordering(linkage, distances)
    return Tree(linkage, [int(leaf) for leaf in leaves_list(linkage)])


def groups(tree: Tree, count: int) -> list[int]:
    """The group of every task, numbered from 1, when the tree is cut into at most `count` groups."""
    from scipy.cluster.hierarchy import fcluster

    return [int(group) for group in fcluster(tree.linkage, count, criterion="maxclust")]


@dataclass(frozen=True)
class Map:
    """Coordinates of the tasks, `[tasks, dimensions]`, and the share of the squared distances in each dimension."""

    places: Matrix
    shares: list[float]


def make_map(alike: Matrix, dimensions: int = 2) -> Map:
    """Classical multidimensional scaling of the squared distances `2 - 2 * similarity`.

    These are the squared distances of unit vectors with these cosines. The solution is exact and deterministic, while
    iterative scaling depends on a random start.
    """
    count = len(alike)
    if count <= dimensions:
        raise DataError(
            f"{counted(count, 'task')} cannot be put on a map of {dimensions} dimensions: it takes more tasks"
        )
    centring = np.eye(count) - 1.0 / count
    gram = centring @ alike @ centring
    values, vectors = np.linalg.eigh((gram + gram.T) / 2)
    values, vectors = values[::-1], vectors[:, ::-1]
    kept = np.maximum(values[:dimensions], 0.0)
    places = vectors[:, :dimensions] * np.sqrt(kept)
    # The sign of an axis is arbitrary: the task farthest from the origin gets a positive coordinate.
    signs: npt.NDArray[np.float64] = np.sign(places[np.abs(places).argmax(axis=0), np.arange(dimensions)])
    total = np.maximum(values, 0.0).sum() or 1.0
    return Map(places * np.where(signs == 0, 1.0, signs), [float(value / total) for value in kept])


def _distances(alike: Matrix) -> Matrix:
    from scipy.spatial.distance import squareform

    apart = 1.0 - (alike + alike.T) / 2
    np.fill_diagonal(apart, 0.0)
    found: Matrix = squareform(np.maximum(apart, 0.0), checks=False)
    return found
