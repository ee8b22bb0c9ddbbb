"""A plain `nn.Module` with one context baked in, for those who want nothing of crwn at run time."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from crwn.models import Network
from crwn.scaling import NO_SCALING, Scaling
from crwn.training import replica


class InputScaling(nn.Module):
    """`(x - mean) / std`, with the task's own numbers: two, or two for every column."""

    mean: Tensor
    std: Tensor

    def __init__(self, scaling: Scaling) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(scaling[0], dtype=torch.float32))
        self.register_buffer("std", torch.tensor(scaling[1], dtype=torch.float32))

    def forward(self, x: Tensor) -> Tensor:
        return (x.to(self.mean.dtype) - self.mean) / self.std


class FirstClasses(nn.Module):
    """Only the outputs that the task has classes for."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.classes = classes

    def forward(self, logits: Tensor) -> Tensor:
        return logits[..., : self.classes]


def separate(model: nn.Module) -> nn.Module:
    """A copy to hand out: people go on to train it, or to make it smaller, and the model must not change with it.

    Our own networks share their frozen weights with it: their layers are replaced before anybody gets them.
    """
    return replica(model) if isinstance(model, Network) else copy.deepcopy(model)


def merged(
    model: nn.Module, context: Mapping[str, Tensor], *, scaling: Scaling = NO_SCALING, classes: int | None = None
) -> nn.Module:
    """The model in evaluation mode with every modulated layer replaced by an ordinary one of the same answers."""
    baked = separate(model)
    baked.load_state_dict(dict(context), strict=False)
    for name, module in list(baked.named_modules()):
        bake = getattr(module, "baked", None)  # layers of ours know what they are without us
        if callable(bake):
            plain = bake()
            parent, _, leaf = name.rpartition(".")
            setattr(baked.get_submodule(parent), leaf, plain)
    for module in baked.modules():
        if parametrize.is_parametrized(module):
            _take_off(module)
    parts: list[nn.Module] = [baked.requires_grad_(False)]
    if scaling != NO_SCALING:
        parts.insert(0, InputScaling(scaling))
    if classes is not None:
        parts.append(FirstClasses(classes))
    return nn.Sequential(*parts).eval()


@torch.no_grad()
def _take_off(module: nn.Module) -> None:
    """Put computed values in the place of parametrized ones.

    Not by `remove_parametrizations`: it changes the class that torch made for the weight, which copies share.
    """
    chains: Any = module.parametrizations
    values = {name: (getattr(module, name).clone(), bool(chain._parameters)) for name, chain in chains.items()}
    del module._modules["parametrizations"]
    module.__class__ = parametrize.type_before_parametrizations(module)
    for name, (value, learned) in values.items():
        if learned:
            module.register_parameter(name, nn.Parameter(value))
        else:
            module.register_buffer(name, value)
