"""Statistics of rows in bounded memory: features in blocks, and one triangle of their products.

Features of more than `WIDE` entries are rounded to 8 bits, every row with a power of two as its step. Integer
products are several times faster than float32, and exact: what a sum is does not depend on the order of its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from crwn.data.dataset import Rows
from crwn.errors import DataError
from crwn.training.exact.blas import blas_threads
from crwn.training.exact.statistics import Statistics

WIDE = 2048  # features beyond which they are rounded
BLOCK_BYTES = 2**28  # of the features in memory at once
ENCODED = 500  # rows encoded at once: larger blocks leave the cache
PANEL = 1024  # columns of the Gram matrix computed at once
EXACT_ROWS = 1024  # float32 adds this many products of integers up to 127 without rounding
LARGEST = 127

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]
Report = Callable[[int], None]


def precision_for(width: int) -> str:
    """How features of this width are summed: depends on the model alone, so that its statistics can be added."""
    return "int8" if width > WIDE else "float64"


def memory_bytes(width: int) -> int:
    """The most memory that statistics and their solution take: Gram matrix, factor, and one block of features."""
    factor = 8 if precision_for(width) == "float64" else 4
    return (8 + factor) * width * width + 2 * BLOCK_BYTES + 8 * PANEL * width


def block_rows(width: int) -> int:
    """How many rows have their features in memory at once."""
    return max(ENCODED, BLOCK_BYTES // (width * (1 if precision_for(width) == "int8" else 8)))


class HasFeatures(Protocol):
    """Anything that computes features from inputs, given the context of the layers below."""

    def features(self, tensors: Mapping[str, Tensor], x: Tensor) -> Tensor: ...


@blas_threads()
def accumulate(
    layer: HasFeatures,
    tensors: Mapping[str, Tensor],
    rows: Rows,
    into: Statistics,
    *,
    report: Report = lambda done: None,
) -> Statistics:
    """The statistics with these rows added; the given ones are unchanged.

    Args:
        tensors: the context of the layers below the output layer.
        into: statistics to add to; of no rows for a new task.
        report: called with the number of rows done.

    Raises:
        DataError: features are not finite.
    """
    gram, products = into.gram.copy(), into.products.copy()
    weights, counts = into.weights.copy(), into.counts.copy()
    block = block_rows(into.width)
    for start in range(0, len(rows), block):
        at = slice(start, min(start + block, len(rows)))
        labels = rows.labels(at).numpy()
        weight = np.ones(len(labels)) if rows.weight is None else rows.weight[at].double().numpy()
        features = _features(layer, tensors, rows, at)
        if into.precision == "int8":
            _add_rounded(gram, products, features, labels, weight)
        else:
            _add_plain(gram, products, features, labels, weight)
        weights += np.bincount(labels, weight, len(weights))
        counts += np.bincount(labels, minlength=len(counts))
        report(at.stop)
    return replace(into, gram=gram, products=products, weights=weights, counts=counts)


def _features(layer: HasFeatures, tensors: Mapping[str, Tensor], rows: Rows, at: slice) -> Iterator[Tensor]:
    for start in range(at.start, at.stop, ENCODED):
        yield finite_features(layer, tensors, rows, slice(start, min(start + ENCODED, at.stop)))


def finite_features(layer: HasFeatures, tensors: Mapping[str, Tensor], rows: Rows, at: slice) -> Tensor:
    """The features `[rows, features]` of these rows.

    Raises:
        DataError: some are not finite.
    """
    found = layer.features(tensors, rows.inputs(at)).float().cpu()
    # A finite sum has finite terms, and takes a tenth of the time.
    if not bool(torch.isfinite(found.sum())) and not bool(torch.isfinite(found).all()):
        raise DataError(f"features of rows {at.start} to {at.stop - 1} are not finite: check the inputs")
    return found


def _add_plain(gram: Array, products: Array, features: Iterator[Tensor], labels: Labels, weight: Array) -> None:
    from scipy.linalg import blas

    h = torch.cat(list(features)).double().numpy()
    products += (h * weight[:, None]).T @ _one_hot(labels, products.shape[1])
    h *= np.sqrt(weight)[:, None]
    # The upper triangle in Fortran's order is the lower one in C's.
    done = blas.dsyrk(1.0, h.T, beta=1.0, c=gram.T, overwrite_c=True, lower=False)
    if done.base is not gram and not np.shares_memory(done, gram):
        gram[:] = done.T


def _add_rounded(gram: Array, products: Array, features: Iterator[Tensor], labels: Labels, weight: Array) -> None:
    start = 0
    parts: dict[float, list[Tensor]] = {}  # integers `[features, rows]` by their step
    for h in features:
        some = slice(start, start + len(h))
        root = torch.from_numpy(np.sqrt(weight[some]))[:, None]
        wanted = torch.from_numpy(_one_hot(labels[some], products.shape[1])) * root
        plain = bool((root == 1).all())
        h = h if plain else h * root.float()
        step = row_steps(h)
        for value in np.unique(step.numpy()).tolist():
            mine = (step == value).nonzero()[:, 0]
            q = _rounded(h.T.index_select(1, mine), value)
            parts.setdefault(value, []).append(q)
            # w h = sqrt(w) * step * q
            sums = _multiply(q, wanted[mine].to(torch.int8)) if plain else q.double() @ wanted[mine]
            products += value * sums.numpy()
        start += len(h)
    for value, several in parts.items():
        add_products(gram, torch.cat(several, dim=1), value * value)


def round_rows(h: Tensor) -> tuple[Tensor, Tensor]:
    """Features as integers of at most 127 times a power of two for every row: `h ≈ step * q`."""
    step = row_steps(h)
    return _rounded(h, step[:, None]), step


def row_steps(h: Tensor) -> Tensor:
    """The power of two that every row is rounded to a multiple of, `[rows]`."""
    largest = torch.maximum(h.amax(dim=1), -h.amin(dim=1))
    step = torch.exp2(torch.ceil(torch.log2(largest.clamp_min(1e-30) / LARGEST)))
    return torch.where(largest > 0, step, 1.0)


def _rounded(h: Tensor, step: Tensor | float) -> Tensor:
    return (h / step).round_().to(torch.int8)


def add_products(gram: Array, turned: Tensor, scale: float) -> None:
    """`gram += scale * q q^T` for integers q `[features, rows]`, in its lower triangle, panel by panel."""
    sums = torch.from_numpy(gram)
    for left in range(0, len(turned), PANEL):
        some = slice(left, min(left + PANEL, len(turned)))
        sums[left:, some].add_(_multiply(turned[left:], turned[some].T), alpha=scale)


def _multiply(turned: Tensor, q: Tensor) -> Tensor:
    """Exact products of integers, `[features, rows]` times `[rows, columns]`."""
    # Integer products of a single row are wrong for some strides (pytorch/pytorch#195066).
    return _int8_products(turned, q) if _has_int8() and len(q) > 1 else _float_products(turned, q)


def _has_int8() -> bool:
    # Without these instructions integer products saturate on some processors.
    supported: bool = torch.cpu._is_vnni_supported()
    return supported


def _int8_products(turned: Tensor, q: Tensor) -> Tensor:
    found: Tensor = torch._int_mm(turned, q)
    return found


def _float_products(turned: Tensor, q: Tensor) -> Tensor:
    """The same integers by float32, a few rows at a time so that nothing is rounded."""
    total = torch.zeros(len(turned), q.shape[1], dtype=torch.float64)
    for start in range(0, len(q), EXACT_ROWS):
        some = slice(start, start + EXACT_ROWS)
        total += turned[:, some].float() @ q[some].float()
    return total


def _one_hot(labels: Labels, classes: int) -> Array:
    found: Array = np.eye(classes)[labels]
    return found
