"""A task's inputs in 128 bytes: the mean of its rows through a fixed random projection, to find likely tasks fast."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from crwn.rows import named_generator
from crwn.scaling import standardised

SIZE = 128
UNFAIR = 0.8  # of one row's mean squared distance: how far off groups of a task's own rows may lie
FAR = 5.0
MOST_NUMBERS = 50_000  # rows larger than this would need a projection of more than 25 MB


@lru_cache(maxsize=4)
def projection(numbers: int) -> Tensor:
    """Random signs that keep inner products on average, `[SIZE, numbers]`; the same for all tasks and processes."""
    signs = named_generator("sketch", numbers).integers(0, 2, size=(SIZE, numbers), dtype=np.int8)
    return torch.from_numpy((signs * 2 - 1).astype(np.float32)).mul_(SIZE**-0.5)


def make_sketch(x: Tensor) -> dict[str, float | str] | None:
    """What a context remembers of its rows, `[rows, ...]` as the model takes them; None where they are too large.

    The projected mean as int8 with a scale, and mean and deviation of the rows' squared distances from it.
    """
    rows = x.flatten(1).float()
    if not len(rows) or rows.shape[1] > MOST_NUMBERS:
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
    """The projected means that `make_sketch` kept, `[known, SIZE]`, and whose they are: nonsense is left out."""
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
    """Squared distance of these raw rows' mean from every task's own, `[tasks]`; NaN where there is no sketch.

    Each task looks at the rows through its own scaling `[tasks, 2, 1]`, or `[tasks, 2, columns]`.
    """
    found = torch.full((len(sketches),), torch.nan)
    known, means = open_sketches(sketches)
    if known and x[0].numel() <= MOST_NUMBERS:
        matrix = projection(x[0].numel())
        mean, own = x.flatten(1).float().mean(dim=0), scalings[known]
        if own.shape[-1] == 1:  # the same as below, with one product for all tasks
            scaled = (matrix @ mean - own[:, 0] * matrix.sum(dim=1)) / own[:, 1]
        else:
            scaled = standardised(mean.expand(len(known), -1), own) @ matrix.T
        found[known] = (scaled - means).square().sum(dim=1).nan_to_num(torch.inf)
    return found


def likely(x: Tensor, sketches: Sequence[object], scalings: Tensor, keep: int) -> list[int]:
    """Positions of the tasks whose own rows these raw rows are most like: `keep` of them, and all without a sketch."""
    far = distances(x, sketches, scalings)
    unknown = far.isnan()
    known = (~unknown).nonzero()[:, 0]
    best = known[far[known].topk(min(keep, len(known)), largest=False).indices]
    return [*best.tolist(), *unknown.nonzero()[:, 0].tolist()]


def how_far(distance: float, rows: int, kept: object) -> float:
    """A group's distance from the task's mean over that of a fair group of its own rows: 1 where it is not known.

    Beyond FAR groups are far, whoever they belong to: one of a single class lies far from its own task's mean too.

    >>> how_far(2.0, 4, {"distance": 8.0}), how_far(2.0, 16, {"distance": 8.0}), how_far(2.0, 16, None)
    (1.0, 4.0, 1.0)
    """
    match kept:
        case {"distance": int() | float() as mean} if 0 < mean < 1e30 and distance == distance:
            return min(FAR, distance * rows / mean)
        case _:
            return 1.0


def usual(distance: float, rows: int, kept: object) -> float | None:
    """The chance that a group of the task's own rows has its mean at least this far; None where that is not known.

    A group need not be a fair sample (all of one class, say), so its mean may lie some way off however large it is.
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
