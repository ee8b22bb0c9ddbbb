"""Contexts of a few numbers."""

from __future__ import annotations

from collections.abc import Hashable

import torch

from crwn.contexts import Context

MODEL = "ab" * 32
SHAPES = {"layers.0.v": (6,), "layers.0.alpha": (), "norm.running_mean": (3,), "norm.running_var": (3,)}


def make(name: str = "left", seed: int = 0, classes: tuple[Hashable, ...] = ("cat", 3), **info: object) -> Context:
    """A context of random tensors that the seed determines."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {key: torch.randn(shape, generator=generator) for key, shape in SHAPES.items()}
    return Context(name, tensors, classes, MODEL, "2026-01-02T03:04:05+00:00", dict(info))
