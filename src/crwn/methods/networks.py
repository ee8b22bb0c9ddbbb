"""The baselines' networks, fully connected and ResNet-18, built from the layers of a method."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Protocol

import torch.nn.functional as F
from torch import Tensor, nn

from crwn.layers.conv import TaskBatchNorm2d
from crwn.methods.sizes import DEPTH, flat_features, has_images, multiple, resnet_shape, width
from crwn.models.resnet import MakeLinear, ResNet18
from crwn.scenarios import Scenario

__all__ = [
    "DEPTH",
    "FullyConnected",
    "KernelConv2d",
    "MakeBaselineConv2d",
    "MakeBaselineLinear",
    "baseline_network",
    "flat_features",
    "multiple",
    "resnet_shape",
    "width",
]


class MakeBaselineLinear(Protocol):
    """Makes a linear layer without bias, such as `BatchELinear`."""

    def __call__(self, in_features: int, out_features: int, *, seed: int, name: str) -> nn.Module: ...


class MakeBaselineConv2d(Protocol):
    """Makes a convolution without bias from the shape of its kernel, such as `BatchEConv2d`."""

    def __call__(
        self, shape: tuple[int, ...], *, seed: int, name: str, stride: int = 1, padding: int = 0
    ) -> nn.Module: ...


class KernelConv2d(nn.Module):
    """`y = K conv x` without bias; a subclass computes the kernel K `[out, in, height, width]` for every batch.

    A kernel `[out, in]` makes it the linear layer `y = K x`: the head of ResNet-18, whose weights follow the same
    formula as those of its convolutions.
    """

    def __init__(self, *, stride: int = 1, padding: int = 0) -> None:
        super().__init__()
        self.stride = stride
        self.padding = padding

    def kernel(self) -> Tensor:
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim == 2:
            return F.linear(x, self.kernel())
        return F.conv2d(x, self.kernel(), None, self.stride, self.padding)


class FullyConnected(nn.Module):
    """`x_{l+1} = relu(layer_l(x_l))`, the last layer without the ReLU; no biases.

    Args:
        sizes: features of the input, of every hidden layer, and of the output.
        linear: makes a layer from its input features, output features and name.
    """

    def __init__(self, sizes: list[int], linear: MakeLinear) -> None:
        super().__init__()
        pairs = enumerate(itertools.pairwise(sizes))
        self.layers = nn.ModuleList(linear(*pair, name=f"layers.{i}") for i, pair in pairs)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        out: Tensor = self.layers[-1](x)
        return out


def baseline_network(
    scenario: Scenario,
    size: str,
    linear: MakeBaselineLinear,
    conv2d: MakeBaselineConv2d,
    *,
    seed: int,
    method: str,
    affine: bool = False,
) -> nn.Module:
    """The network of a baseline: fully connected (two hidden layers) for flat rows, ResNet-18 for images.

    Args:
        linear: makes the layers of the fully connected network.
        conv2d: makes the convolutions and the head of ResNet-18.
        method: name of the method, for errors.
        affine: whether batch norm has a learned gain and bias.

    Raises:
        ConfigError: the size or the inputs do not fit the network.
    """
    if not has_images(scenario):
        features = flat_features(scenario, method=method)
        hidden = [width(size, method=method)] * DEPTH
        return FullyConnected([features, *hidden, scenario.num_classes], partial(linear, seed=seed))

    def conv(
        in_channels: int, out_channels: int, kernel_size: int, *, stride: int, padding: int, name: str
    ) -> nn.Module:
        shape = (out_channels, in_channels, kernel_size, kernel_size)
        return conv2d(shape, seed=seed, name=name, stride=stride, padding=padding)

    return ResNet18(
        conv=conv,
        linear=lambda in_features, out_features, *, name: conv2d((out_features, in_features), seed=seed, name=name),
        norm=lambda channels: TaskBatchNorm2d(channels, affine=affine),
        classes=scenario.num_classes,
        **resnet_shape(scenario, size, method=method),
    )
