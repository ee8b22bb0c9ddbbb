"""The layers of converted modules: modulated parametrizations of weights, and a faster linear layer."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from crwn.layers import Modulated, ModulatedLinear
from crwn.layers import weights as frozen_weights


class WeightModulation(Modulated):
    """`R -> alpha * R ⊙ v` as a parametrization of any weight: `v` has R's shape without the first dimension.

    Args:
        weight: the weight before it is modulated; only its shape is used.
        parts: fused projections stacked in the first dimension (three in attention), each with a `v` of its own.
        kind: the name of the layer in the report.
    """

    def __init__(
        self, weight: Tensor, *, seed: int, name: str, modulation: str, start: str, kind: str, parts: int = 1
    ) -> None:
        inner = tuple(weight.shape[1:])
        shape = inner if parts == 1 else (parts, *inner)
        super().__init__(shape, math.prod(inner), seed=seed, name=name, modulation=modulation, start=start)
        self.parts = parts
        self.kind = kind
        self.frozen_count = weight.numel()
        self.fingerprint = ""

    @property
    def frozen_parameters(self) -> int:
        return self.frozen_count

    def forward(self, weight: Tensor) -> Tensor:
        if self.parts == 1:
            return weight * self.gain
        apart = weight.view(self.parts, -1, *weight.shape[1:])  # [parts, out, in]
        return (apart * self.gain.unsqueeze(1)).flatten(0, 1)


class ConvertedLinear(ModulatedLinear, nn.Linear):
    """A modulated linear layer in place of an `nn.Linear`, with its bias and a readable `weight`.

    It is a subclass of `nn.Linear` because modules may test the types of their layers.
    """

    kind = "Linear"
    bias: nn.Parameter | None  # type: ignore[assignment]

    def __init__(self, layer: nn.Linear, *, seed: int, name: str, modulation: str, start: str) -> None:
        inputs, outputs = layer.in_features, layer.out_features
        super().__init__(inputs, outputs, seed=seed, name=name, modulation=modulation, start=start)
        self.in_features = layer.in_features
        self.out_features = layer.out_features
        self.register_parameter("bias", layer.bias)

    @torch.no_grad()
    def to_plain(self) -> nn.Linear:
        plain = super().to_plain()
        if self.bias is not None:
            plain.bias = nn.Parameter(self.bias.clone())
        return plain

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        """The modulated weight `[out, in]`."""
        return self.frozen.dense() * self.gain

    def forward(self, x: Tensor, gain: Tensor | None = None) -> Tensor:
        out = super().forward(x, gain)
        return out if self.bias is None else out + self.bias


def random_weight(shape: tuple[int, ...], *, seed: int, name: str, parts: int = 1) -> tuple[Tensor, str]:
    """`R ~ N(0, 2 / fan_in)` and the fingerprint of its integers."""
    std = math.sqrt(2 / math.prod(shape[1:]))
    return frozen_weights.gaussian(shape, seed=seed, name=f"gaussian:{name}", std=std)
