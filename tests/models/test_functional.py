"""Outputs under contexts: mixed rows equal their own tasks, and nothing is changed on the way."""

from __future__ import annotations

import pytest
import torch

from crwn import NeuroModNet
from crwn.bench.mixed import make_stack
from crwn.layers import context_tensors
from crwn.prediction import accuracy, mixed_logits, predict_logits
from crwn.rows import Rows


@pytest.fixture
def model() -> NeuroModNet:
    return NeuroModNet(64, (48, 32), 10, seed=0)


def inputs(rows: int) -> torch.Tensor:
    return torch.randn(rows, 64, generator=torch.Generator().manual_seed(1))


def test_mixed_rows_equal_their_own_tasks(model) -> None:
    random = torch.Generator().manual_seed(0)
    stack = {name: torch.randn(3, *t.shape, generator=random) for name, t in context_tensors(model).items()}
    x, of = inputs(30), torch.arange(30) % 3
    mixed = mixed_logits(model, {name: value[of] for name, value in stack.items()}, x)
    for k in range(3):
        own = predict_logits(model, {name: value[k] for name, value in stack.items()}, Rows(x[of == k]))
        assert torch.allclose(mixed[of == k], own, rtol=1e-4, atol=1e-4)


def test_predictions_leave_the_mode_of_the_model(model) -> None:
    for training in (True, False):
        model.train(training)
        predict_logits(model, context_tensors(model), Rows(inputs(3)))
        assert model.training is training


def test_rows_gathered_when_asked_for_leave_the_stack_as_it_was() -> None:
    model = NeuroModNet(6, (5, 4), 3, seed=0)
    stack = make_stack(model, 4, seed=0)
    before = {name: value.clone() for name, value in stack.tensors.items()}
    at, x = torch.tensor([2, 0, 2, 3, 1]), torch.randn(5, 6)
    lazy = mixed_logits(model, stack.lazily(at), x)
    torch.testing.assert_close(lazy, mixed_logits(model, stack.gather(at), x), rtol=0, atol=0)
    assert all(torch.equal(value, before[name]) for name, value in stack.tensors.items())
    one_by_one = [predict_logits(model, stack.row(int(row)), Rows(x[i : i + 1])) for i, row in enumerate(at)]
    torch.testing.assert_close(lazy, torch.cat(one_by_one))


def test_accuracy_is_the_share_of_rows_with_the_right_class_on_top() -> None:
    logits = torch.tensor([[0.1, 0.9], [2.0, 1.0], [0.0, 3.0], [1.0, -1.0]])
    assert accuracy(logits, torch.tensor([1, 0, 0, 0])) == 0.75
