"""Frozen weights held as a matrix: Gaussian everywhere, or Gaussian in patches of an image."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from crwn.errors import ConfigError
from crwn.layers.functional import is_shared, modulated_linear, modulated_linear_by_matrix
from crwn.layers.products import product
from crwn.layers.weights.drawing import gaussian, integers
from crwn.layers.weights.frozen import FrozenWeights

# Smallest and largest side of a patch, in pixels: the best of those tried on Rotation-MNIST's held-out images.
PATCH_SIDES = (7, 14)


class Gaussian(FrozenWeights):
    """Dense R ~ N(0, 2 / in_features)."""

    weight: Tensor

    def __init__(self, in_features: int, out_features: int, *, seed: int, name: str = "") -> None:
        super().__init__(in_features, out_features)
        weight, self.fingerprint = gaussian(
            (out_features, in_features), seed=seed, name=f"gaussian:{name}", std=math.sqrt(2 / in_features)
        )
        self.register_buffer("weight", weight, persistent=False)

    @property
    def multiplications(self) -> int:
        return self.in_features * self.out_features

    def forward(self, x: Tensor, gain: Tensor | None = None) -> Tensor:
        many = x.ndim > 1 and x.shape[-2] > 4 * self.out_features
        if gain is not None and many and is_shared(gain):
            # With few outputs and many rows the modulated matrix is smaller than the modulated rows.
            return modulated_linear_by_matrix(x, gain, self.weight)
        return product(x, self.weight) if gain is None else modulated_linear(x, gain, self.weight)

    def dense(self) -> Tensor:
        return self.weight.clone()


class Patches(FrozenWeights):
    """Every unit has one random rectangle of a square image: Gaussian weights inside, zero outside.

    Sides are uniform in 7..14 pixels and positions uniform in the image; the variance is `2 / pixels inside`.
    """

    weight: Tensor

    def __init__(self, in_features: int, out_features: int, *, seed: int, name: str = "") -> None:
        super().__init__(in_features, out_features)
        side = math.isqrt(in_features)
        if side * side != in_features or side < PATCH_SIDES[0]:
            raise ConfigError(
                f"patches need square images of at least {PATCH_SIDES[0]} x {PATCH_SIDES[0]} pixels, "
                f'got rows of {in_features} features: use "hadamard" or "gaussian"'
            )
        drawn = integers(4 * out_features, seed=seed, name=f"patches:{name}", bits=32)
        inside = _rectangles(drawn.reshape(4, out_features), side)
        values, made = gaussian((out_features, in_features), seed=seed, name=f"patch values:{name}", std=1.0)
        self.fingerprint = hashlib.sha256(made.encode() + drawn.tobytes()).hexdigest()
        scale = np.sqrt(2.0 / inside.sum(axis=1, keepdims=True)).astype(np.float32)
        self.register_buffer("weight", values.mul_(torch.from_numpy(inside * scale)), persistent=False)

    @property
    def multiplications(self) -> int:
        return self.in_features * self.out_features

    def forward(self, x: Tensor, gain: Tensor | None = None) -> Tensor:
        return product(x, self.weight) if gain is None else modulated_linear(x, gain, self.weight)

    def dense(self) -> Tensor:
        return self.weight.clone()


def _rectangles(drawn: npt.NDArray[np.uint32], side: int) -> npt.NDArray[np.bool_]:
    """Which pixels of a `side x side` image are in each rectangle, `[rectangles, pixels]`, from four integers each."""
    smallest, largest = PATCH_SIDES[0], min(PATCH_SIDES[1], side)
    shares = drawn.astype(np.float64) / 2**32
    size = np.floor(smallest + shares[:2] * (largest - smallest + 1))  # [2, rectangles]: height and width
    start = np.floor(shares[2:] * (side - size + 1))
    at = np.arange(side)
    inside = (at >= start[..., None]) & (at < (start + size)[..., None])  # [2, rectangles, side]
    whole: npt.NDArray[np.bool_] = inside[0][:, :, None] & inside[1][:, None, :]
    return whole.reshape(len(whole), side * side)
