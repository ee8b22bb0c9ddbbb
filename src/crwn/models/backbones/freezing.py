"""A module frozen for good: its weights are buffers that are neither learned nor saved, and have a checksum."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from crwn.errors import ModelError

FROZEN = "_crwn_frozen"  # names of the tensors of a layer that were parameters


def frozen_copy(module: nn.Module, *, memory_format: torch.memory_format = torch.contiguous_format) -> nn.Module:
    """A copy in evaluation mode that has no parameters: all of its tensors are buffers outside its state dict.

    Args:
        memory_format: of tensors with four dimensions, the weights of convolutions.

    Raises:
        ModelError: the module cannot be copied.
    """
    try:
        work = copy.deepcopy(module).eval()
    except (RuntimeError, TypeError, ValueError) as error:
        raise ModelError(f"{type(module).__name__} cannot be copied: {str(error).splitlines()[0]}") from None
    kept: dict[int, Tensor] = {}  # tied weights stay one tensor
    for part in work.modules():
        for name, parameter in list(part.named_parameters(recurse=False)):
            delattr(part, name)
            value = parameter.detach()
            if value.ndim == 4:
                value = value.contiguous(memory_format=memory_format)
            part.register_buffer(name, kept.setdefault(id(parameter), value), persistent=False)
            part.__dict__.setdefault(FROZEN, []).append(name)
        part._non_persistent_buffers_set.update(part._buffers)
    return work


def thawed_copy(module: nn.Module) -> nn.Module:
    """A copy of a module that `frozen_copy` made, with parameters again: what `neuromodulate` takes."""
    work = copy.deepcopy(module)
    kept: dict[int, nn.Parameter] = {}
    for part in work.modules():
        for name in part.__dict__.pop(FROZEN, []):
            value = part.get_buffer(name)
            delattr(part, name)
            part.register_parameter(name, kept.setdefault(id(value), nn.Parameter(value)))
    return work


def weights_checksum(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of names, shapes and values: the same on every machine that has the same weights."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        value = tensor.detach().cpu().contiguous()
        digest.update(f"{name}:{value.dtype}:{tuple(value.shape)}:".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
