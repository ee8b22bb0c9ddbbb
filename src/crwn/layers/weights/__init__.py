"""Frozen weights made from a seed: dense Gaussian, patches of an image, Hadamard, and the fly's sparse encoder."""

from __future__ import annotations

from crwn.errors import ConfigError
from crwn.weights.dense import PATCH_SIDES, Gaussian, Patches
from crwn.weights.drawing import gaussian, integers, uniform
from crwn.weights.frozen import FrozenWeights
from crwn.weights.hadamard import Hadamard, hadamard_matrix
from crwn.weights.sparse import SparseBinary

KINDS = ("gaussian", "hadamard", "patches")

__all__ = [
    "KINDS",
    "PATCH_SIDES",
    "FrozenWeights",
    "Gaussian",
    "Hadamard",
    "Patches",
    "SparseBinary",
    "gaussian",
    "hadamard_matrix",
    "integers",
    "make",
    "uniform",
]


def make(kind: str, in_features: int, out_features: int, *, seed: int, name: str = "") -> FrozenWeights:
    """Frozen weights of a named kind: "gaussian", "hadamard" or "patches"."""
    if kind == "gaussian":
        return Gaussian(in_features, out_features, seed=seed, name=name)
    if kind == "hadamard":
        return Hadamard(in_features, out_features, seed=seed, name=name)
    if kind == "patches":
        return Patches(in_features, out_features, seed=seed, name=name)
    raise ConfigError(f'unknown kind of frozen weights "{kind}": choose one of {", ".join(KINDS)}')
