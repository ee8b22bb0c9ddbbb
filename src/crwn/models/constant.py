"""The constant input: a 1 appended to every flat row, so that a network without biases can learn thresholds."""

from __future__ import annotations

from math import isqrt

import torch.nn.functional as F
from torch import Tensor

from crwn.errors import ConfigError, DataError

IMAGE_SIDES = (8, 16, 28, 32, 48, 64, 84, 96, 128, 224, 256)  # common sides of square grey images


def is_square(in_features: int, side: int) -> bool:
    """Whether a row of this length can be a square image of at least `side` x `side` pixels."""
    found = isqrt(in_features)
    return found * found == in_features and found >= side


def is_image_row(in_features: int) -> bool:
    """Whether a row of this length is taken for a square image: its side is one of the usual ones.

    >>> is_image_row(784), is_image_row(64), is_image_row(30), is_image_row(100)
    (True, True, False, False)
    """
    return isqrt(in_features) ** 2 == in_features and isqrt(in_features) in IMAGE_SIDES


def choose_constant(constant: bool | None, in_features: int) -> bool:
    """Whether a network has the constant input: as given, or by default where rows are not taken for images.

    Without it `f(c x) = c f(x)` for every row of a network of ReLU layers, so that no class can begin at a value.
    Images do without: their pixels differ in many places, and the paper's networks, of MNIST images, have none.
    """
    return not is_image_row(in_features) if constant is None else bool(constant)


def check_constant(constant: bool, weights: str) -> None:
    """Raise ConfigError for frozen weights whose inputs are pixels alone."""
    if constant and weights == "patches":
        raise ConfigError('weights="patches" is for square images, which have no constant input: leave constant out')


def append_constant(x: Tensor, in_features: int) -> Tensor:
    """Rows `[..., in_features]` with a 1 after the last value of each."""
    if x.shape[-1] != in_features:
        raise DataError(f"rows have {x.shape[-1]} features, this network takes {in_features}")
    return F.pad(x, (0, 1), value=1.0)
