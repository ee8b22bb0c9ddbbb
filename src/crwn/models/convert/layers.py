"""What modulated modules are made of: parametrized weights and fast linear layers."""

from __future__ import annotations

import math

from torch import Tensor, nn

from crwn import weights as frozen_weights
from crwn.layers import Modulated, ModulatedLinear


class WeightModulation(Modulated):
    """`R -> alpha * R ⊙ v` as a parametrization of any weight: `v` has R's shape without the first dimension.

    Args:
        weight: the weight as it is; it tells the shape.
        parts: fused projections stacked in the first dimension (three in attention), each with a `v` of its own.
        kind: what the report calls the layer.
    """

    def __init__(
        self, weight: Tensor, *, seed: int, name: str, modulation: str, start: str, kind: str, parts: int = 1
    ) -> None:
        inner = tuple(weight.shape[1:])
        shape = inner if parts == 1 else (parts, *inner)
        super().__init__(shape, math.prod(inner), seed=seed, name=name, modulation=modulation, start=start)
        self.parts = parts
        self.kind = kind
        self.numbers = weight.numel()
        self.fingerprint = ""

    @property
    def frozen_numbers(self) -> int:
        return self.numbers

    def forward(self, weight: Tensor) -> Tensor:
        if self.parts == 1:
            return weight * self.gain
        apart = weight.view(self.parts, -1, *weight.shape[1:])  # [parts, out, in]
        return (apart * self.gain.unsqueeze(1)).flatten(0, 1)


class ConvertedLinear(ModulatedLinear, nn.Linear):
    """A modulated linear layer in the place of an `nn.Linear`: with its bias, and its weight for those who read it.

    It is an `nn.Linear` to those who ask: modules treat their layers by their kinds.
    """

    kind = "Linear"
    bias: nn.Parameter | None  # type: ignore[assignment]

    def __init__(self, layer: nn.Linear, *, seed: int, name: str, modulation: str, start: str) -> None:
        inputs, outputs = layer.in_features, layer.out_features
        super().__init__(inputs, outputs, seed=seed, name=name, modulation=modulation, start=start)
        self.in_features = layer.in_features
        self.out_features = layer.out_features
        self.register_parameter("bias", layer.bias)

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        """The modulated weight `[out, in]`."""
        return self.frozen.dense() * self.gain

    def forward(self, x: Tensor, gain: Tensor | None = None, *, spend: bool = False) -> Tensor:
        out = super().forward(x, gain, spend=spend)
        return out if self.bias is None else out + self.bias


def random_weight(shape: tuple[int, ...], *, seed: int, name: str, parts: int = 1) -> tuple[Tensor, str]:
    """`R ~ N(0, 2 / fan_in)` and the fingerprint of its integers."""
    std = math.sqrt(2 / math.prod(shape[1:]))
    return frozen_weights.gaussian(shape, seed=seed, name=f"gaussian:{name}", std=std)
