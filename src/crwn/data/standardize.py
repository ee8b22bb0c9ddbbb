"""How a task scales its inputs: by one mean and deviation, or by those of every column where columns differ in size."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from crwn.errors import ContextError

Scale = float | tuple[float, ...]  # one for all numbers of a row, or one for each column
Scaling = tuple[Scale, Scale]
NO_SCALING: Scaling = (0.0, 1.0)
SAMPLE = 10_000
# A table whose largest column is ten times the middle one has columns of different units. Pixels never look so; and
# so few columns are no pixels, of which some at the border are always small: there the smallest column counts.
UNLIKE = 10.0
FEW = 32


def measure_scaling(x: Tensor) -> Scaling:
    """Mean and deviation of a task's rows, which it keeps with its context: over all numbers, or column by column.

    >>> measure_scaling(torch.tensor([[1.0, 3.0], [3.0, 1.0]]))
    (2.0, 1.0)
    >>> measure_scaling(torch.tensor([[1.0, 0.1, 500.0], [3.0, 0.3, 700.0]]))
    ((2.0, 0.2, 600.0), (1.0, 0.1, 100.0))
    """
    sample = x[:: max(1, len(x) // SAMPLE)].to(torch.float64)
    if x.ndim == 2 and x.is_floating_point() and _columns_differ(sample):
        deviations = sample.std(dim=0, correction=0)
        deviations = torch.where(deviations > 1e-8, deviations, 1.0)
        return _short(sample.mean(dim=0)), _short(deviations)
    return overall_scaling(x)


def overall_scaling(x: Tensor) -> tuple[float, float]:
    """Mean and deviation of all numbers, for callers who have scaled their columns already."""
    sample = x[:: max(1, len(x) // SAMPLE)].to(torch.float64)
    std = float(sample.std(correction=0))
    return float(sample.mean()), std if std > 1e-8 else 1.0


def _columns_differ(sample: Tensor) -> bool:
    sizes = sample.abs().amax(dim=0)
    changing = (sample != sample[0]).any(dim=0)
    varied = sizes[changing]
    if len(varied) < 2:
        return False
    if len(sizes) >= FEW:
        return float(sizes.max()) > UNLIKE * float(varied.median())
    spread = sample[:, changing].std(dim=0, correction=0)
    return any(float(values.max()) > UNLIKE * float(values.min()) for values in (varied, spread))


def _short(values: Tensor) -> tuple[float, ...]:
    return tuple(float(f"{value:.6g}") for value in values.tolist())


def scaling_of(info: Mapping[str, Any]) -> Scaling:
    """The scaling kept among the facts of a context."""
    mean, std = info.get("scaling", NO_SCALING)
    return _scale(mean), _scale(std)


def _scale(kept: Any) -> Scale:
    return tuple(float(value) for value in kept) if isinstance(kept, list | tuple) else float(kept)


def check_scaling(scaling: object, task: str, columns: int | None = None) -> None:
    """Refuse a context from elsewhere whose scaling is not of finite means and positive deviations."""
    match scaling:
        case [mean, std] if _usable(mean, std):
            return
        case [[*means], [*stds]] if len(means) == len(stds) > 0 and columns in (None, len(means)):
            if all(_usable(mean, std) for mean, std in zip(means, stds, strict=True)):
                return
    raise ContextError(
        f'context for task "{task}" has scaling {str(scaling)[:60]}: it must be [mean, deviation > 0], '
        "or a list of each with one for every column"
    )


def _usable(mean: object, std: object) -> bool:
    if not (isinstance(mean, int | float) and isinstance(std, int | float)):
        return False
    return math.isfinite(mean) and 1e-12 < std < 1e30


def scalings(several: Sequence[Scaling]) -> Tensor:
    """Means and deviations of several tasks, `[tasks, 2, 1]`, or `[tasks, 2, columns]` where one has them by column."""
    width = max((len(mean) for mean, _ in several if isinstance(mean, tuple)), default=1)
    pairs = [[_wide(scale, width) for scale in pair] for pair in several]
    return torch.tensor(pairs).view(len(several), 2, width)


def _wide(scale: Scale, width: int) -> list[float]:
    return list(scale) if isinstance(scale, tuple) else [scale] * width


def standardised(x: Tensor, many: Tensor) -> Tensor:
    """`(x - mean) / std`, with a scaling of their own for the first dimension's parts of x: many `[parts, 2, ...]`."""
    spread = (len(many), *[1] * (x.ndim - 2), many.shape[-1]) if x.ndim > 1 else (len(many),)
    return (x - many[:, 0].view(spread)) / many[:, 1].view(spread)


class Standardise:
    """Raw rows -> `(x - mean) / std`, float32."""

    def __init__(self, scaling: Scaling) -> None:
        self.scaling = scaling
        self._mean, self._std = (torch.tensor(scale) if isinstance(scale, tuple) else scale for scale in scaling)

    def __call__(self, batch: Tensor) -> Tensor:
        out = batch.to(torch.float32, copy=True)
        return out.sub_(self._mean).div_(self._std)
