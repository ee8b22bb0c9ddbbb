"""The base class of all kinds of frozen weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from crwn.errors import ConfigError


class FrozenWeights(nn.Module):
    """A frozen matrix R `[out, in]` that is made from a seed, applied to rows, and never stored.

    Called with `gain`, it computes `R @ (gain * x)`, the superposition form of the modulation; a gain `[rows, in]`
    gives every row its own.
    """

    fingerprint: str

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        for label, value in (("in_features", in_features), ("out_features", out_features)):
            if value < 1:
                raise ConfigError(f"{label} must be at least 1, got {value}")
        self.in_features = in_features
        self.out_features = out_features

    @property
    def memory_bytes(self) -> int:
        """The size of R in memory."""
        return sum(buffer.nbytes for buffer in self.buffers())

    @property
    def multiplications(self) -> int:
        """The number of multiplications per row."""
        raise NotImplementedError

    def forward(self, x: Tensor, gain: Tensor | None = None) -> Tensor:
        raise NotImplementedError

    def dense(self) -> Tensor:
        """R as an ordinary matrix `[out, in]`."""
        example = next(self.buffers())
        columns: Tensor = self(torch.eye(self.in_features, device=example.device, dtype=example.dtype))
        return columns.T.contiguous()

    def extra_repr(self) -> str:
        return f"{self.in_features} -> {self.out_features}, {self.memory_bytes:,} bytes in memory"
