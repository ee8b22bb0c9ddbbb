"""A labelled dataset of images or of plain rows, split into training and test rows."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from crwn.errors import DataError
from crwn.layers.weights import named_generator

Array = NDArray[Any]


@dataclass(frozen=True)
class ImageSet:
    """Raw rows with their classes; many tasks can share one dataset.

    Args:
        name: the dataset's name in the cache.
        classes: label values in the order of the class indices.
        shape: shape of one raw row: `(28, 28)`, `(3, 32, 32)`, or `(features,)` for tables.
        x_train: `[N, *shape]`, uint8 or float32, memory-mapped.
        y_train: class indices, `[N]` int64.
        x_test: `[M, *shape]`.
        y_test: `[M]` int64.
        mean: mean of the values (uint8 scaled to 0...1): one, or one per channel (images) or per column (tables).
        std: standard deviation, like `mean`.
    """

    name: str
    classes: tuple[Hashable, ...]
    shape: tuple[int, ...]
    x_train: Tensor
    y_train: Tensor
    x_test: Tensor
    y_test: Tensor
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @property
    def features(self) -> int:
        """Number of values of one row."""
        return int(np.prod(self.shape))

    @property
    def unit(self) -> float:
        """What a raw value is divided by before normalisation."""
        return 255.0 if not self.x_train.is_floating_point() else 1.0


@dataclass(frozen=True)
class Arrays:
    """A dataset to be written to the cache: checked NumPy arrays, and their source."""

    x_train: Array
    y_train: Array
    x_test: Array
    y_test: Array
    classes: tuple[Hashable, ...]
    source: str
    mean: tuple[float, ...]
    std: tuple[float, ...]


def statistics(x: Array) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation: per channel for colour images, per column for tables, else one of each."""
    unit = 255.0 if x.dtype == np.uint8 else 1.0
    if x.ndim == 4:
        parts = [x[:, channel] for channel in range(x.shape[1])]
    elif x.ndim == 2:
        columns = x.astype(np.float64) / unit
        std = columns.std(axis=0)
        return tuple(columns.mean(axis=0).tolist()), tuple(np.where(std > 1e-6, std, 1.0).tolist())
    else:
        parts = [x]
    means, deviations = [], []
    for part in parts:
        if part.dtype == np.uint8:
            # Computed from 256 counts, without a float copy of the images.
            counts = np.bincount(part.reshape(-1), minlength=256).astype(np.float64)
            values = np.arange(256) / unit
            mean = float((counts * values).sum() / counts.sum())
            variance = float((counts * (values - mean) ** 2).sum() / counts.sum())
        else:
            mean, variance = float(part.mean(dtype=np.float64)), float(part.var(dtype=np.float64))
        means.append(mean)
        deviations.append(variance**0.5 if variance > 1e-12 else 1.0)
    return tuple(means), tuple(deviations)


def hold_out(y: Array, *, share: float = 0.2, key: str) -> tuple[Array, Array]:
    """Positions of training and test rows: a `share` of every class is held out, drawn from `key` alone."""
    test: list[Array] = []
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        count = round(len(rows) * share)
        if count == 0 and len(rows) > 1:
            count = 1
        test.append(named_generator("hold out", key, int(label)).permutation(rows)[:count])
    test_rows = np.sort(np.concatenate(test))
    keep = np.ones(len(y), dtype=bool)
    keep[test_rows] = False
    return np.flatnonzero(keep), test_rows


def index_labels(labels: Array, classes: Sequence[Hashable] | None = None) -> tuple[Array, tuple[Hashable, ...]]:
    """Class indices (int64) of label values, and the classes; sorted if they are not given."""
    if classes is None:
        classes = tuple(np.unique(labels).tolist())
    position = {label: at for at, label in enumerate(classes)}
    try:
        values, inverse = np.unique(labels, return_inverse=True)
        table = np.array([position[value] for value in values.tolist()], dtype=np.int64)
    except KeyError as error:
        raise DataError(f"test label {error.args[0]!r} is not among the {len(classes)} classes of training") from None
    return table[inverse.reshape(-1)], tuple(classes)
