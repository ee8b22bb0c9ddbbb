"""NeuroModNet, fully connected: every layer's frozen random weights are modulated by the task's context."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from crwn.errors import ConfigError
from crwn.layers import ModulatedLinear
from crwn.models.network import Network
from crwn.weights import KINDS

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "abs": torch.abs,
    "cos": torch.cos,
}


class NeuroModNet(Network):
    """`x_{l+1} = g(alpha_l * (R_l ⊙ v_l) x_l)`: any depth and widths, no biases.

    Args:
        in_features: numbers in a row.
        hidden: widths of the hidden layers.
        classes: outputs; tasks with fewer classes use the first ones.
        seed: makes the frozen weights and the context every task starts from.
        weights: "gaussian" (the paper's) or "hadamard" for the hidden layers; the output layer is always Gaussian.
        modulation: "both", "local" (alpha fixed at 1) or "global" (v fixed at its start).
        start, start_scale: where v starts: "uniform" in `+-start_scale / sqrt(fan_in)`, or "ones" times the scale.
        activation: "relu", "gelu", "abs" or "cos".

    >>> model = NeuroModNet(in_features=784, hidden=(256, 256), classes=10, seed=0)
    >>> sum(parameter.numel() for parameter in model.parameters())
    1299
    """

    kind = "neuromodnet"
    rowwise = True

    def __init__(
        self,
        in_features: int,
        hidden: Sequence[int],
        classes: int,
        *,
        seed: int,
        weights: str = "gaussian",
        modulation: str = "both",
        start: str = "uniform",
        start_scale: float = 1.0,
        activation: str = "relu",
    ) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ConfigError(f'unknown activation "{activation}": choose one of {", ".join(ACTIVATIONS)}')
        if weights not in KINDS:  # also where there is no hidden layer to refuse it
            raise ConfigError(f'unknown kind of frozen weights "{weights}": choose one of {", ".join(KINDS)}')
        # NumPy's numbers, as from `y.max() + 1`, do not survive JSON.
        in_features, classes, seed = index(in_features), index(classes), index(seed)
        hidden = [index(size) for size in hidden]
        self.config = {
            "in_features": in_features,
            "hidden": hidden,
            "classes": classes,
            "seed": seed,
            "weights": weights,
            "modulation": modulation,
            "start": start,
            "start_scale": float(start_scale),
            "activation": activation,
        }
        self.input_shape = (in_features,)
        self.classes = classes
        self.activation = ACTIVATIONS[activation]
        sizes = [in_features, *hidden, classes]
        self.layers = nn.ModuleList(
            ModulatedLinear(
                sizes[i],
                sizes[i + 1],
                seed=seed,
                name=f"layers.{i}",
                weights=weights if i < len(sizes) - 2 else "gaussian",
                modulation=modulation,
                start=start,
                start_scale=start_scale,
            )
            for i in range(len(sizes) - 1)
        )

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = self.activation(layer(x))
        out: Tensor = self.layers[-1](x)
        return out
