"""Similarity of contexts: cosine after subtracting the mean context, which reflects the tasks' common start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor


def flatten(contexts: Sequence[Mapping[str, Tensor]], *, only: str | None = None) -> Tensor:
    """Contexts as rows of one matrix, `[tasks, parameters]`; `only` selects tensors whose names start with it.

    Statistics of normalisation layers are left out: they describe the data, not what was learned.
    """
    names = [
        name
        for name in sorted(contexts[0])
        if (only is None or name.startswith(only)) and not name.endswith(("running_mean", "running_var"))
    ]
    return torch.stack([torch.cat([context[name].reshape(-1).float() for name in names]) for context in contexts])


def centred_cosine(vectors: Tensor, *, mean: Tensor | None = None) -> Tensor:
    """Cosine of every pair of rows after subtracting the mean row, `[tasks, tasks]`."""
    unit = _unit(vectors, mean)
    return (unit @ unit.T).clamp(-1.0, 1.0)


def nearest(vectors: Tensor, row: int, count: int) -> list[tuple[int, float]]:
    """The `count` rows most similar to this one, with their similarities, most similar first."""
    unit = _unit(vectors, None)
    alike = (unit @ unit[row]).clamp(-1.0, 1.0)
    alike[row] = -2.0
    values, rows = alike.topk(max(0, min(count, len(vectors) - 1)))
    return [(int(i), float(value)) for i, value in zip(rows, values, strict=True)]


def _unit(vectors: Tensor, mean: Tensor | None) -> Tensor:
    centred = vectors - (vectors.mean(dim=0) if mean is None else mean)
    size: Tensor = centred.norm(dim=1, keepdim=True)
    return centred / size.clamp_min(1e-12)
