"""Entropies of a model's outputs, divided by the log of the class count."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def row_entropies(logits: Tensor, classes: Tensor) -> Tensor:
    """Output entropy of every task and row, divided by the log of the class count: `[tasks, rows]` in 0..1.

    Args:
        logits: `[tasks, rows, outputs]`.
        classes: how many of the outputs each task uses, `[tasks]`.
    """
    absent = torch.arange(logits.shape[-1], device=logits.device) >= classes[:, None]
    logp = logits.masked_fill(absent[:, None, :], -math.inf).log_softmax(dim=-1)
    entropy = -(logp.exp() * logp.masked_fill(absent[:, None, :], 0.0)).sum(dim=-1)
    return entropy / torch.log(classes.clamp_min(2).to(entropy.dtype))[:, None]


def normalised_entropy(logits: Tensor, classes: Tensor) -> Tensor:
    """Mean over the rows of `row_entropies`: `[tasks]` in 0..1."""
    return row_entropies(logits, classes).mean(dim=1)
