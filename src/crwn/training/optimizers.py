"""The optimizers of torch, without its compiler: importing that takes longer than learning a small table."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor

from crwn.training.recipe import Recipe

Optimizer = torch.optim.Optimizer
# Methods that torch wraps in functions which import the compiler, to keep it from compiling them.
_WRAPPED = ("add_param_group", "state_dict", "load_state_dict", "step")


def make_optimizer(recipe: Recipe, learned: list[Tensor]) -> Optimizer:
    """The optimizer of a recipe for these tensors."""
    settings: dict[str, Any] = {"lr": recipe.rate, "weight_decay": recipe.weight_decay}
    if recipe.optimizer == "adam":
        kind: type[Optimizer] = torch.optim.Adam
    else:
        kind = torch.optim.RMSprop if recipe.optimizer == "rmsprop" else torch.optim.SGD
        settings["momentum"] = recipe.momentum
    return without_compiler(kind)(learned, **settings)


def without_compiler(kind: type[Optimizer]) -> type[Optimizer]:
    """A subclass whose methods are those that torch wraps; it computes the same.

    Its steps are not seen by torch's profiler and call no hooks, which takes a tenth of a step of a small network.

    >>> without_compiler(torch.optim.Adam).__name__
    'Adam'
    """
    methods = {name: inspect.unwrap(getattr(kind, name)) for name in _WRAPPED}
    methods["step"] = torch.no_grad()(methods["step"])
    methods["step"].hooked = True
    return type(kind.__name__, (kind,), methods | {"zero_grad": _zero_grad})


def _zero_grad(self: Optimizer, set_to_none: bool = True) -> None:
    for group in self.param_groups:
        for tensor in group["params"]:
            tensor.grad = None
