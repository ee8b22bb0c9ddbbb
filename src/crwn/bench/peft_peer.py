"""PEFT's ways to predict a batch of many tasks, on the same layers: LoRA by adapter_names, IA3 switched per task."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from crwn.integrations.torchvision_wheel import import_torchvision


def sides(
    plain: nn.Sequential, x: Tensor, *, adapters: int, note: Callable[[str], None]
) -> dict[str, Callable[[], Tensor]]:
    """Return both ways with an adapter for every row; nothing, and a note, where PEFT is missing.

    A batch touches as many adapters as it has rows, so no more are made: thousands of them would take PEFT long to
    build and would only make it slower.
    """
    with suppress(ImportError):  # PEFT needs none, but imports what is there
        import_torchvision()
    try:
        from peft import IA3Config, LoraConfig, get_peft_model
    except ImportError as error:
        note(f"no figure against PEFT: it cannot be imported here ({error})")
        return {}
    targets = [name for name, module in plain.named_modules() if isinstance(module, nn.Linear)]
    names = [f"task{i}" for i in range(adapters)]
    lora = LoraConfig(r=1, target_modules=targets, init_lora_weights=False)
    ia3 = IA3Config(target_modules=targets, feedforward_modules=targets, init_ia3_weights=False)
    made: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind, config in (("lora", lora), ("ia3", ia3)):
            model = get_peft_model(copy.deepcopy(plain), config, adapter_name=names[0])
            for name in names[1:]:
                model.add_adapter(name, config)
            made[kind] = model.eval()
    note(f"PEFT holds {adapters} adapters, one for every row of a batch, however many tasks are resident on our side")
    whole = [names[i % adapters] for i in range(len(x))]
    return {
        "peft lora": partial(_mixed, made["lora"], x, whole),
        "peft ia3": partial(_switched, made["ia3"], x, whole),
    }


def _mixed(model: Any, x: Tensor, names: list[str]) -> Tensor:
    out: Tensor = model(x, adapter_names=names)
    return out


def _switched(model: Any, x: Tensor, names: list[str]) -> Tensor:
    out = []
    for at, name in enumerate(names):
        model.set_adapter(name)
        out.append(model(x[at : at + 1]))
    return torch.cat(out)
