"""The fly's encoder: sparse and binary, held as the list of its connections."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from crwn.errors import ConfigError
from crwn.layers.functional import WithoutGradient
from crwn.layers.weights.drawing import integers
from crwn.layers.weights.frozen import FrozenWeights


class _BagSum(WithoutGradient):
    """Sums of chosen inputs per hidden node, without gradient; stacked tasks become more rows."""

    @staticmethod
    def forward(x: Tensor, chosen: Tensor) -> Tensor:
        leading = x.shape[:-1]
        columns = x.reshape(-1, x.shape[-1]).T.contiguous()  # [in, rows]: a node's sum adds whole rows of memory
        sums = F.embedding_bag(chosen, columns, mode="sum")  # [hidden, rows]
        return sums.T.reshape(*leading, len(chosen))

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], x: Tensor, chosen: Tensor) -> tuple[Tensor, int]:
        x_dim, chosen_dim = in_dims
        if chosen_dim is not None:
            raise ConfigError("the encoder's connections are frozen: they cannot differ between stacked tasks")
        assert x_dim is not None
        return _bag_sum(x.movedim(x_dim, 0), chosen), 0


def _bag_sum(x: Tensor, chosen: Tensor) -> Tensor:
    out: Tensor = _BagSum.apply(x, chosen)  # type: ignore[no-untyped-call]
    return out


class SparseBinary(FrozenWeights):
    """The fly's encoder: every hidden node adds `inputs_per_node` distinct inputs chosen at random."""

    chosen: Tensor

    def __init__(
        self, in_features: int, out_features: int, *, seed: int, name: str = "", inputs_per_node: int = 7
    ) -> None:
        super().__init__(in_features, out_features)
        if not 1 <= inputs_per_node <= in_features:
            raise ConfigError(
                f"inputs_per_node must be between 1 and the number of inputs ({in_features}), got {inputs_per_node}"
            )
        self.inputs_per_node = inputs_per_node
        drawn = integers(out_features * inputs_per_node, seed=seed, name=f"sparse:{name}", bits=32)
        chosen = _distinct(drawn.reshape(out_features, inputs_per_node).astype(np.uint64), in_features)
        self.fingerprint = hashlib.sha256(chosen.astype("<i4").tobytes()).hexdigest()
        self.register_buffer("chosen", torch.from_numpy(chosen.astype(np.int32)), persistent=False)

    @property
    def multiplications(self) -> int:
        return self.out_features * self.inputs_per_node

    def forward(self, x: Tensor, gain: Tensor | None = None) -> Tensor:
        return _bag_sum(x if gain is None else x * gain, self.chosen)

    def dense(self) -> Tensor:
        matrix = torch.zeros(self.out_features, self.in_features, device=self.chosen.device)
        return matrix.scatter_(1, self.chosen.long(), 1.0)


def _distinct(drawn: npt.NDArray[np.uint64], high: int) -> npt.NDArray[np.int64]:
    """Rows of distinct integers below `high` (Floyd's sampling, one column at a time for all rows)."""
    rows, count = drawn.shape
    chosen = np.full((rows, count), -1, dtype=np.int64)
    for column in range(count):
        last = high - count + column
        candidate = ((drawn[:, column] * np.uint64(last + 1)) >> np.uint64(32)).astype(np.int64)
        taken = (chosen[:, :column] == candidate[:, None]).any(axis=1)
        chosen[:, column] = np.where(taken, last, candidate)
    return np.sort(chosen, axis=1)
