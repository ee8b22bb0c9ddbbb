"""Weights of the inputs in each task's context, as an image, and alpha by layer and task."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from crwn.insight.collection import Collection
from crwn.insight.measures import Matrix
from crwn.layers import context_names
from crwn.layers.weights import SparseBinary
from crwn.models import FlyNet, NeuroModNet


def input_weights(collection: Collection) -> Matrix | None:
    """Change of the gain of every input from the common start, `[tasks, inputs]`.

    For a network whose first layer is modulated this is `|alpha * v - alpha_0 * v_0|`. FlyNet modulates after its
    encoder: there an input gets the mean over the hidden nodes that read it. None if the first context has no value
    per input (convolutions share theirs over the image).
    """
    order = context_names(collection.model) if collection.model is not None else list(collection.contexts[0])
    first = order[0].rpartition(".")[0]
    if f"{first}.v" not in collection.contexts[0]:
        return None
    moved = torch.stack([(_gain(one, first) - _start(collection, first)).abs() for one in collection.contexts])
    if moved.ndim != 2:
        return None
    if isinstance(collection.model, FlyNet):
        moved = through_encoder(moved, collection.model.encoder)
    if isinstance(collection.model, FlyNet | NeuroModNet) and collection.model.constant:
        moved = moved[:, :-1]  # the last input is the constant one, no value of a row
    if isinstance(collection.model, FlyNet) and collection.model.mirrored:
        moved = moved.reshape(len(moved), 2, -1).mean(dim=1)  # of x and -x
    found: Matrix = moved.double().numpy()
    return found


def through_encoder(hidden: Tensor, encoder: SparseBinary) -> Tensor:
    """Map values of hidden nodes to the inputs: the mean over the nodes that read an input."""
    chosen = encoder.chosen.long()  # [hidden, inputs per node]
    sums = torch.zeros(len(hidden), encoder.in_features)
    for column in range(chosen.shape[1]):
        sums.index_add_(1, chosen[:, column], hidden.float())
    readers = torch.bincount(chosen.flatten(), minlength=encoder.in_features).clamp_min(1)
    return sums / readers


def image_shape(collection: Collection) -> tuple[int, int] | None:
    """Height and width of the inputs if their count is that of a square image, else None."""
    weights = input_weights(collection)
    if weights is None:
        return None
    side = math.isqrt(weights.shape[1])
    return (side, side) if side * side == weights.shape[1] and side > 2 else None


def alphas(contexts: Sequence[Mapping[str, Tensor]]) -> dict[str, list[float]]:
    """Alpha of every layer that has one: a value for each task."""
    names = [name for name in contexts[0] if name.rpartition(".")[2] == "alpha"]
    return {name.rpartition(".")[0]: [float(context[name]) for context in contexts] for name in names}


def _gain(context: Mapping[str, Tensor], layer: str) -> Tensor:
    return context[f"{layer}.v"] * context.get(f"{layer}.alpha", torch.ones(()))


def _start(collection: Collection, layer: str) -> Tensor:
    if collection.start is not None:
        return _gain(collection.start, layer)
    return torch.stack([_gain(context, layer) for context in collection.contexts]).mean(dim=0)
