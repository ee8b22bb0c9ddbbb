"""The baselines' networks with layers made for the test."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from crwn.layers.conv import TaskBatchNorm2d
from crwn.methods import networks
from crwn.methods.networks import FullyConnected, KernelConv2d, baseline_network
from crwn.models.resnet import ResNet18
from crwn.scenarios import Scenario


class Linear(nn.Module):
    def __init__(self, in_features: int, out_features: int, *, seed: int, name: str) -> None:
        super().__init__()
        self.made_with = (in_features, out_features, seed, name)
        self.weight = nn.Parameter(torch.randn(out_features, in_features, generator=torch.Generator().manual_seed(0)))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight.T


class Conv2d(KernelConv2d):
    def __init__(self, shape: tuple[int, ...], *, seed: int, name: str, stride: int = 1, padding: int = 0) -> None:
        super().__init__(stride=stride, padding=padding)
        self.made_with = (shape, seed, name)
        self.weight = nn.Parameter(torch.randn(shape, generator=torch.Generator().manual_seed(0)))

    def kernel(self) -> Tensor:
        return 2 * self.weight


def test_fully_connected(small: Scenario) -> None:
    model = baseline_network(small, "5", Linear, Conv2d, seed=7, method="test")
    assert isinstance(model, FullyConnected)
    made = [layer.made_with for layer in model.layers]
    assert made == [(6, 5, 7, "layers.0"), (5, 5, 7, "layers.1"), (5, 3, 7, "layers.2")]
    first, second, last = (dict(model.named_parameters())[f"layers.{i}.weight"] for i in range(3))
    x = small[0].train.x
    torch.testing.assert_close(model(x), ((x @ first.T).clamp_min(0) @ second.T).clamp_min(0) @ last.T)


@pytest.mark.parametrize("affine", [False, True])
def test_resnet(stripes: Scenario, affine: bool) -> None:
    model = baseline_network(stripes, "2d", Linear, Conv2d, seed=7, method="test", affine=affine)
    assert isinstance(model, ResNet18)
    made = {name: layer.made_with for name, layer in model.named_modules() if isinstance(layer, Conv2d)}
    assert made["stem"] == ((20, 3, 3, 3), 7, "stem")
    assert made["head"] == ((2, 160), 7, "head")
    assert len(made) == 21
    norms = [layer for layer in model.modules() if isinstance(layer, TaskBatchNorm2d)]
    assert len(norms) == 20
    assert all((layer.weight is not None) == affine for layer in norms)
    assert model(stripes[0].train.x[:4]).shape == (4, 2)


def test_a_kernel_is_a_convolution_or_a_linear_layer() -> None:
    conv, head = Conv2d((4, 3, 3, 3), seed=0, name="a", stride=2, padding=1), Conv2d((2, 5), seed=0, name="b")
    images, rows = torch.randn(2, 3, 6, 6), torch.randn(4, 5)
    torch.testing.assert_close(conv(images), F.conv2d(images, 2 * conv.weight, stride=2, padding=1))
    torch.testing.assert_close(head(rows), rows @ (2 * head.weight).T)


def test_sizes_can_be_imported_from_here() -> None:
    """Methods outside this package import them from `crwn.methods.networks`."""
    assert networks.width("256", method="own") == 256
    assert networks.multiple("10d", method="own") == 10
