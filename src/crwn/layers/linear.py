"""The modulated linear layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from crwn.errors import DataError
from crwn.layers import weights as frozen_weights
from crwn.layers.modulated import Mergeable, Modulated


class ModulatedLinear(Modulated, Mergeable):
    """`y = alpha * (R ⊙ v) x`, computed as `R (alpha * v ⊙ x)`.

    This form builds no modulated matrix, needs no weight gradient, and lets rows of different tasks share
    one multiplication.

    Args:
        in_features, out_features: as for `nn.Linear`; there is no bias.
        seed, name: make the frozen weights and the `v` every task starts from.
        weights: the kind of frozen weights: "gaussian", "hadamard" or "patches".
        modulation, start, start_scale: as for `Modulated`.

    Raises:
        ConfigError: a setting is unknown, or the sizes are impossible for this kind of weights.
        DataError: the last dimension of the input is not `in_features`.

    >>> layer = ModulatedLinear(8, 3, seed=0)
    >>> layer.v.shape, layer(torch.zeros(5, 8)).shape
    (torch.Size([8]), torch.Size([5, 3]))
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        seed: int,
        name: str = "",
        weights: str = "gaussian",
        modulation: str = "both",
        start: str = "uniform",
        start_scale: float = 1.0,
    ) -> None:
        # Made first: it raises an error for impossible sizes.
        frozen = frozen_weights.make(weights, in_features, out_features, seed=seed, name=name)
        super().__init__(
            (in_features,),
            in_features,
            seed=seed,
            name=name,
            modulation=modulation,
            start=start,
            start_scale=start_scale,
        )
        self.frozen = frozen

    @property
    def frozen_parameters(self) -> int:
        return self.frozen.in_features * self.frozen.out_features

    def forward(self, x: Tensor, gain: Tensor | None = None) -> Tensor:
        """The outputs for rows `[..., in]`; without a gain `alpha * v` the layer's own is used."""
        self.check_rows(x)
        out: Tensor = self.frozen(x, self.gain if gain is None else gain)
        return out

    def check_rows(self, x: Tensor) -> None:
        """Raise `DataError` unless the last dimension is `in_features`."""
        if x.shape[-1] != self.frozen.in_features:
            raise DataError(f"rows have {x.shape[-1]} features, this layer takes {self.frozen.in_features}")

    @torch.no_grad()
    def to_plain(self) -> nn.Linear:
        weight = self.frozen.dense() * self.gain
        plain = nn.Linear(weight.shape[1], weight.shape[0], bias=False, device=weight.device, dtype=weight.dtype)
        plain.weight.copy_(weight)
        return plain
