"""From the closed form towards the minimum of cross-entropy: quasi-Newton steps whose metric is the normal matrix.

The Hessian of cross-entropy is at most half the normal matrix of squared error, for any context (Böhning, 1992). Its
factor, which the closed form has computed already, is therefore the metric of limited-memory BFGS: the few steps that
are taken correct the bound by the curvature they meet. A step costs one pass over the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from crwn.data.dataset import Rows
from crwn.errors import CRWNError
from crwn.training.exact.accumulate import ENCODED, precision_for, round_rows
from crwn.training.exact.blas import blas_threads
from crwn.training.exact.output_layer import OutputLayer
from crwn.training.exact.solve import NormalEquations, Solution
from crwn.training.exact.statistics import Statistics

Array = npt.NDArray[np.float64]
KEPT_BYTES = 2**30  # features up to this size stay in memory between passes, others are encoded again
PASS_BYTES = 2**23  # of the features multiplied at once: they stay in the cache
HALVINGS = 12  # of a step, before no better context is expected


@dataclass(frozen=True)
class _Features:
    """Features of all rows, block by block: from memory, rounded as in the statistics, or encoded again."""

    layer: OutputLayer
    tensors: Mapping[str, Tensor]
    rows: Rows
    kept: tuple[Tensor, Tensor] | None

    @classmethod
    def of(cls, layer: OutputLayer, tensors: Mapping[str, Tensor], rows: Rows) -> _Features:
        rounded = precision_for(layer.width) == "int8"
        if len(rows) * layer.width * (1 if rounded else 4) > KEPT_BYTES:
            return cls(layer, tensors, rows, None)
        # Features are cast to float when they are multiplied, so a kept float block has a step of one.
        kept = torch.empty(len(rows), layer.width, dtype=torch.int8 if rounded else torch.float32)
        steps = torch.ones(len(rows), 1)
        for start in range(0, len(rows), ENCODED):
            at = slice(start, start + ENCODED)
            h = layer.features(tensors, rows.inputs(at)).float().cpu()
            if rounded:
                kept[at], steps[at, 0] = round_rows(h)
            else:
                kept[at] = h
        return cls(layer, tensors, rows, (kept, steps))

    def __iter__(self) -> Iterator[tuple[slice, Tensor]]:
        size = max(1, PASS_BYTES // (4 * self.layer.width)) if self.kept else ENCODED
        for start in range(0, len(self.rows), size):
            at = slice(start, min(start + size, len(self.rows)))
            if self.kept is None:
                yield at, self.layer.features(self.tensors, self.rows.inputs(at)).float().cpu()
            else:
                yield at, self.kept[0][at].float().mul_(self.kept[1][at])


class _CrossEntropy:
    """Weighted sum of cross-entropy over the rows plus `ridge / 2 * |gain|^2`, and its gradient."""

    def __init__(self, features: _Features, rows: Rows, classes: int, ridge: float) -> None:
        self.features, self.rows, self.ridge = features, rows, ridge
        layer = features.layer
        self.frozen = torch.from_numpy(layer.frozen[:classes])  # [classes, features]
        self.bias = 0.0 if layer.bias is None else torch.from_numpy(layer.bias[:classes]).float()
        self.labels = rows.labels(slice(None))
        self.weight = torch.ones(len(self.labels)) if rows.weight is None else rows.weight

    def __call__(self, gain: Array) -> tuple[float, Array]:
        moved = torch.from_numpy(gain)
        matrix = (self.frozen * moved).T.float().contiguous()  # [features, classes]
        loss, gradient = 0.0, torch.zeros_like(self.frozen)
        for at, h in self.features:
            logp = (h @ matrix + self.bias).log_softmax(dim=1)
            weight = self.weight[at]
            loss -= float((logp.gather(1, self.labels[at, None])[:, 0] * weight).double().sum())
            error = logp.exp()
            error[torch.arange(len(error)), self.labels[at]] -= 1.0
            gradient += (error * weight[:, None]).T.mm(h).double()
        whole = (gradient * self.frozen).sum(dim=0).numpy() + self.ridge * gain
        return loss + 0.5 * self.ridge * float(gain @ gain), whole


@blas_threads()
def newton_steps(
    layer: OutputLayer,
    tensors: Mapping[str, Tensor],
    rows: Rows,
    statistics: Statistics,
    solution: Solution,
    *,
    steps: int,
) -> dict[str, Tensor]:
    """The context after this many steps from the closed form `tensors`, a whole context.

    The ridge is the closed form's, carried over as the precision of a Gaussian prior: `ridge * m / (GCV * s^2)` for
    outputs that are sharpened by s. Where v is fixed nothing but alpha could change, and nothing is done.

    Raises:
        CRWNError: the loss is not finite.
    """
    v, alpha = f"{layer.name}.v", f"{layer.name}.alpha"
    found = dict(tensors)
    if v not in found or len(statistics.classes) < 2:
        return found
    system = NormalEquations(statistics, layer.frozen, layer.bias)
    ridge = solution.ridge * system.unit / (solution.gcv * solution.sharpness**2)
    features = _Features.of(layer, tensors, rows)
    loss = _CrossEntropy(features, rows, len(statistics.classes), ridge)
    factor = system.factor(max(solution.ridge, 1e-6))

    def metric(x: Array) -> Array:
        from scipy import linalg

        found = linalg.cho_solve((factor, True), x.astype(factor.dtype), check_finite=False)
        return 2 / system.unit * np.asarray(found, dtype=np.float64)

    gain = minimize(loss, solution.gain * solution.sharpness, metric, steps)
    size = solution.sharpness if alpha in found else 1.0
    found[v] = torch.from_numpy(gain / size).float()
    return found


def minimize(
    loss: Callable[[Array], tuple[float, Array]], start: Array, metric: Callable[[Array], Array], steps: int
) -> Array:
    """Limited-memory BFGS with a given first metric (an approximate inverse Hessian) and halving of steps."""
    at = start
    value, gradient = loss(at)
    if not np.isfinite(value):
        raise CRWNError(f"cross-entropy of the closed form is {value}: give a larger ridge")
    pairs: list[tuple[Array, Array]] = []
    for _ in range(steps):
        direction = _two_loops(gradient, pairs, metric)
        slope = float(gradient @ direction)
        size = 1.0
        for _ in range(HALVINGS):
            moved = at - size * direction
            tried, new = loss(moved)
            if tried <= value - 1e-4 * size * slope:
                break
            size /= 2
        else:
            return at
        step, change = moved - at, new - gradient
        if float(step @ change) > 0:
            pairs.append((step, change))
        at, value, gradient = moved, tried, new
    return at


def _two_loops(gradient: Array, pairs: list[tuple[Array, Array]], metric: Callable[[Array], Array]) -> Array:
    rest, factors = gradient.copy(), []
    for step, change in reversed(pairs):
        factor = float(step @ rest) / float(step @ change)
        factors.append(factor)
        rest -= factor * change
    found = metric(rest)
    if pairs:  # the bound is too careful: scaled to the curvature of the last step
        step, change = pairs[-1]
        found *= float(step @ change) / float(change @ metric(change))
    for (step, change), factor in zip(pairs, reversed(factors), strict=True):
        found += step * (factor - float(change @ found) / float(step @ change))
    return found
