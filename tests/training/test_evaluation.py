"""Predictions and accuracy."""

from __future__ import annotations

import torch

from crwn import NeuroModNet
from crwn.data.dataset import Rows
from crwn.layers import context_tensors
from crwn.training.evaluation import accuracy, predict_logits


def inputs(rows: int) -> torch.Tensor:
    return torch.randn(rows, 64, generator=torch.Generator().manual_seed(1))


def test_predictions_leave_the_mode_of_the_model(model: NeuroModNet) -> None:
    for training in (True, False):
        model.train(training)
        predict_logits(model, context_tensors(model), Rows(inputs(3)))
        assert model.training is training


def test_accuracy_is_the_share_of_rows_with_the_right_class_on_top() -> None:
    logits = torch.tensor([[0.1, 0.9], [2.0, 1.0], [0.0, 3.0], [1.0, -1.0]])
    assert accuracy(logits, torch.tensor([1, 0, 0, 0])) == 0.75
