"""The baselines' fully connected network, with the kind of layer each of them puts into it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from crwn.errors import ConfigError
from crwn.methods.published import has_images
from crwn.scenarios import Scenario
from crwn.weights import gaussian, integers, uniform

Layer = Callable[[int, int, str], nn.Module]  # (in, out, name) -> layer
DEPTH = 2  # hidden layers of the paper's fully connected networks


class FullyConnected(nn.Module):
    """`x_{l+1} = relu(layer_l(x_l))`, the last layer without the ReLU; no biases."""

    def __init__(self, sizes: list[int], layer: Layer) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layer(*pair, f"layers.{i}") for i, pair in enumerate(itertools.pairwise(sizes)))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        out: Tensor = self.layers[-1](x)
        return out


class Dense(nn.Module):
    """`y = W x`, every weight learned; W ~ N(0, std^2), std = sqrt(2 / in) unless given."""

    def __init__(self, in_features: int, out_features: int, *, seed: int, name: str, std: float | None = None) -> None:
        super().__init__()
        std = math.sqrt(2 / in_features) if std is None else std
        weight, _ = gaussian((out_features, in_features), seed=seed, name=f"dense:{name}", std=std)
        self.weight = nn.Parameter(weight)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight)


class _Step(torch.autograd.Function):
    """1 where a score is at least 0, else 0; the gradient goes straight through to the scores."""

    generate_vmap_rule = True

    @staticmethod
    def forward(scores: Tensor) -> Tensor:
        return (scores >= 0).to(scores.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


class Masked(nn.Module):
    """`y = (W ⊙ [scores >= 0]) x`: SupSup. W is frozen at `+-sqrt(2 / in)`, a task learns which weights to keep."""

    weight: Tensor

    def __init__(self, in_features: int, out_features: int, *, seed: int, name: str) -> None:
        super().__init__()
        shape = (out_features, in_features)
        drawn = integers(math.prod(shape), seed=seed, name=f"signs:{name}", bits=8) & 1
        weight = (1.0 - 2.0 * drawn.astype(np.float32)) * np.float32(math.sqrt(2 / in_features))
        self.register_buffer("weight", torch.from_numpy(weight.reshape(shape)), persistent=False)
        bound = 1 / math.sqrt(in_features)
        self.scores = nn.Parameter(uniform(shape, seed=seed, name=f"scores:{name}", bound=bound))

    def forward(self, x: Tensor) -> Tensor:
        mask: Tensor = _Step.apply(self.scores)  # type: ignore[no-untyped-call]
        return F.linear(x, self.weight * mask)

    def mask(self, scores: Tensor) -> Tensor:
        """Which weights these scores keep."""
        return scores >= 0

    def scores_of(self, mask: Tensor) -> Tensor:
        """Scores that keep what the mask keeps: 0 keeps a weight, -1 drops it."""
        return mask - 1


class RankOne(nn.Module):
    """`y = s ⊙ (W (t ⊙ x))`: BatchE. W ~ N(0, 2 / in) is shared, a task learns s and t, which start as random signs."""

    weight: Tensor

    def __init__(self, in_features: int, out_features: int, *, seed: int, name: str) -> None:
        super().__init__()
        std = math.sqrt(2 / in_features)
        weight, _ = gaussian((out_features, in_features), seed=seed, name=f"dense:{name}", std=std)
        self.register_buffer("weight", weight, persistent=False)
        self.s = nn.Parameter(torch.ones(out_features))
        self.t = nn.Parameter(torch.ones(in_features))

    def forward(self, x: Tensor) -> Tensor:
        return self.s * F.linear(x * self.t, self.weight)


class Rotated(nn.Module):
    """`y = W (C x)`: PSP. C is the task's fixed rotation, W ~ N(0, 2 / (in + out)) is trained by every task."""

    rotation: Tensor

    def __init__(self, in_features: int, out_features: int, *, seed: int, name: str) -> None:
        super().__init__()
        std = math.sqrt(2 / (in_features + out_features))
        weight, _ = gaussian((out_features, in_features), seed=seed, name=f"dense:{name}", std=std)
        self.weight = nn.Parameter(weight)
        self.register_buffer("rotation", torch.eye(in_features), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(F.linear(x, self.rotation), self.weight)


def fully_connected(scenario: Scenario, size: str, layer: Layer, *, method: str) -> FullyConnected:
    """The paper's network for flat rows: two hidden layers of this width."""
    features = flat_features(scenario, method=method)
    return FullyConnected([features, *[width(size, method=method)] * DEPTH, scenario.num_classes], layer)


def flat_features(scenario: Scenario, *, method: str) -> int:
    """How many numbers a row of this scenario has."""
    if has_images(scenario):
        raise ConfigError(
            f"{method} takes flat rows, but inputs of {scenario.name} have the shape {scenario.input_shape}"
        )
    return scenario.input_shape[0]


def width(size: str, *, method: str) -> int:
    """A size that is the width of the hidden layers."""
    if not (size.isascii() and size.isdigit() and int(size) > 0):
        raise ConfigError(f'{method} has no size "{size}": give the width of its hidden layers, like 256 or 1024')
    return int(size)


def multiple(size: str, *, method: str) -> int:
    """A size that is a multiple of something, like 10d."""
    number = size.removesuffix("d")
    if not (size.endswith("d") and number.isascii() and number.isdigit() and int(number) > 0):
        raise ConfigError(f'{method} has no size "{size}": give a multiple of the number of inputs, like 10d or 40d')
    return int(number)
