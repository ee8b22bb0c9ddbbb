"""A context merged into a model: an ordinary `nn.Module` that needs nothing of crwn at run time."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from crwn.layers import Mergeable
from crwn.models.custom import network_of
from crwn.models.functional import replica


class FirstClasses(nn.Module):
    """The outputs that the task has classes for."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.classes = classes

    def forward(self, logits: Tensor) -> Tensor:
        return logits[..., : self.classes]


def editable_copy(model: nn.Module) -> nn.Module:
    """A copy whose layers can be replaced, and then trained or compressed, without changing the model.

    Where merging replaces all frozen weights, the copy shares them until then.
    """
    return replica(model) if network_of(model).merges_completely else copy.deepcopy(model)


def merge_context(
    model: nn.Module, context: Mapping[str, Tensor], *, before: nn.Module | None = None, classes: int | None = None
) -> nn.Module:
    """The model with this context, every modulated layer replaced by an ordinary one with the same outputs.

    Args:
        before: a module that the rows pass through first (the task's standardization).
        classes: keep only the first outputs, as many as the task has classes.

    Returns:
        A module in evaluation mode, without gradients.
    """
    merged = editable_copy(model)
    merged.load_state_dict(dict(context), strict=False)
    for name, module in list(merged.named_modules()):
        if isinstance(module, Mergeable):
            parent, _, leaf = name.rpartition(".")
            setattr(merged.get_submodule(parent), leaf, module.to_plain())
    for module in merged.modules():
        if parametrize.is_parametrized(module):
            _remove_parametrizations(module)
    parts: list[nn.Module] = [merged.requires_grad_(False)]
    if before is not None:
        parts.insert(0, before)
    if classes is not None:
        parts.append(FirstClasses(classes))
    return nn.Sequential(*parts).eval()


@torch.no_grad()
def _remove_parametrizations(module: nn.Module) -> None:
    """Replace parametrized tensors by their values.

    Not by torch's `remove_parametrizations`: it changes the class that torch made for the weight, which copies share.
    """
    chains: Any = module.parametrizations
    values = {name: (chain().clone(), bool(chain._parameters)) for name, chain in chains.items()}
    del module._modules["parametrizations"]
    module.__class__ = parametrize.type_before_parametrizations(module)
    for name, (value, learned) in values.items():
        if learned:
            module.register_parameter(name, nn.Parameter(value))
        else:
            module.register_buffer(name, value)
