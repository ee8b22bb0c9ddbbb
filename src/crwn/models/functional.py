"""A model computed with given tensors in place of its own: one context for all rows, or one for every row."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from crwn.layers import Modulated, context_names
from crwn.layers.weights import FrozenWeights
from crwn.models.convert.checks import readable_errors
from crwn.models.custom import network_of


@torch.no_grad()
def mixed_logits(model: nn.Module, tensors: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """Logits of rows that each have a context of their own: tensors `[rows, ...]`, x `[rows, ...]`, in one pass."""
    network = network_of(model)
    if network.rowwise:  # nothing in such a network differs between training and evaluation
        return network.forward_rows(tensors, x)
    training = model.training
    model.eval()
    try:
        with readable_errors(model, x):
            return network.forward_rows(tensors, x)
    finally:
        model.train(training)


def replica(model: nn.Module) -> nn.Module:
    """A copy of the model that shares its frozen weights: it can be trained while the original predicts."""
    context = set(context_names(model))
    frozen_parts = [part for part in model.modules() if isinstance(part, FrozenWeights | Modulated)]
    frozen = [
        *network_of(model).frozen_tensors(),
        *(("", buffer) for part in frozen_parts for buffer in part.buffers()),
    ]
    shared = {id(tensor): tensor for name, tensor in frozen if name not in context}
    return copy.deepcopy(model, memo=dict(shared))
