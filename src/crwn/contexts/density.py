"""Densities: what the rows of a task look like, in a few kilobytes, to infer the task of a single row.

Every input is predicted from one other input of the row, so that the inputs form a tree:

    x_i = mean_i + slope_i (x_parent(i) - mean_parent(i)) + e_i,   e_i ~ N(0, residual_i).

Of all trees it is the one with the largest likelihood (Chow and Liu, 1968): the maximum spanning tree of the mutual
information of pairs of inputs. Nothing of the rows is kept but means and one covariance for every input.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from crwn.data.dataset import Rows
from crwn.layers.weights import named_generator

Array = npt.NDArray[np.float64]
MOST_INPUTS = 1024  # of longer rows a fixed random choice of inputs is described
FEWEST_ROWS = 64
MOST_ROWS = 2048  # more rows give the same tree
HELD_OUT = 0.25  # share of the rows that the density is measured on and does not learn from
# The least variance of an input given another one, as a share of the rows' scale: an input that was constant in all
# rows seen need not be so in the next. Found on held-out training rows of MNIST (docs/unknown-tasks.md).
FLOOR = 0.1
SLOPE_STEP, LOG_STEP = 1 / 48, 0.05


@dataclass(frozen=True)
class Density:
    """The tree of a task, and what is usual for rows of the task that it was not learned from.

    Args:
        inputs: number of inputs of a row; where there are more than `MOST_INPUTS`, only some are described.
        parent: position of the input that predicts each, its own for the first, `[described]`.
        slope, mean, residual: of the formula above, `[described]`.
        spread: variance over rows of the log-likelihood, divided by that of independent inputs.
        surprise: its mean and deviation over rows of the task.
        rows: the number of rows that these were measured on.
    """

    inputs: int
    parent: Tensor
    slope: Tensor
    mean: Tensor
    residual: Tensor
    spread: float
    surprise: tuple[float, float]
    rows: int


@lru_cache(maxsize=8)
def described(inputs: int) -> Tensor:
    """Positions of the inputs that a density describes: all, or `MOST_INPUTS` of them drawn once for all tasks."""
    if inputs <= MOST_INPUTS:
        return torch.arange(inputs)
    chosen = named_generator("density", inputs).choice(inputs, MOST_INPUTS, replace=False)
    return torch.from_numpy(np.sort(chosen))


def make_density(x: Rows) -> dict[str, Any] | None:
    """The density of a task's standardized rows as JSON; None for fewer than `FEWEST_ROWS` rows, and for images.

    At most `MOST_ROWS` are used, drawn at random, always the same ones: rows are often sorted by class.
    """
    if len(x) < FEWEST_ROWS:
        return None
    order = torch.from_numpy(named_generator("density rows", len(x)).permutation(len(x))[:MOST_ROWS])
    rows = x.select(order).inputs(slice(None))
    if rows.ndim != 2 or rows.shape[1] < 2:
        return None
    some = rows[:, described(rows.shape[1])].double()
    held = torch.arange(len(some)) < round(HELD_OUT * len(some))
    record = {"inputs": rows.shape[1], **_encode(*_tree(some[~held].numpy()))}
    blank = {"spread": 1.0, "surprise": [0.0, 1.0], "rows": 0}
    density = read_density(record | blank)
    if density is None:
        return None
    likelihood, surprise = (part[:, 0] for part in stacked([density]).score(some[held].float()))
    return record | {
        "spread": _short(float(likelihood.var(correction=0)) / (some.shape[1] / 2)),
        "surprise": [_short(float(surprise.mean())), _short(float(surprise.std(correction=0)))],
        "rows": int(held.sum()),
    }


def _tree(x: Array) -> tuple[npt.NDArray[np.int64], Array, Array, Array]:
    """Parent, slope, mean and residual variance of every column."""
    count = x.shape[1]
    mean = x.mean(axis=0)
    centred = (x - mean).astype(np.float32)
    covariance = (centred.T @ centred / len(x)).astype(np.float64)
    covariance[np.diag_indices(count)] += FLOOR
    variance = covariance.diagonal().copy()
    squared = covariance**2 / np.outer(variance, variance)
    squared[np.diag_indices(count)] = 0.0
    information = -0.5 * np.log1p(-np.minimum(squared, 1 - 1e-9))
    first = int(variance.argmax())
    parent = _spanning_tree(information, first)
    slope = covariance[np.arange(count), parent] / variance[parent]
    slope[first] = 0.0
    residual = np.maximum(variance - slope**2 * variance[parent], FLOOR)
    return parent, slope, mean, residual


def _spanning_tree(information: Array, first: int) -> npt.NDArray[np.int64]:
    """The parent of every node in the tree of largest sum, its own for the first (Prim, 1957).

    The graph is dense: this is several times as fast as scipy's, which sorts all edges.
    """
    parent = np.full(len(information), first, dtype=np.int64)
    gain = information[first].copy()
    outside = np.ones(len(information), dtype=bool)
    outside[first] = False
    for _ in range(len(information) - 1):
        node = int(np.where(outside, gain, -np.inf).argmax())
        outside[node] = False
        closer = outside & (information[node] > gain)
        gain[closer] = information[node][closer]
        parent[closer] = node
    return parent


def _encode(parent: npt.NDArray[np.int64], slope: Array, mean: Array, residual: Array) -> dict[str, Any]:
    """The tree in 5 bytes an input before compression."""
    scale = max(float(np.abs(mean).max()), 1e-12) / 127
    columns = (
        parent.astype("<u2"),
        np.clip(np.round(slope / SLOPE_STEP), -127, 127).astype(np.int8),
        np.round(mean / scale).astype(np.int8),
        np.clip(np.round(np.log(residual / FLOOR) / LOG_STEP), 0, 255).astype(np.uint8),
    )
    packed = zlib.compress(b"".join(column.tobytes() for column in columns), 9)
    return {"tree": base64.b64encode(packed).decode(), "scale": _short(scale)}


def read_density(stored: object) -> Density | None:
    """The density of a record that `make_density` made; None where it is not one."""
    match stored:
        case {
            "inputs": int() as inputs,
            "tree": str() as text,
            "scale": int() | float() as scale,
            "spread": int() | float() as spread,
            "surprise": [int() | float() as mean, int() | float() as deviation],
            "rows": int() as rows,
        } if 2 <= inputs <= 2**31 and 0 < scale < 1e30 and spread >= 0 and deviation >= 0:
            pass
        case _:
            return None
    count = min(inputs, MOST_INPUTS)
    try:
        data = zlib.decompressobj().decompress(binascii.a2b_base64(text, strict_mode=True), 5 * count + 1)
    except (binascii.Error, ValueError, zlib.error):
        return None
    if len(data) != 5 * count:
        return None
    parent = np.frombuffer(data, dtype="<u2", count=count).astype(np.int64)
    if int(parent.max()) >= count:
        return None
    rest = np.frombuffer(data, dtype=np.int8, offset=2 * count).reshape(3, count)
    values = rest.astype(np.float32)
    residual = FLOOR * np.exp(LOG_STEP * rest[2].view(np.uint8).astype(np.float32))
    slope, middle, left = (torch.from_numpy(part) for part in (values[0] * SLOPE_STEP, values[1] * scale, residual))
    usual = (float(mean), float(deviation))
    return Density(inputs, torch.from_numpy(parent), slope, middle, left, float(spread), usual, rows)


@dataclass(frozen=True)
class Densities:
    """The trees of several tasks, to score rows under all of them: tensors `[tasks, described]`."""

    parent: Tensor
    slope: Tensor
    mean: Tensor
    residual: Tensor
    constant: Tensor  # of the log-likelihood, [tasks]

    def score(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Log-likelihood and surprise of every row under every task, both `[rows, tasks]`.

        Surprise is the log of the squared errors of the tree, each divided by its usual size, for the squared distance
        of the row from the task's mean: thick digits and thin ones have the same where both are of the task.

        Args:
            rows: described inputs, `[rows, described]`, or `[tasks, rows, described]` scaled for each task.
        """
        likelihoods, surprises = [], []
        for row in rows if rows.ndim == 2 else rows.transpose(0, 1):
            away = row - self.mean
            left = (away - self.slope * away.gather(1, self.parent)).square()
            errors = (left / self.residual).sum(dim=1)
            likelihoods.append(self.constant - 0.5 * errors)
            surprises.append((errors + FLOOR).log() - (away.square().sum(dim=1) + FLOOR).log())
        return torch.stack(likelihoods), torch.stack(surprises)


def stacked(several: Sequence[Density]) -> Densities:
    """Densities of the same inputs as one stack."""
    residual = torch.stack([one.residual for one in several])
    parent, slope, mean = (torch.stack([getattr(one, key) for one in several]) for key in ("parent", "slope", "mean"))
    return Densities(parent, slope, mean, residual, -0.5 * residual.log().sum(dim=1))


def _short(value: float) -> float:
    return float(f"{value:.6g}")
