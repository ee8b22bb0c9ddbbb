"""The baselines' convolutional network, ResNet-18, with the kind of layer each of them puts into it."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from crwn.convolution import TaskBatchNorm2d
from crwn.errors import ConfigError
from crwn.methods.networks import Dense, Layer, fully_connected
from crwn.methods.published import has_images
from crwn.models.resnet import ResNet18
from crwn.scenarios import Scenario
from crwn.weights import gaussian, integers, uniform

REDUCED_WIDTH, STANDARD_WIDTH = 10, 64
SMALLEST_SIDE = 16  # three strides of 2 leave 2 x 2; batch norm of a single value in the last batch is not defined
STANDARD_SIDE = 64  # images from this side on get the standard stem, which looks at a quarter of the resolution


class ConvLayer(Protocol):
    """(in, out, kernel, stride, padding, name) -> convolution."""

    def __call__(
        self, in_channels: int, out_channels: int, kernel_size: int, *, stride: int, padding: int, name: str
    ) -> nn.Module: ...


class _Kernel(nn.Module):
    """A convolution whose kernel is made anew for every batch; a 1x1 one of flat rows is a linear layer."""

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


class DenseKernel(_Kernel):
    """`y = W conv x`, every weight learned; W ~ N(0, 2 / fan_in)."""

    def __init__(self, shape: tuple[int, ...], *, seed: int, name: str, stride: int = 1, padding: int = 0) -> None:
        super().__init__(stride=stride, padding=padding)
        weight, _ = gaussian(shape, seed=seed, name=f"dense:{name}", std=math.sqrt(2 / math.prod(shape[1:])))
        self.weight = nn.Parameter(weight)

    def kernel(self) -> Tensor:
        return self.weight


class RankOneKernel(_Kernel):
    """`y = s ⊙ (W conv (t ⊙ x))`: BatchE, with one s per output channel and one t per input channel."""

    weight: Tensor

    def __init__(self, shape: tuple[int, ...], *, seed: int, name: str, stride: int = 1, padding: int = 0) -> None:
        super().__init__(stride=stride, padding=padding)
        weight, _ = gaussian(shape, seed=seed, name=f"dense:{name}", std=math.sqrt(2 / math.prod(shape[1:])))
        self.register_buffer("weight", weight, persistent=False)
        self.s = nn.Parameter(torch.ones(shape[0]))
        self.t = nn.Parameter(torch.ones(shape[1]))

    def kernel(self) -> Tensor:
        # Scaling the kernel gives the same numbers as scaling the images and costs far less.
        spread = (1,) * (self.weight.ndim - 2)
        return self.weight * self.s.view(-1, 1, *spread) * self.t.view(-1, *spread)


class _Largest(torch.autograd.Function):
    """1 for the `count` largest sizes, else 0; the gradient goes straight through to the sizes."""

    generate_vmap_rule = True

    @staticmethod
    def forward(sizes: Tensor, count: int) -> Tensor:
        return largest(sizes, count).to(sizes.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, int], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


def largest(scores: Tensor, count: int) -> Tensor:
    """Where the `count` scores of largest size are."""
    sizes = scores.abs()
    return sizes >= sizes.flatten().kthvalue(sizes.numel() - count + 1).values


class MaskedKernel(_Kernel):
    """`y = (W ⊙ mask) conv x`: SupSup. W is frozen at `+-sqrt(2 / fan_in)`, the mask keeps the largest |scores|."""

    weight: Tensor

    def __init__(
        self, shape: tuple[int, ...], *, seed: int, name: str, density: float, stride: int = 1, padding: int = 0
    ) -> None:
        super().__init__(stride=stride, padding=padding)
        fan_in = math.prod(shape[1:])
        drawn = integers(math.prod(shape), seed=seed, name=f"signs:{name}", bits=8) & 1
        weight = (1.0 - 2.0 * drawn.astype(np.float32)) * np.float32(math.sqrt(2 / fan_in))
        self.register_buffer("weight", torch.from_numpy(weight.reshape(shape)), persistent=False)
        self.scores = nn.Parameter(uniform(shape, seed=seed, name=f"scores:{name}", bound=1 / math.sqrt(fan_in)))
        self.kept = max(1, round(density * math.prod(shape)))

    def kernel(self) -> Tensor:
        # Their sizes compete, so the gradient of a negative score is turned round.
        mask: Tensor = _Largest.apply(self.scores.abs(), self.kept)  # type: ignore[no-untyped-call]
        return self.weight * mask

    def mask(self, scores: Tensor) -> Tensor:
        """Which weights these scores keep."""
        return largest(scores, self.kept)

    def scores_of(self, mask: Tensor) -> Tensor:
        """Scores that keep what the mask keeps."""
        return mask


def published_density(shape: tuple[int, ...], scale: int) -> float:
    """SupSup's other choice, `min(0.5, s (c_in + c_out) / (c_in c_out kh kw))`: as many weights as BatchE learns."""
    return min(0.5, scale * (shape[0] + shape[1]) / math.prod(shape))


