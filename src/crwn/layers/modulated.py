"""What all modulated layers have in common: the context `v` and `alpha`, and the ordinary layer it can become."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from crwn.errors import ConfigError
from crwn.layers.weights import uniform

MODULATIONS = ("both", "local", "global")
STARTS = ("uniform", "ones")


class Mergeable(nn.Module):
    """A layer that, with the context it holds, computes the same as an ordinary layer of torch."""

    def to_plain(self) -> nn.Module:
        """The ordinary layer with the same outputs."""
        raise NotImplementedError


class Modulated(nn.Module):
    """The context of one layer: `v` (local neuromodulation) and `alpha` (global), each learned or fixed.

    Args:
        shape: the shape of `v`.
        fan_in: the number of inputs of one output; `v` starts uniform in `+-start_scale / sqrt(fan_in)`.
        seed, name: determine where `v` starts.
        modulation: "both"; "local" fixes alpha at 1; "global" fixes v at its start.
        start: "uniform", or "ones".
        start_scale: the factor of the start.

    Raises:
        ConfigError: `modulation` or `start` is not one of the above.
    """

    v: Tensor
    alpha: Tensor

    def __init__(
        self,
        shape: tuple[int, ...],
        fan_in: int,
        *,
        seed: int,
        name: str,
        modulation: str = "both",
        start: str = "uniform",
        start_scale: float = 1.0,
    ) -> None:
        nn.Module.__init__(self)  # not super(): a converted layer is also an nn.Linear, which would draw weights
        if modulation not in MODULATIONS:
            raise ConfigError(f'unknown modulation "{modulation}": choose one of {", ".join(MODULATIONS)}')
        if start not in STARTS:
            raise ConfigError(f'unknown start "{start}" of the context: choose one of {", ".join(STARTS)}')
        if start == "ones":
            v = torch.full(shape, start_scale)
        else:
            v = uniform(shape, seed=seed, name=f"v:{name}", bound=start_scale / math.sqrt(fan_in))
        self._register("v", v, learned=modulation != "global")
        self._register("alpha", torch.ones(()), learned=modulation != "local")

    def _register(self, name: str, value: Tensor, *, learned: bool) -> None:
        if learned:
            self.register_parameter(name, nn.Parameter(value))
        else:
            self.register_buffer(name, value, persistent=False)

    @property
    def gain(self) -> Tensor:
        """`alpha * v`: what the inputs of the frozen weights are multiplied by."""
        return self.alpha * self.v

    def gain_from(self, tensors: Mapping[str, Tensor], name: str) -> Tensor:
        """`alpha * v` of a context in which this layer is called `name`; what is not in it is the layer's own."""
        alpha, v = tensors.get(f"{name}.alpha"), tensors.get(f"{name}.v")
        return (self.alpha if alpha is None else alpha) * (self.v if v is None else v)

    @property
    def frozen_parameters(self) -> int:
        """The number of frozen weights."""
        raise NotImplementedError
