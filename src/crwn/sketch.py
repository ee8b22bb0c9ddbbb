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

SIZE = 128
MOST_NUMBERS = 50_000  # rows larger than this would need a projection of more than 25 MB


@lru_cache(maxsize=4)
def projection(numbers: int) -> Tensor:
    """Random signs that keep inner products on average, `[SIZE, numbers]`; the same for all tasks and processes."""
    signs = named_generator("sketch", numbers).integers(0, 2, size=(SIZE, numbers), dtype=np.int8)
    return torch.from_numpy((signs * 2 - 1).astype(np.float32)).mul_(SIZE**-0.5)


def make_sketch(x: Tensor) -> dict[str, float | str] | None:
    """What a context remembers of its rows, `[rows, ...]` as the model takes them; None where they are too large."""
    rows = x.flatten(1).float()
    if not len(rows) or rows.shape[1] > MOST_NUMBERS:
        return None
    mean = projection(rows.shape[1]) @ rows.mean(dim=0)
    scale = float(mean.abs().max().clamp_min(1e-12)) / 127
    values = torch.round(mean / scale).to(torch.int8).numpy().tobytes()
    return {"scale": float(f"{scale:.6g}"), "values": base64.b64encode(values).decode()}


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


def likely(x: Tensor, sketches: Sequence[object], scalings: Tensor, keep: int) -> list[int]:
    """Positions of the tasks whose own rows these raw rows are most like: `keep` of them, and all without a sketch.

    Nearest mean in the projected space, each task looking at the rows through its own scaling `[tasks, 2]`.
    """
    known, means = open_sketches(sketches)
    if not known or x[0].numel() > MOST_NUMBERS:
        return list(range(len(sketches)))
    matrix = projection(x[0].numel())
    seen, ones = matrix @ x.flatten(1).float().mean(dim=0), matrix.sum(dim=1)
    mean, std = scalings[known, :1], scalings[known, 1:]
    scaled = (seen - mean * ones) / std
    distance = (scaled - means).square().sum(dim=1).nan_to_num(torch.inf)
    best = distance.topk(min(keep, len(known)), largest=False).indices.tolist()
    without = sorted(set(range(len(sketches))) - set(known))
    return [*(known[i] for i in best), *without]
