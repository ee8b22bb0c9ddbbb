"""The network of the recipe search: NeuroModNet with everything that is searched over."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from crwn.layers import weights

FEATURES, CLASSES = 784, 10
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "leaky": lambda x: F.leaky_relu(x, 0.1),
    "abs": torch.abs,
    "cos": torch.cos,
}


def widths(shape: str, params: int) -> list[int]:
    """Return the features of the hidden layers such that all v and alpha together are at most `params`."""
    layers = {"1": 1, "2": 2, "3": 3, "4": 4, "wide-last": 2, "wide-first": 2}[shape]
    left = params - FEATURES - layers - 1
    if shape == "wide-last":
        return [left // 4, left - left // 4]
    if shape == "wide-first":
        return [left - left // 4, left // 4]
    return [left // layers] * layers


class Patches(weights.FrozenWeights):
    """Every unit sees one random rectangle of the image: Gaussian inside, zero outside."""

    weight: Tensor

    def __init__(self, in_features: int, out_features: int, *, seed: int, name: str, patch: list[int]) -> None:
        super().__init__(in_features, out_features)
        side = math.isqrt(in_features)
        drawn = weights.integers(4 * out_features, seed=seed, name=f"patches:{name}", bits=32).reshape(4, -1)
        shares = drawn.astype(np.float64) / 2**32
        size = np.floor(patch[0] + shares[:2] * (min(patch[1], side) - patch[0] + 1))  # [2, out]
        start = np.floor(shares[2:] * (side - size + 1))
        at = np.arange(side)
        inside = (at >= start[..., None]) & (at < (start + size)[..., None])  # [2, out, side]
        mask = (inside[0][:, :, None] & inside[1][:, None, :]).reshape(out_features, in_features)
        values, self.fingerprint = weights.gaussian((out_features, in_features), seed=seed, name=name, std=1.0)
        scale = np.sqrt(2.0 / mask.sum(axis=1, keepdims=True)).astype(np.float32)
        self.register_buffer("weight", values * torch.from_numpy(mask * scale), persistent=False)

    @property
    def multiplications(self) -> int:
        return int((self.weight != 0).sum())

    def forward(self, x: Tensor, gain: Tensor | None = None) -> Tensor:
        return F.linear(x if gain is None else x * gain, self.weight)


class Twice(weights.FrozenWeights):
    """H D2 H D1: two Hadamard products mix better than one."""

    def __init__(self, in_features: int, out_features: int, *, seed: int, name: str) -> None:
        super().__init__(in_features, out_features)
        self.one = weights.Hadamard(in_features, out_features, seed=seed, name=f"{name}.one")
        self.two = weights.Hadamard(out_features, out_features, seed=seed, name=f"{name}.two")

    def forward(self, x: Tensor, gain: Tensor | None = None) -> Tensor:
        out: Tensor = self.two(self.one(x, gain)) / math.sqrt(2)
        return out


class Candidate(nn.Module):
    """NeuroModNet with everything that is searched over."""

    def __init__(self, config: dict[str, Any], params: int) -> None:
        super().__init__()
        hidden = widths(config["hidden"], params)
        seed, pool, tie = config["seed"], config["pool"], config["tie"]
        self.pool, self.norm = pool, config["norm"]
        self.activation = ACTIVATIONS[config["activation"]]
        features = [FEATURES, *(width * tie for width in hidden)]
        self.frozen = nn.ModuleList()
        for i, (inputs, outputs) in enumerate(zip(features, [*features[1:], CLASSES], strict=True)):
            kind = "gaussian" if i == len(hidden) else config["first"] if i == 0 else config["rest"]
            name = f"layers.{i}"
            units = outputs * pool if i < len(hidden) else outputs
            if kind == "patches":
                made: nn.Module = Patches(inputs, units, seed=seed, name=name, patch=config["patch"])
            elif kind == "hadamard2":
                made = Twice(inputs, units, seed=seed, name=name)
            else:
                made = weights.make(kind, inputs, units, seed=seed, name=name)
            self.frozen.append(made)
            own = inputs if i == 0 else inputs // tie
            bound = config["start_scale"] / math.sqrt(inputs)
            self.register_parameter(
                f"v{i}", nn.Parameter(weights.uniform((own,), seed=seed, name=f"v:{name}", bound=bound))
            )
            self.register_parameter(f"alpha{i}", nn.Parameter(torch.ones(())))
            signs = 1.0 - 2.0 * (weights.integers(inputs, seed=seed, name=f"tie:{name}", bits=8) & 1).astype("float32")
            self.register_buffer(f"signs{i}", torch.from_numpy(signs) if i and tie > 1 else None)
        self.learned = sum(parameter.numel() for parameter in self.parameters())

    def forward(self, x: Tensor) -> Tensor:
        for i, frozen in enumerate(self.frozen):
            v = getattr(self, f"v{i}")
            signs = getattr(self, f"signs{i}")
            if signs is not None:
                v = v.repeat(len(signs) // len(v)) * signs
            if i and self.norm != "none":
                x = x - x.mean(dim=-1, keepdim=True)
                if self.norm == "layer":
                    x = x / (x.square().mean(dim=-1, keepdim=True) + 1e-6).sqrt()
            x = frozen(x, getattr(self, f"alpha{i}") * v)
            if i < len(self.frozen) - 1:
                if self.pool > 1:
                    x = x.unflatten(-1, (self.pool, -1)).amax(dim=-2)
                x = self.activation(x)
        return x
