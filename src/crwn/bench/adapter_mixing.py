"""PEFT's ways to predict a batch of many tasks: LoRA by adapter_names, IA3 and VeRA switched for each of its tasks."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from crwn.bench.adapter_peers import config_of

Mixed = Callable[[Tensor, Sequence[str]], Tensor]  # rows, and the adapter of each


def peft_model(base: nn.Module, kind: str, names: Sequence[str], prefix: str) -> Any:
    """A model of PEFT's that holds these adapters.

    The first is made by PEFT. The others are copies of what it added: `add_adapter` walks through all adapters that
    are there, so that ten thousand of them would take hours.
    """
    from peft import get_peft_model
    from peft.tuners._buffer_dict import BufferDict
    from peft.tuners.tuners_utils import BaseTunerLayer
    from peft.utils.other import ModulesToSaveWrapper

    first = names[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model: Any = get_peft_model(copy.deepcopy(base), config_of(kind, prefix), adapter_name=first)
    for part in list(model.modules()):
        if not isinstance(part, BaseTunerLayer | ModulesToSaveWrapper):
            continue
        for own in (*part._modules.values(), *(value for value in vars(part).values() if isinstance(value, dict))):
            if isinstance(own, nn.ModuleDict | nn.ParameterDict | BufferDict | dict) and first in own:
                shared = isinstance(own, BufferDict)  # the random matrices of VeRA are those of all adapters
                for name in names[1:]:
                    own[name] = own[first] if shared else copy.deepcopy(own[first])
        if isinstance(part, ModulesToSaveWrapper):
            part._adapters.update(names)
    for name in names[1:]:
        model.peft_config[name] = model.peft_config[first]
    model.set_adapter(first)  # which leaves the copies without gradients
    return model.eval()


def mixing(model: Any, kind: str) -> Mixed:
    """How rows of several tasks are computed with this kind of adapter."""
    return _Mixing(model, by_name=kind == "lora")


class _Mixing:
    def __init__(self, model: Any, *, by_name: bool) -> None:
        self.model, self.by_name = model, by_name

    def __call__(self, x: Tensor, names: Sequence[str]) -> Tensor:
        if self.by_name:
            whole: Tensor = self.model(x, adapter_names=list(names))
            return whole
        parts: list[Tensor] = []
        order: list[int] = []
        for name in dict.fromkeys(names):
            rows = [at for at, one in enumerate(names) if one == name]
            self.model.set_adapter(name)
            parts.append(self.model(x[rows]))
            order += rows
        return torch.cat(parts)[torch.tensor(order).argsort()]
