"""Tasks put in order: hierarchical clustering, and a map on which like tasks stand close."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from crwn.errors import DataError
from crwn.insight.measures import Matrix


@dataclass(frozen=True)
class Tree:
    """Tasks joined step by step, the most alike first: SciPy's linkage, and the order in which leaves stand."""

    linkage: Matrix
    order: list[int]


def cluster(alike: Matrix) -> Tree:
    """Average linkage over `1 - similarity`; leaves are ordered so that neighbours are as alike as they can be."""
    from scipy.cluster.hierarchy import average, leaves_list, optimal_leaf_ordering

    if len(alike) < 2:
        raise DataError(f"{len(alike)} task: at least 2 are needed to compare any")
    distances = _distances(alike)
    linkage = average(distances)
    if len(alike) <= 400:  # the best order takes cubic time
        linkage = optimal_leaf_ordering(linkage, distances)
    return Tree(linkage, [int(leaf) for leaf in leaves_list(linkage)])


def groups(tree: Tree, count: int) -> list[int]:
    """The number of the group every task is in when the tree is cut into at most `count` groups, from 1."""
    from scipy.cluster.hierarchy import fcluster

    return [int(group) for group in fcluster(tree.linkage, count, criterion="maxclust")]


@dataclass(frozen=True)
class Map:
    """Places of the tasks, `[tasks, dimensions]`, and the share of all squared distance each dimension carries."""

    places: Matrix
    shares: list[float]


def make_map(alike: Matrix, dimensions: int = 2) -> Map:
    """Classical multidimensional scaling: the flat picture that keeps most of the squared distances.

    Squared distances are `2 - 2 * similarity`, what they are between unit vectors with these cosines. Exact and
    the same every time, where iterative scaling depends on its random start.
    """
    count = len(alike)
    if count <= dimensions:
        raise DataError(f"{count} tasks cannot be put on a map of {dimensions} dimensions: it takes more tasks")
    centring = np.eye(count) - 1.0 / count
    gram = centring @ alike @ centring
    values, vectors = np.linalg.eigh((gram + gram.T) / 2)
    values, vectors = values[::-1], vectors[:, ::-1]
    kept = np.maximum(values[:dimensions], 0.0)
    places = vectors[:, :dimensions] * np.sqrt(kept)
    # An axis may point either way: let the first task with a clear place stand on the positive side.
    signs: npt.NDArray[np.float64] = np.sign(places[np.abs(places).argmax(axis=0), np.arange(dimensions)])
    total = np.maximum(values, 0.0).sum() or 1.0
    return Map(places * np.where(signs == 0, 1.0, signs), [float(value / total) for value in kept])


def _distances(alike: Matrix) -> Matrix:
    from scipy.spatial.distance import squareform

    apart = 1.0 - (alike + alike.T) / 2
    np.fill_diagonal(apart, 0.0)
    found: Matrix = squareform(np.maximum(apart, 0.0), checks=False)
    return found
