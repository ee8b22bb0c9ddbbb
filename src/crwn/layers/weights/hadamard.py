"""Frozen weights made of random signs and Hadamard matrices, which are multiplied with but never built."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from crwn.layers.weights.drawing import integers
from crwn.layers.weights.frozen import FrozenWeights


class Hadamard(FrozenWeights):
    """Blocks of `c * H * D_b`: H orthonormal Hadamard of the next power of two n, D_b random signs of block b.

    Inputs are padded with zeros to n; the outputs of `ceil(out / n)` blocks are concatenated and cut to `out`;
    `c = sqrt(2 n / in)` gives R's entries the size of the Gaussian's. H is never built: it is the Kronecker product
    of two small Hadamard matrices, three from 4096 on, and a row as a `p x q` matrix X gives `H x = H_p X H_q`.
    """

    signs: Tensor
    left: Tensor
    middle: Tensor | None
    right: Tensor

    def __init__(self, in_features: int, out_features: int, *, seed: int, name: str = "") -> None:
        super().__init__(in_features, out_features)
        self.size = 1 << (in_features - 1).bit_length()
        self.blocks = -(-out_features // self.size)
        drawn = integers(self.blocks * in_features, seed=seed, name=f"hadamard:{name}", bits=8) & 1
        self.fingerprint = hashlib.sha256(np.packbits(drawn).tobytes()).hexdigest()
        signs = torch.from_numpy(1.0 - 2.0 * drawn.astype(np.float32)).reshape(self.blocks, in_features)
        self.register_buffer("signs", signs, persistent=False)
        self._folds = _folds(self.size)
        factors = [hadamard_matrix(fold) for fold in self._folds]
        # c is part of one factor, so that the product needs no separate scaling.
        self.register_buffer("left", factors[0] * math.sqrt(2 * self.size / in_features), persistent=False)
        self.register_buffer("middle", factors[1] if len(factors) == 3 else None, persistent=False)
        self.register_buffer("right", factors[-1], persistent=False)

    @property
    def multiplications(self) -> int:
        return self.blocks * (self.in_features + self.size * sum(self._folds))

    def forward(self, x: Tensor, gain: Tensor | None = None) -> Tensor:
        scale = self.signs if gain is None else self.signs * gain.unsqueeze(-2)  # [blocks, in]
        spread = x.unsqueeze(-2) * scale  # [..., blocks, in]
        if self.size > self.in_features:
            spread = F.pad(spread, (0, self.size - self.in_features))
        leading = spread.shape[:-1]
        folded = spread.reshape(*leading, *self._folds) @ self.right
        if self.middle is not None:
            folded = (self.middle @ folded).flatten(-2)
        out = (self.left @ folded).reshape(*leading[:-1], self.blocks * self.size)
        return out[..., : self.out_features]


def _folds(size: int) -> tuple[int, ...]:
    """Sizes of the factors: two, or three from 4096 on, where fewer multiplications outweigh one more pass.

    >>> _folds(1024), _folds(2048), _folds(4096), _folds(16384)
    ((32, 32), (32, 64), (16, 16, 16), (32, 32, 16))
    """
    power = size.bit_length() - 1
    if size < 4096:
        return 1 << power // 2, 1 << power - power // 2
    return 1 << (power + 2) // 3, 1 << (power + 1) // 3, 1 << power // 3


def hadamard_matrix(size: int) -> Tensor:
    """The orthonormal Hadamard matrix of a power of two (Sylvester's construction)."""
    matrix = torch.ones(1, 1)
    while len(matrix) < size:
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)], 0)
    return matrix / math.sqrt(size)
