"""Dense layers, all of whose weights are learned: those of STL, MTL, fine-tuning, EWC and replay."""

from __future__ import annotations

from functools import partial
from typing import Literal

from pydantic import BaseModel, Field
from torch import Tensor, nn

from crwn.errors import ConfigError
from crwn.layers import product
from crwn.methods import method
from crwn.methods.initial_weights import kaiming_normal, torch_uniform
from crwn.methods.networks import KernelConv2d, baseline_network
from crwn.methods.sizes import has_images
from crwn.scenarios import Scenario

ConvStart = Literal["torch", "kaiming"]


class DenseOptions(method.Options):
    """Options of the methods that train dense networks."""

    conv_start: ConvStart = Field(
        "torch", description="on images: initial weights U(+-1/sqrt(fan_in)) as in torch, or N(0, 2/fan_in)"
    )


class DenseLinear(nn.Module):
    """`y = W x`.

    Frozen: nothing. Learned: W, which starts as `N(0, 2 / in)`.
    """

    def __init__(self, in_features: int, out_features: int, *, seed: int, name: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(kaiming_normal((out_features, in_features), seed=seed, name=f"dense:{name}"))

    def forward(self, x: Tensor) -> Tensor:
        return product(x, self.weight)


class DenseConv2d(KernelConv2d):
    """`y = W conv x`.

    Frozen: nothing. Learned: W, which starts uniform in `(-1 / sqrt(fan_in), 1 / sqrt(fan_in))`, as torch's own
    convolutions do, or as `N(0, 2 / fan_in)`.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        *,
        seed: int,
        name: str,
        stride: int = 1,
        padding: int = 0,
        start: ConvStart = "torch",
    ) -> None:
        super().__init__(stride=stride, padding=padding)
        draw = torch_uniform if start == "torch" else kaiming_normal
        self.weight = nn.Parameter(draw(shape, seed=seed, name=f"dense:{name}"))

    def kernel(self) -> Tensor:
        return self.weight


def dense_network(scenario: Scenario, size: str, *, seed: int, method: str, options: BaseModel) -> nn.Module:
    """The ordinary network, all of whose weights (and batch norm's gains and biases) are learned.

    Args:
        options: of the method; those of a custom method may lack `conv_start`.

    Raises:
        ConfigError: `conv_start` is set for flat rows, or the size does not fit.
    """
    if "conv_start" in options.model_fields_set and not has_images(scenario):
        raise ConfigError("conv_start is for images: fully connected layers start as N(0, 2/in)")
    start: ConvStart = options.conv_start if isinstance(options, DenseOptions) else "torch"
    conv2d = partial(DenseConv2d, start=start)
    return baseline_network(scenario, size, DenseLinear, conv2d, seed=seed, method=method, affine=True)
