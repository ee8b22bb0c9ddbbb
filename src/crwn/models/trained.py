"""Frozen weights that a first task has trained (the paper's pretrained mode): no seed makes them again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

MARK = "_trained_weights"  # on a module: names of its buffers that hold trained values


@torch.no_grad()
def set_trained(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copy trained values over frozen weights; the model's fingerprint then depends on the values."""
    seen: dict[str, str] = {}  # of modules with several trained buffers, the digest of those before
    for name, value in sorted(weights.items()):
        owner, _, buffer = name.rpartition(".")
        module: Any = model.get_submodule(owner)
        module.get_buffer(buffer).copy_(value)
        data = value.detach().to("cpu", torch.float32).contiguous().numpy().tobytes()
        before = f"{seen.get(owner, '')}trained:{tuple(value.shape)}:"
        module.fingerprint = seen[owner] = hashlib.sha256(before.encode() + data).hexdigest()
        setattr(module, MARK, sorted({*_names(module), buffer}))


def trained_weights(model: nn.Module) -> dict[str, Tensor]:
    """The weights that `set_trained` has put into the model, by name; empty for a model that its seed makes."""
    found = {}
    for prefix, module in model.named_modules():
        for buffer in _names(module):
            name = f"{prefix}.{buffer}" if prefix else buffer
            found[name] = module.get_buffer(buffer)
    return found


def _names(module: nn.Module) -> list[str]:
    names: list[str] = vars(module).get(MARK, [])
    return names
