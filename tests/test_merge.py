"""One context baked in: the same answers from ordinary layers."""

import copy

import torch
from torch import nn

from crwn import NeuroModNet
from crwn.layers import context_tensors
from crwn.merge import merged


def test_the_baked_module_answers_like_the_model_and_shares_nothing() -> None:
    model = NeuroModNet(6, (12, 8), 4, seed=0, weights="hadamard")
    context = {name: torch.randn_like(value) for name, value in context_tensors(model).items()}
    x = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))
    before = copy.deepcopy(context_tensors(model))
    plain = merged(model, context)
    expected = torch.func.functional_call(model, context, (x,))
    assert torch.allclose(plain(x), expected, rtol=1e-3, atol=1e-4)
    assert sum(isinstance(module, nn.Linear) for module in plain.modules()) == 3
    assert not plain.training
    assert all(torch.equal(value, before[name]) for name, value in context_tensors(model).items())


def test_scaling_and_classes_are_baked_in() -> None:
    model = NeuroModNet(6, (12,), 4, seed=0)
    x = torch.randint(0, 255, (5, 6), dtype=torch.uint8)
    plain = merged(model, context_tensors(model), scaling=(100.0, 50.0), classes=3)
    with torch.no_grad():
        assert torch.allclose(plain(x), model((x.float() - 100) / 50)[:, :3], atol=1e-5)


def test_the_baked_module_travels_as_a_state_dict() -> None:
    model = NeuroModNet(6, (12,), 4, seed=0)
    one = merged(model, context_tensors(model), scaling=(1.0, 2.0))
    two = merged(model, {name: value * 0 for name, value in context_tensors(model).items()}, scaling=(0.5, 3.0))
    two.load_state_dict(one.state_dict())
    x = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))
    assert torch.equal(one(x), two(x))
