"""NeuroModNet, fully connected: every layer's frozen random weights are modulated by the task's context."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import index

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from crwn.errors import ConfigError
from crwn.layers import ModulatedLinear
from crwn.layers.weights import KINDS, PATCH_SIDES
from crwn.models.constant import append_constant, check_constant, choose_constant, is_square
from crwn.models.network import Network
from crwn.models.row_contexts import RowContexts

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "abs": torch.abs,
    "cos": torch.cos,
}
NORMS = ("none", "layer")


def best_structure(in_features: int) -> dict[str, str]:
    """The weights and norm of `recipe="best"` for rows of this length, as arguments of `NeuroModNet`.

    >>> best_structure(784)
    {'weights': 'patches', 'norm': 'layer'}
    >>> best_structure(30)
    {'weights': 'hadamard', 'norm': 'layer'}
    """
    image = is_square(in_features, 2 * PATCH_SIDES[0])
    return {"weights": "patches" if image else "hadamard", "norm": "layer"}


class NeuroModNet(Network):
    """`x_{l+1} = g(alpha_l * (R_l ⊙ v_l) x_l)`: any depth and widths, no biases but those of a constant input.

    Args:
        in_features: features of a row.
        hidden: widths of the hidden layers.
        classes: outputs; tasks with fewer classes use the first ones.
        seed: determines the frozen weights and the context every task starts from.
        weights: "gaussian" (the paper's) or "hadamard" for the hidden layers; "patches" for square images as rows:
            every unit of the first layer has a random rectangle, other hidden layers are Hadamard. The output layer
            is always Gaussian.
        modulation: "both", "local" (alpha fixed at 1) or "global" (v fixed at its start).
        start, start_scale: where v starts: "uniform" in `+-start_scale / sqrt(fan_in)`, or "ones" times the scale.
        activation: "relu", "gelu", "abs" or "cos".
        norm: "none" (the paper's), or "layer": hidden rows are normalized to mean 0 and variance 1, nothing is learned.
        constant: whether a 1 is appended to every row, one more entry of the first layer's v, so that thresholds can be
            learned; by default it is, unless rows have the length of usual square images (the paper's have none).

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
        norm: str = "none",
        constant: bool | None = None,
    ) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ConfigError(f'unknown activation "{activation}": choose one of {", ".join(ACTIVATIONS)}')
        if norm not in NORMS:
            raise ConfigError(f'unknown norm "{norm}": choose one of {", ".join(NORMS)}')
        if weights not in KINDS:  # checked here for networks without hidden layers
            raise ConfigError(f'unknown kind of frozen weights "{weights}": choose one of {", ".join(KINDS)}')
        # NumPy integers, as from `y.max() + 1`, cannot be written as JSON.
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
        if norm != "none":  # omitted otherwise: fingerprints of models made before there was a norm stay valid
            self.config["norm"] = norm
        self.constant = choose_constant(constant, in_features) and weights != "patches"
        check_constant(constant is True, weights)
        if self.constant:  # omitted otherwise, for the same reason
            self.config["constant"] = True
        self.input_shape = (in_features,)
        self.classes = classes
        self.activation = ACTIVATIONS[activation]
        self.norm = norm
        sizes = [in_features + self.constant, *hidden, classes]
        hidden_kinds = [weights, *["hadamard" if weights == "patches" else weights] * len(hidden)][: len(hidden)]
        kinds = [*hidden_kinds, "gaussian"]
        self.layers = nn.ModuleList(
            ModulatedLinear(
                sizes[i],
                sizes[i + 1],
                seed=seed,
                name=f"layers.{i}",
                weights=kinds[i],
                modulation=modulation,
                start=start,
                start_scale=start_scale,
            )
            for i in range(len(sizes) - 1)
        )

    @property
    def normalized(self) -> bool:
        return self.norm != "none"

    def forward(self, x: Tensor) -> Tensor:
        return self.forward_with({}, x)

    def forward_with(self, tensors: Mapping[str, Tensor], x: Tensor) -> Tensor:
        if self.constant:
            x = append_constant(x, self.input_shape[0])
        for number, layer in enumerate(self.layers):
            if isinstance(layer, ModulatedLinear):
                x = layer(x, layer.gain_from(tensors, f"layers.{number}"))
            else:  # the ordinary layer that `merge_context` puts in its place
                x = layer(x)
            if number < len(self.layers) - 1:
                x = self._normalized(self.activation(x))
        return x

    def forward_with_contexts(self, contexts: RowContexts, x: Tensor) -> Tensor:
        # In place, which is 4% faster for 256 rows and a width of 1024 (docs/decisions.md): gains and activations are
        # as large as the rows, and new ones would be written to memory that is in no cache.
        activation = F.relu_ if self.activation is F.relu else self.activation
        if self.constant:
            x = append_constant(x, self.input_shape[0])
        for number, layer in enumerate(self.layers):
            assert isinstance(layer, ModulatedLinear)
            layer.check_rows(x)
            x = layer.frozen(contexts.gain(layer, f"layers.{number}").mul_(x))
            if number < len(self.layers) - 1:
                x = self._normalized(activation(x))
        return x

    def _normalized(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[-1:]) if self.norm == "layer" else x
