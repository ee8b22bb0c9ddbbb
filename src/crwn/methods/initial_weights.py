"""The random tensors that the baselines' layers start from, drawn from a seed and a stream name."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from crwn.layers.weights import gaussian, integers, uniform


def fan_in(shape: tuple[int, ...]) -> int:
    """Inputs of one output of a layer with weights `[out, in]` or `[out, in, height, width]`."""
    return math.prod(shape[1:])


def kaiming_normal(shape: tuple[int, ...], *, seed: int, name: str) -> Tensor:
    """`N(0, 2 / fan_in)`."""
    weight, _ = gaussian(shape, seed=seed, name=name, std=math.sqrt(2 / fan_in(shape)))
    return weight


def torch_uniform(shape: tuple[int, ...], *, seed: int, name: str) -> Tensor:
    """Uniform in `(-1 / sqrt(fan_in), 1 / sqrt(fan_in))`: the start of torch's own linear layers and convolutions."""
    return uniform(shape, seed=seed, name=name, bound=1 / math.sqrt(fan_in(shape)))


def xavier_normal(shape: tuple[int, int], *, seed: int, name: str) -> Tensor:
    """`N(0, 2 / (in + out))`."""
    weight, _ = gaussian(shape, seed=seed, name=name, std=math.sqrt(2 / (shape[1] + shape[0])))
    return weight


def random_signs(shape: tuple[int, ...], *, seed: int, name: str) -> Tensor:
    """+1 or -1 with equal probability."""
    drawn = integers(math.prod(shape), seed=seed, name=name, bits=8) & 1
    return torch.from_numpy(1.0 - 2.0 * drawn.astype(np.float32)).reshape(shape)
