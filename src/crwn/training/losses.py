"""The losses of stacked tasks by their kind: for each the mean over its rows, among its own outputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from crwn.contexts.kinds import Kind


def task_losses(
    logits: Tensor,
    y: Tensor,
    mask: Tensor | None,
    weight: Tensor | None,
    kind: Kind = "classification",
    *,
    smoothing: float = 0.0,
) -> Tensor:
    """The loss of every task, `[tasks]`: the (weighted) mean over its rows.

    Cross-entropy for classification, with absent classes masked; the mean over a row's labels of the binary
    cross-entropy for multilabel, and of the squared errors for regression.

    Args:
        logits: `[tasks, batch, outputs]`.
        y: `[tasks, batch]` class indices, or `[tasks, batch, labels or numbers]`.
        smoothing: share of the target of classification that is spread evenly over the classes that a task has.
    """
    if kind == "classification":
        rows = _cross_entropy(logits if mask is None else logits + mask, y, mask, smoothing)
    else:
        loss = F.mse_loss if kind == "regression" else F.binary_cross_entropy_with_logits
        rows = loss(logits[..., : y.shape[-1]], y, reduction="none").mean(dim=-1)
    if weight is None:
        return rows.mean(dim=1)
    return (rows * weight).sum(dim=1) / weight.sum(dim=1).clamp_min(1e-12)


def _cross_entropy(logits: Tensor, y: Tensor, mask: Tensor | None, smoothing: float) -> Tensor:
    rows = F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none").view(y.shape)
    if smoothing:
        logp = logits.log_softmax(dim=-1)
        present = torch.isfinite(logp) if mask is None else (mask == 0).expand_as(logp)
        evenly = -logp.masked_fill(~present, 0.0).sum(dim=-1) / present.sum(dim=-1)
        rows = (1 - smoothing) * rows + smoothing * evenly
    return rows


def class_mask(classes: Sequence[int], outputs: int, device: str | torch.device) -> Tensor | None:
    """`[tasks, 1, outputs]`: -inf for outputs that a task has no class for, 0 elsewhere; None if there are none."""
    return _class_mask(tuple(classes), outputs, str(device))


@lru_cache(maxsize=16)
def _class_mask(classes: tuple[int, ...], outputs: int, device: str) -> Tensor | None:
    """Cached: every step of a task has the same."""
    if min(classes) == outputs:
        return None
    present = torch.arange(outputs) < torch.tensor(classes)[:, None]
    return torch.zeros(present.shape).masked_fill(~present, -math.inf)[:, None].to(device)
