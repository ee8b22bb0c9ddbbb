"""Similarity of tasks by their contexts: cosine, Euclidean or rank correlation, over all layers or one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from torch import Tensor

from crwn.contexts.similarity import centred_cosine, flatten
from crwn.errors import ConfigError

Matrix = npt.NDArray[np.float64]


def cosine(vectors: Tensor) -> Matrix:
    """Cosine of every pair after subtracting the mean row: 1 is equal, 0 unrelated, `[tasks, tasks]`."""
    found: Matrix = centred_cosine(vectors).double().numpy()
    return found


def euclidean(vectors: Tensor) -> Matrix:
    """`1 - d / D` for every pair, where d is the distance of two rows and D the largest distance."""
    from scipy.spatial.distance import pdist, squareform

    distances = squareform(pdist(vectors.double().numpy()))
    found: Matrix = 1.0 - distances / (distances.max() or 1.0)
    return found


def rank(vectors: Tensor) -> Matrix:
    """Spearman's rank correlation of every pair after subtracting the mean row; robust to single large values."""
    from scipy.stats import rankdata

    ranks = rankdata((vectors - vectors.mean(dim=0)).double().numpy(), axis=1)
    ranks -= ranks.mean(axis=1, keepdims=True)
    unit = ranks / np.maximum(np.linalg.norm(ranks, axis=1, keepdims=True), 1e-12)
    found: Matrix = np.clip(unit @ unit.T, -1.0, 1.0)
    return found


def standardize(values: npt.ArrayLike) -> Matrix:
    """Values minus their mean, divided by their standard deviation; constant values become zeros.

    >>> standardize([1.0, 3.0]).tolist()
    [-1.0, 1.0]
    """
    array = np.asarray(values, dtype=np.float64)
    found: Matrix = (array - array.mean()) / (array.std() or 1.0)
    return found


MEASURES: dict[str, Callable[[Tensor], Matrix]] = {"cosine": cosine, "euclidean": euclidean, "rank": rank}


def similarity(
    contexts: Sequence[Mapping[str, Tensor]], measure: str = "cosine", *, layer: str | None = None
) -> Matrix:
    """Similarity of every pair of tasks, `[tasks, tasks]`.

    Args:
        contexts: the tensors of each task by context name.
        measure: "cosine", "euclidean" or "rank".
        layer: only the tensors of this layer ("layers.0"); None for all.
    """
    if measure not in MEASURES:
        raise ConfigError(f'unknown measure "{measure}": choose one of {", ".join(MEASURES)}')
    if layer is not None and layer not in layers(contexts[0]):
        raise ConfigError(f'there is no layer "{layer}": choose one of {", ".join(layers(contexts[0]))}')
    return MEASURES[measure](flatten(contexts, only=None if layer is None else f"{layer}."))


def layers(context: Mapping[str, Tensor]) -> list[str]:
    """Names of the layers that a context has learned parameters of, as the model names them.

    >>> import torch
    >>> layers({"layers.0.v": torch.ones(3), "layers.0.alpha": torch.ones(()), "layers.1.v": torch.ones(2)})
    ['layers.0', 'layers.1']
    """
    learned = [name for name in context if not name.endswith(("running_mean", "running_var"))]
    return list(dict.fromkeys(name.rpartition(".")[0] for name in learned))


def nearest_tasks(names: Sequence[str], alike: Matrix, count: int = 3) -> dict[str, list[tuple[str, float]]]:
    """For every task the most similar other tasks with their similarities, most similar first."""
    found: dict[str, list[tuple[str, float]]] = {}
    for i, name in enumerate(names):
        others = [int(j) for j in np.argsort(-alike[i], kind="stable") if j != i]
        found[name] = [(names[j], float(alike[i, j])) for j in others[:count]]
    return found
