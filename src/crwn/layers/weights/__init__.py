"""Frozen weights made from a seed: dense, patches of an image, Hadamard, the fly's sparse encoder, image filters."""

from __future__ import annotations

from crwn.errors import ConfigError
from crwn.layers.weights.dense import PATCH_SIDES, Gaussian, Patches
from crwn.layers.weights.drawing import gaussian, integers, named_generator, uniform
from crwn.layers.weights.filters import FilterBank
from crwn.layers.weights.frozen import FrozenWeights
from crwn.layers.weights.hadamard import Hadamard, hadamard_matrix
from crwn.layers.weights.sparse import SparseBinary

KINDS = ("gaussian", "hadamard", "patches")

__all__ = [
    "KINDS",
    "PATCH_SIDES",
    "FilterBank",
    "FrozenWeights",
    "Gaussian",
    "Hadamard",
    "Patches",
    "SparseBinary",
    "gaussian",
    "hadamard_matrix",
    "integers",
    "make",
    "named_generator",
    "uniform",
]


def make(kind: str, in_features: int, out_features: int, *, seed: int, name: str = "") -> FrozenWeights:
    """Make frozen weights of a kind: "gaussian", "hadamard" or "patches".

    Raises:
        ConfigError: the kind is unknown, or the sizes are impossible for it.
    """
    if kind == "gaussian":
        return Gaussian(in_features, out_features, seed=seed, name=name)
    if kind == "hadamard":
        return Hadamard(in_features, out_features, seed=seed, name=name)
    if kind == "patches":
        return Patches(in_features, out_features, seed=seed, name=name)
    raise ConfigError(f'unknown kind of frozen weights "{kind}": choose one of {", ".join(KINDS)}')
