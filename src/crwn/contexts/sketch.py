"""Sketches: the mean of a task's inputs in 128 bytes, by a fixed random projection, to find likely tasks fast."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from crwn.data.standardize import standardize_per_task
from crwn.layers.weights import named_generator

SIZE = 128
# How far the mean of a group of the task's own rows may be off because the group is no random sample, as a share of
# the mean squared distance of one row.
UNFAIR = 0.8
FAR = 5.0
MOST_FEATURES = 50_000  # larger rows would need a projection of more than 25 MB


@lru_cache(maxsize=4)
def projection(features: int) -> Tensor:
    """Random signs that preserve inner products on average, `[SIZE, features]`; always the same."""
    signs = named_generator("sketch", features).integers(0, 2, size=(SIZE, features), dtype=np.int8)
    return torch.from_numpy((signs * 2 - 1).astype(np.float32)).mul_(SIZE**-0.5)


def make_sketch(x: Tensor) -> dict[str, float | str] | None:
    """The sketch of a task's standardized rows, `[rows, ...]`; None if there are none or they are too large.

    It has the projected mean as int8 with a scale, and mean and deviation of the rows' squared distances from it.
    """
    rows = x.flatten(1).float()
    if not len(rows) or rows.shape[1] > MOST_FEATURES:
        return None
    projected = rows @ projection(rows.shape[1]).T
    mean = projected.mean(dim=0)
    scale = float(mean.abs().max().clamp_min(1e-12)) / 127
    values = torch.round(mean / scale).to(torch.int8).numpy().tobytes()
    far = (projected - mean).square().sum(dim=1)
    return {
        "scale": _short(scale),
        "values": base64.b64encode(values).decode(),
        "distance": _short(float(far.mean())),
        "deviation": _short(float(far.std(correction=0))),
    }


def _short(value: float) -> float:
    return float(f"{value:.6g}")


def open_sketches(kept: Sequence[object]) -> tuple[list[int], Tensor]:
    """Decode sketches: positions of the valid ones, and their projected means `[valid, SIZE]`; others are skipped."""
    known: list[int] = []
    scales: list[float] = []
    values: list[bytes] = []
    for i, one in enumerate(kept):
        match one:
            case {"scale": int() | float() as scale, "values": str() as text} if 0 < scale < 1e30:
                try:
                    data = binascii.a2b_base64(text, strict_mode=True)
                except (binascii.Error, ValueError):
                    continue
                if len(data) == SIZE:
                    known.append(i)
                    scales.append(scale)
                    values.append(data)
    means = np.frombuffer(b"".join(values), dtype=np.int8).reshape(-1, SIZE).astype(np.float32)
    return known, torch.from_numpy(means) * torch.tensor(scales)[:, None]


def distances(x: Tensor, sketches: Sequence[object], scalings: Tensor) -> Tensor:
    """Squared distance of the mean of these raw rows from every task's mean, `[tasks]`; NaN without a valid sketch.

    The rows are standardized for each task with its scaling, `[tasks, 2, 1]` or `[tasks, 2, columns]`.
    """
    found = torch.full((len(sketches),), torch.nan)
    known, means = open_sketches(sketches)
    if known:
        found[known] = mean_distances(x, means, scalings[known])
    return found


def mean_distances(x: Tensor, means: Tensor, scalings: Tensor) -> Tensor:
    """Squared distance of the mean of these raw rows from every projected mean `[tasks, SIZE]`; NaN for a mean of NaN.

    Rows that are too large for sketches have no distances: all are NaN.
    """
    if x[0].numel() > MOST_FEATURES:
        return torch.full((len(means),), torch.nan)
    matrix = projection(x[0].numel())
    mean = x.flatten(1).float().mean(dim=0)
    if scalings.shape[-1] == 1:  # the same as below, with one product for all tasks
        scaled = (matrix @ mean - scalings[:, 0] * matrix.sum(dim=1)) / scalings[:, 1]
    else:
        # An image channel's scaling is that of all of its pixels.
        wide = scalings.repeat_interleave(len(mean) // scalings.shape[-1], dim=-1)
        scaled = standardize_per_task(mean.expand(len(means), -1), wide) @ matrix.T
    far = (scaled - means).square().sum(dim=1).nan_to_num(torch.inf)
    return far.masked_fill(means[:, 0].isnan(), torch.nan)


def likely(x: Tensor, sketches: Sequence[object], scalings: Tensor, keep: int) -> list[int]:
    """Positions of the `keep` tasks whose sketches are nearest to these raw rows, and of all tasks without a sketch."""
    far = distances(x, sketches, scalings)
    unknown = far.isnan()
    known = (~unknown).nonzero()[:, 0]
    best = known[far[known].topk(min(keep, len(known)), largest=False).indices]
    return [*best.tolist(), *unknown.nonzero()[:, 0].tolist()]


def how_far(distance: float, rows: int, kept: object) -> float:
    """A group's squared distance from the task's mean, relative to that of a random sample of the task's rows.

    1 without a valid sketch; at most FAR, because a group of a single class is far from its own task's mean too.

    >>> how_far(2.0, 4, {"distance": 8.0}), how_far(2.0, 16, {"distance": 8.0}), how_far(2.0, 16, None)
    (1.0, 4.0, 1.0)
    """
    match kept:
        case {"distance": int() | float() as mean} if 0 < mean < 1e30 and distance == distance:
            return min(FAR, distance * rows / mean)
        case _:
            return 1.0


def usual(distance: float, rows: int, kept: object) -> float | None:
    """The probability that a group of the task's rows has its mean at least this far off; None without a valid sketch.

    A group need not be a random sample (it may be of one class), so its mean may be off however large it is.
    """
    match kept:
        case {"distance": int() | float() as mean, "deviation": int() | float() as deviation}:
            pass
        case _:
            return None
    if not (0 < mean < 1e30 and 0 <= deviation < 1e30) or distance != distance:
        return None
    shape = torch.tensor(min((mean / max(deviation, 0.05 * mean)) ** 2, 1e4), dtype=torch.float64)
    expected = mean * (1 / rows + UNFAIR)
    return float(torch.special.gammaincc(shape, shape * min(distance / expected, 1e6)))
