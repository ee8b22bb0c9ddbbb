"""Outputs under contexts: mixed rows equal their own tasks, and nothing is changed on the way."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from crwn import NeuroModNet
from crwn.bench.mixed import make_stack
from crwn.data.dataset import Rows
from crwn.layers import context_tensors
from crwn.models.functional import mixed_logits
from crwn.training.evaluation import predict_logits


def inputs(rows: int) -> torch.Tensor:
    return torch.randn(rows, 64, generator=torch.Generator().manual_seed(1))


def test_mixed_rows_equal_their_own_tasks(model: NeuroModNet) -> None:
    random = torch.Generator().manual_seed(0)
    stack = {name: torch.randn(3, *t.shape, generator=random) for name, t in context_tensors(model).items()}
    x, of = inputs(30), torch.arange(30) % 3
    mixed = mixed_logits(model, {name: value[of] for name, value in stack.items()}, x)
    for k in range(3):
        own = predict_logits(model, {name: value[k] for name, value in stack.items()}, Rows(x[of == k]))
        assert torch.allclose(mixed[of == k], own, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"weights": "hadamard", "norm": "layer"},
        {"weights": "patches", "activation": "gelu"},
        {"modulation": "local"},
        {"modulation": "global"},
    ],
    ids=str,
)
def test_mixed_rows_change_nothing_that_is_given(settings: dict[str, Any]) -> None:
    """The pass computes in place: inputs, contexts, stack and network must be as before."""
    model = NeuroModNet(64, (40, 72), 10, seed=0, **settings)
    stack, x, at = make_stack(model, 5, seed=0), inputs(12), torch.arange(12) % 5
    given = {f"context {name}": value for name, value in stack.gather(at).items()}
    given |= {f"stack {name}": value for name, value in stack.tensors.items()}
    given |= dict([*model.named_parameters(), *model.named_buffers()]) | {"x": x}
    before = {name: value.clone() for name, value in given.items()}
    contexts = {name.removeprefix("context "): value for name, value in given.items() if name.startswith("context ")}
    mixed = mixed_logits(model, contexts, x)
    assert torch.equal(mixed_logits(model, stack.lazily(at), x), mixed)
    for name, value in given.items():
        assert torch.equal(value, before[name]), name
    for k in range(5):
        own = predict_logits(model, stack.row(k), Rows(x[at == k]))
        torch.testing.assert_close(mixed[at == k], own, rtol=1e-4, atol=1e-4)


def test_hooks_of_the_model_see_a_mixed_batch_once(model: NeuroModNet) -> None:
    stack, x, at = make_stack(model, 3, seed=0), inputs(6), torch.arange(6) % 3
    plain = mixed_logits(model, stack.lazily(at), x)
    seen = []
    model.register_forward_hook(lambda module, rows, out: seen.append((rows[0].shape, out.shape)))
    torch.testing.assert_close(mixed_logits(model, stack.lazily(at), x), plain)
    assert seen == [((6, 64), (6, 10))]


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
