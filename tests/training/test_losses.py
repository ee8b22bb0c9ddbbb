"""The loss of stacked tasks."""

from __future__ import annotations

import math

import torch
from torch import nn

from crwn.training.losses import class_mask, task_losses


def test_class_mask_and_losses() -> None:
    assert class_mask([4, 4], 4, "cpu") is None
    mask = class_mask([2, 4], 4, "cpu")
    assert mask is not None
    assert mask.tolist() == [[[0, 0, -math.inf, -math.inf]], [[0, 0, 0, 0]]]
    logits = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(0))
    y = torch.tensor([[0, 1, 0, 1, 0], [3, 2, 1, 0, 3]])
    losses = task_losses(logits, y, mask, None)
    expected = [nn.functional.cross_entropy(logits[0, :, :2], y[0]), nn.functional.cross_entropy(logits[1], y[1])]
    assert torch.allclose(losses, torch.stack(expected))
    weight = torch.tensor([[1.0, 0, 0, 0, 0]] * 2)
    first = task_losses(logits, y, mask, weight)
    assert torch.allclose(first[1], nn.functional.cross_entropy(logits[1, :1], y[1, :1]))
