"""FlyNet: a sparse random encoder like the fly's mushroom body, and a modulated decoder."""

from __future__ import annotations

from operator import index

import torch
import torch.nn.functional as F
from torch import Tensor

from crwn.errors import DataError
from crwn.layers import ModulatedLinear
from crwn.layers.weights import SparseBinary
from crwn.models.constant import append_constant, choose_constant
from crwn.models.encoded import DecodedNetwork


class FlyNet(DecodedNetwork):
    """`h = relu(E x - gamma * mean(E x))`, `y = alpha * (R ⊙ v) h`: E picks `inputs_per_node` inputs per hidden node.

    Args:
        in_features: features of a row.
        hidden: number of hidden nodes; the paper's 10d is `10 * in_features`.
        classes: outputs.
        seed: determines encoder, frozen decoder weights and the context every task starts from.
        inputs_per_node: how many distinct inputs a hidden node adds (the paper's N_in); None for 7, or all where a row
            has fewer features.
        gamma: the share of the mean over hidden nodes that is subtracted before the ReLU; larger is sparser.
        modulation, start, start_scale: as for NeuroModNet.
        constant: whether a 1 is appended to every row, as for NeuroModNet: one more input that E picks from.
        mirrored: whether E picks from `x` and `-x`; by default where there is a constant. Nodes only add inputs: of two
            columns and a constant they would have three different sums of two.

    >>> model = FlyNet(in_features=784, hidden=7840, classes=10, seed=0)
    >>> sum(parameter.numel() for parameter in model.parameters())
    7841
    """

    kind = "flynet"
    rowwise = True

    def __init__(
        self,
        in_features: int,
        hidden: int,
        classes: int,
        *,
        seed: int,
        inputs_per_node: int | None = None,
        gamma: float = 1.0,
        modulation: str = "both",
        start: str = "uniform",
        start_scale: float = 1.0,
        constant: bool | None = None,
        mirrored: bool | None = None,
    ) -> None:
        super().__init__()
        # NumPy integers, as from `y.max() + 1`, cannot be written as JSON.
        in_features, hidden, classes, seed = index(in_features), index(hidden), index(classes), index(seed)
        self.constant = choose_constant(constant, in_features)
        self.mirrored = self.constant if mirrored is None else bool(mirrored)
        inputs = in_features * (1 + self.mirrored) + self.constant
        inputs_per_node, gamma = (
            index(min(7, in_features) if inputs_per_node is None else inputs_per_node),
            float(gamma),
        )
        self.config = {
            "in_features": in_features,
            "hidden": hidden,
            "classes": classes,
            "seed": seed,
            "inputs_per_node": inputs_per_node,
            "gamma": gamma,
            "modulation": modulation,
            "start": start,
            "start_scale": float(start_scale),
        }
        # Omitted where they are false: fingerprints of models made before there were such inputs stay valid.
        if self.constant:
            self.config["constant"] = True
        if self.mirrored:
            self.config["mirrored"] = True
        self.input_shape = (in_features,)
        self.classes = classes
        self.gamma = gamma
        self.encoder = SparseBinary(inputs, hidden, seed=seed, name="encoder", inputs_per_node=inputs_per_node)
        self.decoder = ModulatedLinear(
            hidden, classes, seed=seed, name="decoder", modulation=modulation, start=start, start_scale=start_scale
        )

    def encode(self, x: Tensor) -> Tensor:
        """The sparse hidden representation: it has no context, so it is the same for every task."""
        if x.shape[-1] != self.input_shape[0]:
            raise DataError(f"rows have {x.shape[-1]} features, this network takes {self.input_shape[0]}")
        if self.mirrored:
            x = torch.cat([x, -x], dim=-1)
        if self.constant:
            x = append_constant(x, x.shape[-1])
        sums: Tensor = self.encoder(x)  # a new tensor without gradient, so it can be changed in place
        return F.relu_(sums.sub_(self.gamma * sums.mean(dim=-1, keepdim=True)))
