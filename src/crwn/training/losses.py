"""The losses of stacked tasks: for each the mean over its rows, among its own classes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


def task_losses(
    logits: Tensor, y: Tensor, mask: Tensor | None, weight: Tensor | None, *, smoothing: float = 0.0
) -> Tensor:
    """Cross-entropy of every task, `[tasks]`: the (weighted) mean over its rows, absent classes masked.

    Label smoothing spreads its share of the target evenly over the classes that a task has.
    """
    if mask is not None:
        logits = logits + mask  # [tasks, batch, classes]
    rows = F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none").view(y.shape)
    if smoothing:
        logp = logits.log_softmax(dim=-1)
        present = torch.isfinite(logp) if mask is None else (mask == 0).expand_as(logp)
        evenly = -logp.masked_fill(~present, 0.0).sum(dim=-1) / present.sum(dim=-1)
        rows = (1 - smoothing) * rows + smoothing * evenly
    if weight is None:
        return rows.mean(dim=1)
    return (rows * weight).sum(dim=1) / weight.sum(dim=1).clamp_min(1e-12)


def class_mask(classes: Sequence[int], outputs: int, device: str | torch.device) -> Tensor | None:
    """`[tasks, 1, outputs]`: -inf for outputs that a task has no class for, 0 elsewhere; None if there are none."""
    if min(classes) == outputs:
        return None
    present = torch.arange(outputs) < torch.tensor(list(classes))[:, None]
    return torch.zeros(present.shape).masked_fill(~present, -math.inf)[:, None].to(device)
