"""The head on a backbone's features: frozen random units, and a decoder that the context modulates."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from crwn.layers import ModulatedLinear
from crwn.layers.weights import Gaussian
from crwn.models.encoded import DecodedNetwork


class Expansion(nn.Module):
    """`relu(W f / |f|)` with a frozen Gaussian W: more units than features, so that a context can weigh combinations.

    Features are divided by their root mean square, which images of low contrast have a smaller one of.
    """

    def __init__(self, features: int, units: int, *, seed: int) -> None:
        super().__init__()
        self.units = units
        self.frozen = Gaussian(features, units, seed=seed, name="expansion") if units else None

    def forward(self, features: Tensor) -> Tensor:
        scaled = features * torch.rsqrt(features.square().mean(dim=-1, keepdim=True) + 1e-6)
        if self.frozen is None:
            return scaled
        return F.relu(self.frozen(scaled))


class FeatureHead(DecodedNetwork):
    """Logits of a backbone's features: `y = R (alpha * v ⊙ expansion(f))`. It shares the layers of its network."""

    kind = "feature-head"
    rowwise = True
    rebuildable = False  # it is sent to workers whole

    def __init__(self, expansion: Expansion, decoder: ModulatedLinear, features: int, *, suggested_rate: float) -> None:
        super().__init__()
        self.expansion, self.decoder = expansion, decoder
        self.classes = decoder.frozen.out_features
        self.input_shape = (features,)
        self.suggested_rate = suggested_rate
        self.config = {"features": features, "units": expansion.units, "classes": self.classes}

    def encode(self, x: Tensor) -> Tensor:
        out: Tensor = self.expansion(x)
        return out
