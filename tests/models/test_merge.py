"""A merged context: the same outputs from ordinary layers."""

import copy

import numpy as np
import torch
from torch import nn

from crwn import Learner, NeuroModNet, NeuroModResNet
from crwn.data.standardize import InputScaling
from crwn.layers import ModulatedLinear, context_tensors
from crwn.layers.conv import ModulatedConv2d, TaskBatchNorm2d
from crwn.models.merge import merge_context


def test_the_merged_module_computes_what_the_model_does_and_shares_nothing() -> None:
    model = NeuroModNet(6, (12, 8), 4, seed=0, weights="hadamard")
    context = {name: torch.randn_like(value) for name, value in context_tensors(model).items()}
    x = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))
    before = copy.deepcopy(context_tensors(model))
    plain = merge_context(model, context)
    expected = torch.func.functional_call(model, context, (x,))
    assert torch.allclose(plain(x), expected, rtol=1e-3, atol=1e-4)
    assert sum(isinstance(module, nn.Linear) for module in plain.modules()) == 3
    assert not plain.training
    assert all(torch.equal(value, before[name]) for name, value in context_tensors(model).items())


def test_scaling_and_classes_are_merged_too() -> None:
    model = NeuroModNet(6, (12,), 4, seed=0)
    x = torch.randint(0, 255, (5, 6), dtype=torch.uint8)
    plain = merge_context(model, context_tensors(model), before=InputScaling((100.0, 50.0)), classes=3)
    with torch.no_grad():
        assert torch.allclose(plain(x), model((x.float() - 100) / 50)[:, :3], atol=1e-5)


def test_the_merged_module_travels_as_a_state_dict() -> None:
    model = NeuroModNet(6, (12,), 4, seed=0)
    one = merge_context(model, context_tensors(model), before=InputScaling((1.0, 2.0)))
    two = merge_context(
        model, {name: value * 0 for name, value in context_tensors(model).items()}, before=InputScaling((0.5, 3.0))
    )
    two.load_state_dict(one.state_dict())
    x = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))
    assert torch.equal(one(x), two(x))


def test_a_merged_resnet_is_made_of_ordinary_layers() -> None:
    """Its state dict holds all of it, kernels and statistics."""
    learner = Learner(NeuroModResNet(4, 2, seed=0, input_shape=(3, 8, 8)))
    images = np.random.default_rng(0).normal(size=(24, 3, 8, 8)).astype(np.float32)
    learner.learn("a", images, np.arange(24) % 2, batches=3)
    merged = learner.merge("a")
    kinds = {type(part) for part in merged.modules()}
    assert not {ModulatedConv2d, ModulatedLinear, TaskBatchNorm2d} & kinds
    with torch.no_grad():
        found = merged(torch.from_numpy(images)).softmax(dim=1).numpy()
    np.testing.assert_allclose(found, learner.predict_proba(images, task="a"), atol=1e-5)
    again = copy.deepcopy(merged)
    for value in again.state_dict().values():
        value.zero_()
    again.load_state_dict(merged.state_dict())
    with torch.no_grad():
        assert torch.equal(again(torch.from_numpy(images)), merged(torch.from_numpy(images)))