class SignedKernel(_Kernel):
    """`y = (W ⊙ o_k) conv x`: binary PSP. The signs o_k `[1, in, kh, kw]` are the task's, every task trains W."""

    signs: Tensor

    def __init__(self, shape: tuple[int, ...], *, seed: int, name: str, stride: int = 1, padding: int = 0) -> None:
        super().__init__(stride=stride, padding=padding)
        weight, _ = gaussian(shape, seed=seed, name=f"dense:{name}", std=math.sqrt(2 / math.prod(shape[1:])))
        self.weight = nn.Parameter(weight)
        self.register_buffer("signs", torch.ones(1, *shape[1:]), persistent=False)

    def kernel(self) -> Tensor:
        return self.weight * self.signs

    def turn_to(self, *, seed: int, name: str) -> None:
        """Take the signs that this seed makes."""
        drawn = integers(self.signs.numel(), seed=seed, name=f"signs:{name}", bits=8) & 1
        self.signs = torch.from_numpy(1.0 - 2.0 * drawn.astype(np.float32)).reshape(self.signs.shape)


class Kernel(Protocol):
    """Makes a layer from the shape of its weights: `[out, in]` for the head, `[out, in, kh, kw]` elsewhere."""

    def __call__(self, shape: tuple[int, ...], *, name: str, stride: int = 1, padding: int = 0) -> nn.Module: ...


def baseline(
    scenario: Scenario, size: str, layer: Layer, kernel: Kernel, *, method: str, affine: bool = False
) -> nn.Module:
    """The network a baseline learns: fully connected for flat rows, ResNet-18 for images.

    Args:
        layer, kernel: make the layers of the one and of the other.
        affine: whether batch norm learns a gain and a bias.
    """
    if not has_images(scenario):
        return fully_connected(scenario, size, layer, method=method)

    def conv(
        in_channels: int, out_channels: int, kernel_size: int, *, stride: int, padding: int, name: str
    ) -> nn.Module:
        shape = (out_channels, in_channels, kernel_size, kernel_size)
        return kernel(shape, name=name, stride=stride, padding=padding)

    return ResNet18(
        conv=conv,
        linear=lambda in_features, out_features, *, name: kernel((out_features, in_features), name=name),
        norm=lambda channels: TaskBatchNorm2d(channels, affine=affine),
        classes=scenario.num_classes,
        **resnet_shape(scenario, size, method=method),
    )


def dense_baseline(scenario: Scenario, size: str, *, seed: int, method: str) -> nn.Module:
    """The ordinary network, all of whose weights are learned."""
    layer = partial(_dense, seed=seed)
    return baseline(scenario, size, layer, partial(DenseKernel, seed=seed), method=method, affine=True)


def _dense(in_features: int, out_features: int, name: str, *, seed: int) -> nn.Module:
    return Dense(in_features, out_features, seed=seed, name=name)


def resnet_shape(scenario: Scenario, size: str, *, method: str) -> dict[str, Any]:
    """Width, stem and channels of the ResNet-18 for these images; a size like 2d is a multiple of the usual width."""
    number = size.removesuffix("d")
    if not (size.endswith("d") and number.isascii() and number.isdigit() and int(number) > 0):
        raise ConfigError(
            f'{method} has no size "{size}" for images: give a multiple of the usual width, like 1d or 2d'
        )
    channels, *sides = scenario.input_shape
    if len(sides) != 2:
        raise ConfigError(f"{method} takes images, but inputs of {scenario.name} have the shape {scenario.input_shape}")
    if min(sides) < SMALLEST_SIDE:
        raise ConfigError(
            f"images of {scenario.name} have {sides[0]} x {sides[1]} pixels, ResNet-18 needs {SMALLEST_SIDE} x "
            f"{SMALLEST_SIDE}: enlarge them, or learn them as flat rows"
        )
    standard = min(sides) >= STANDARD_SIDE
    return {
        "width": (STANDARD_WIDTH if standard else REDUCED_WIDTH) * int(number),
        "stem": "standard" if standard else "small",
        "channels": channels,
    }
