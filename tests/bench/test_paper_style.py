"""The paper-style implementation computes and learns what ours does, so that comparing their speed is fair."""

from __future__ import annotations

from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from crwn.bench.paper_style import ModulatedKernel, PaperStyle, PaperStyleNet, RotatedImages
from crwn.data import load
from crwn.layers import ModulatedLinear
from crwn.models import NeuroModNet
from crwn.scenarios import make_scenario

Layer = TypeVar("Layer", bound=nn.Module)


def _model() -> NeuroModNet:
    model = NeuroModNet(64, (24, 24), 10, seed=3)
    with torch.no_grad():
        for layer in _layers(model, ModulatedLinear):
            layer.alpha.fill_(0.7)
    return model


def _layers(model: nn.Module, kind: type[Layer]) -> list[Layer]:
    return [module for module in model.modules() if isinstance(module, kind)]


def _gradient(parameter: Tensor) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad


def test_the_same_outputs_and_gradients() -> None:
    model = _model()
    peer = PaperStyleNet(model)
    x, y = torch.randn(9, 64), torch.arange(9) % 10
    torch.testing.assert_close(peer(x), model(x))
    F.cross_entropy(peer(x), y).backward()
    F.cross_entropy(model(x), y).backward()
    pairs = list(zip(_layers(model, ModulatedLinear), _layers(peer, ModulatedKernel), strict=True))
    assert len(pairs) == 3
    for ours, theirs in pairs:
        torch.testing.assert_close(_gradient(theirs.v).flatten(), _gradient(ours.v))
        torch.testing.assert_close(_gradient(theirs.alpha), _gradient(ours.alpha))


def test_the_same_images() -> None:
    images = load("digits")
    task = make_scenario("rotated-digits", tasks=4)[3]
    turned = RotatedImages(images.x_train, images.y_train, 30.0, images)
    theirs = torch.stack([turned[i][0] for i in range(20)])
    torch.testing.assert_close(theirs, task.train.inputs(slice(0, 20)))
    assert [turned[i][1] for i in range(20)] == task.train.labels(slice(0, 20)).tolist()


def test_a_task_is_extrapolated_from_measured_parts() -> None:
    peer = PaperStyle(_model(), load("digits"), angle=30.0, workers=0)
    before = [parameter.detach().clone() for parameter in peer.model.parameters()]
    short = peer.seconds_per_task(batches=2, of=10, test_batches=1)
    assert short > 0
    assert not all(torch.equal(a, b) for a, b in zip(before, peer.model.parameters(), strict=True))
