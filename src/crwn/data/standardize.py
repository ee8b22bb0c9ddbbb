"""Standardize a task's inputs: with one mean and standard deviation, or one pair per column or image channel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain

import torch
from torch import Tensor, nn

from crwn.errors import ContextError, DataError
from crwn.models.constant import is_image_row

Scale = float | tuple[float, ...]  # one for all values of a row, or one for each column of a table or image channel
Scaling = tuple[Scale, Scale]
NO_SCALING: Scaling = (0.0, 1.0)
SAMPLE = 10_000
# Rows as long as a square image are a table where the largest column is ten times the median one: pixels do not differ
# so much, except at the border of an image.
UNLIKE = 10.0


def measure_scaling(x: Tensor, *, table: bool | None = None) -> Scaling:
    """Mean and standard deviation of a task's rows, stored in its context: over all values, or column by column.

    Columns are standardized one by one where rows are numbers of a table: not bytes, and not as many as a square image
    has pixels, unless the columns of these differ so much that they are no pixels. `table` decides it where it is
    known.

    >>> measure_scaling(torch.tensor([[1, 3], [3, 1]], dtype=torch.uint8))
    (2.0, 1.0)
    >>> measure_scaling(torch.tensor([[1.0, 0.1, 500.0], [3.0, 0.3, 700.0]]))
    ((2.0, 0.2, 600.0), (1.0, 0.1, 100.0))
    """
    sample = x[:: max(1, len(x) // SAMPLE)].to(torch.float64)
    if table is None:
        flat = x.ndim == 2 and x.is_floating_point()
        table = flat and (not is_image_row(x.shape[1]) or _columns_differ(sample))
    if table:
        return column_scaling(sample)
    return overall_scaling(x)


def column_scaling(x: Tensor) -> Scaling:
    """Mean and standard deviation of every column; a deviation of 1 where a column does not vary."""
    deviations = x.std(dim=0, correction=0)
    deviations = torch.where(deviations > 1e-8, deviations, 1.0)
    # A mean far from zero beside its deviation (dates) needs more digits than six.
    far = bool((x.mean(dim=0).abs() > 1000 * deviations).any())
    return _short(x.mean(dim=0), 12 if far else 6), _short(deviations, 6)


def as_large_as_full(scaling: Scaling, used: int) -> Scaling:
    """The column scaling of rows whose inputs after the first `used` are zero, so that they are as large as full rows.

    Frozen weights are made for rows that use every input: a table with few columns in a wide model would reach the
    hidden layer so small that its activations were almost linear.

    >>> as_large_as_full(((5.0, 0.0, 0.0, 0.0), (2.0, 1.0, 1.0, 1.0)), used=1)
    ((5.0, 0.0, 0.0, 0.0), (1.0, 1.0, 1.0, 1.0))
    """
    means, deviations = scaling
    if not isinstance(means, tuple) or not isinstance(deviations, tuple) or not 0 < used < len(deviations):
        return scaling
    share = (used / len(deviations)) ** 0.5
    return means, (*_short(share * torch.tensor(deviations[:used], dtype=torch.float64), 6), *deviations[used:])


def overall_scaling(x: Tensor) -> tuple[float, float]:
    """Mean and standard deviation over all values, for callers that have scaled their columns already."""
    sample = x[:: max(1, len(x) // SAMPLE)].to(torch.float64)
    std = float(sample.std(correction=0))
    return float(sample.mean()), std if std > 1e-8 else 1.0


def _columns_differ(sample: Tensor) -> bool:
    sizes = sample.abs().amax(dim=0)
    varied = sizes[(sample != sample[0]).any(dim=0)]
    return len(varied) > 1 and float(sizes.max()) > UNLIKE * float(varied.median())


def _short(values: Tensor, digits: int) -> tuple[float, ...]:
    return tuple(float(f"{value:.{digits}g}") for value in values.tolist())


def read_scaling(stored: object) -> Scaling | None:
    """Parse a scaling stored as `[mean, deviation]`, each a number or one per column; None for any other value."""
    if not isinstance(stored, list | tuple) or len(stored) != 2:
        return None
    mean, std = _scale(stored[0]), _scale(stored[1])
    return None if mean is None or std is None else (mean, std)


def _scale(stored: object) -> Scale | None:
    try:
        if isinstance(stored, float | int):
            return float(stored)
        if isinstance(stored, list | tuple):
            if set(map(type, stored)) == {float}:
                return tuple(stored)
            if all(isinstance(value, int | float) for value in stored):
                return tuple(map(float, stored))
    except OverflowError:  # an integer of hundreds of digits
        return None
    return None


def check_scaling(scaling: object, task: str, columns: int | None = None) -> None:
    """Raise ContextError unless the means are at most 1e30 and the deviations positive, one of each per column."""
    match scaling:
        case [mean, std] if _usable(mean, std):
            return
        case [[*means], [*stds]] if len(means) == len(stds) > 0 and columns in (None, len(means)):
            if _all_usable(means, stds) or all(_usable(mean, std) for mean, std in zip(means, stds, strict=True)):
                return
    raise ContextError(
        f'context for task "{task}" has scaling {str(scaling)[:60]}: it must be [mean, deviation > 0], '
        "or a list of each with one for every column"
    )


def _usable(mean: object, std: object) -> bool:
    if not (isinstance(mean, int | float) and isinstance(std, int | float)):
        return False
    # As float32, where larger values are infinite; integers of any length compare with floats.
    return -1e30 < mean < 1e30 and 1e-12 < std < 1e30


def _all_usable(means: list[object], stds: list[object]) -> bool:
    """Like `_usable` of every pair, for lists of floats alone; False if it is not sure."""
    if set(map(type, chain(means, stds))) != {float} or not math.isfinite(sum(chain(means, stds))):  # type: ignore[arg-type]
        return False
    return _usable(min(means), min(stds)) and _usable(max(means), max(stds))  # type: ignore[type-var]


def stack_scalings(several: Sequence[Scaling]) -> Tensor:
    """Means and deviations of several tasks: `[tasks, 2, 1]`, or `[tasks, 2, columns]` if any task has one per column.

    >>> stack_scalings([(1.0, 2.0), ((0.0, 3.0), (4.0, 5.0))]).tolist()
    [[[1.0, 1.0], [2.0, 2.0]], [[0.0, 3.0], [4.0, 5.0]]]
    """
    width = max((len(mean) for mean, _ in several if isinstance(mean, tuple)), default=1)
    pairs = [[_wide(scale, width) for scale in pair] for pair in several]
    return torch.tensor(pairs).view(len(several), 2, width)


def _wide(scale: Scale, width: int) -> list[float]:
    return list(scale) if isinstance(scale, tuple) else [scale] * width


def standardize_per_task(x: Tensor, scalings: Tensor, *, row_ndim: int | None = None) -> Tensor:
    """`(x - mean) / std` with one scaling per entry of x's first dimension, as `stack_scalings` returns them.

    Args:
        x: `[tasks, ..., *row]`.
        scalings: `[tasks, 2, columns or channels]`.
        row_ndim: number of dimensions of one row; all but the first by default. A row of three dimensions is an
            image, and its scaling is per channel.
    """
    row_ndim = x.ndim - 1 if row_ndim is None else row_ndim
    count = len(scalings)
    if row_ndim == 0:
        shape: tuple[int, ...] = (count,)
    elif row_ndim == 3:
        shape = (count, *[1] * (x.ndim - 4), scalings.shape[-1], 1, 1)
    else:
        shape = (count, *[1] * (x.ndim - 2), scalings.shape[-1])
    return (x - scalings[:, 0].view(shape)) / scalings[:, 1].view(shape)


def broadcast_scale(scale: Scale, row_ndim: int) -> Tensor | float:
    """The scale in a shape that broadcasts against rows of `row_ndim` dimensions."""
    if not isinstance(scale, tuple):
        return scale
    values = torch.tensor(scale)
    return values.view(-1, 1, 1) if row_ndim == 3 else values


def standardize(x: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """`(x - mean) / std` of rows; mean and std are scalars, or have one value per column or image channel."""
    if x.ndim == 4 and mean.ndim == 1:
        mean, std = mean.view(-1, 1, 1), std.view(-1, 1, 1)
    return (x - mean) / std


class Standardize:
    """Callable that maps raw rows to `(x - mean) / std` in float32."""

    def __init__(self, scaling: Scaling) -> None:
        self.scaling = scaling

    def __call__(self, batch: Tensor) -> Tensor:
        mean, std = (broadcast_scale(scale, batch.ndim - 1) for scale in self.scaling)
        try:
            return batch.to(torch.float32, copy=True).sub_(mean).div_(std)
        except RuntimeError:
            columns = len(self.scaling[0]) if isinstance(self.scaling[0], tuple) else 1
            raise DataError(
                f"rows have shape {tuple(batch.shape[1:])}, the task learned from rows of {columns} values"
            ) from None


class _ScalingModule(nn.Module):
    """Holds the scaling of one task as buffers."""

    mean: Tensor
    std: Tensor

    def __init__(self, scaling: Scaling) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(scaling[0], dtype=torch.float32))
        self.register_buffer("std", torch.tensor(scaling[1], dtype=torch.float32))


class InputScaling(_ScalingModule):
    """Module that computes `(x - mean) / std` with the scaling of one task."""

    def forward(self, x: Tensor) -> Tensor:
        return standardize(x.to(self.mean.dtype), self.mean, self.std)


class OutputScaling(_ScalingModule):
    """Module that computes `mean + std * y`: standardized numbers in their own units."""

    def forward(self, y: Tensor) -> Tensor:
        return self.mean + self.std * y
