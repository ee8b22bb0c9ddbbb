"""The head on a backbone's features: several gains for every feature, or frozen random units, and a decoder."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from crwn.layers import ModulatedLinear
from crwn.layers.weights import Gaussian
from crwn.models.encoded import DecodedNetwork

# The ridge of a closed form is at least this, times features of the decoder, divided by rows: as if the task had so
# many rows more for every feature, which say nothing. Found on held-out training images of Split-CIFAR100, for 15 to
# 400 images of a class, with one and with four gains per feature (docs/backbones.md).
PRIOR_ROWS = 0.2


class Expansion(nn.Module):
    """What the decoder takes of features f: themselves several times, or frozen random units of them.

    Features are divided by their root mean square first, which images of low contrast have a smaller one of. With
    `units` they become `relu(W f)` with a frozen Gaussian W, otherwise `gains` copies of f.

    Args:
        gains: gains v that a task learns for every feature. With one less than it has classes, a task can learn any
            linear classifier of the features; two classes need only one.
        units: frozen random units; 0 for none.
    """

    def __init__(self, features: int, *, gains: int = 1, units: int = 0, seed: int) -> None:
        super().__init__()
        self.gains, self.units = gains, units
        self.out_features = units or gains * features
        self.frozen = Gaussian(features, units, seed=seed, name="expansion") if units else None

    def forward(self, features: Tensor) -> Tensor:
        scaled = features * torch.rsqrt(features.square().mean(dim=-1, keepdim=True) + 1e-6)
        if self.frozen is None:
            return torch.cat([scaled] * self.gains, dim=-1)
        return F.relu(self.frozen(scaled))


class FeatureHead(DecodedNetwork):
    """Logits of a backbone's features: `y = R (alpha * v ⊙ expansion(f))`. It shares the layers of its network."""

    kind = "feature-head"
    rowwise = True
    rebuildable = False  # it is sent to workers whole

    def __init__(
        self,
        expansion: Expansion,
        decoder: ModulatedLinear,
        features: int,
        *,
        suggested_rate: float,
        prior_rows: float,
    ) -> None:
        super().__init__()
        self.prior_rows = prior_rows
        self.expansion, self.decoder = expansion, decoder
        self.classes = decoder.frozen.out_features
        self.input_shape = (features,)
        self.suggested_rate = suggested_rate
        self.config = {
            "features": features,
            "gains": expansion.gains,
            "units": expansion.units,
            "classes": self.classes,
        }

    def encode(self, x: Tensor) -> Tensor:
        out: Tensor = self.expansion(x)
        return out
