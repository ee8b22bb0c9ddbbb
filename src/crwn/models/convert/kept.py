"""The frozen values of a converted module: those that the seed does not make again are stored once, with a checksum."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from crwn.errors import ModelError
from crwn.layers import Modulated
from crwn.models.convert.conversion import conversion_of, converted
from crwn.models.convert.layers import ConvertedLinear, WeightModulation


def kept_weights(module: nn.Module) -> dict[str, Tensor]:
    """The values to store once with a module: of a converted one, every frozen value that the seed does not make."""
    return frozen_values(module) if converted(module) else {}


def checksum(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 over names, dtypes, shapes and values."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        value = tensors[name].detach().cpu().contiguous()
        digest.update(f"{name}:{value.dtype}:{tuple(value.shape)}:".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def modulated_weights(module: nn.Module) -> Iterator[tuple[str, Modulated, Tensor]]:
    """Name (as in the module before it was converted), modulation and frozen values of every modulated weight."""
    for name, part in module.named_modules():
        prefix = f"{name}." if name else ""
        if isinstance(part, ConvertedLinear):
            yield f"{prefix}weight", part, part.frozen.get_buffer("weight")
        elif parametrize.is_parametrized(part):
            lists: Any = part.parametrizations
            for tensor_name, chain in lists.items():
                if isinstance(chain[0], WeightModulation):
                    yield f"{prefix}{tensor_name}", chain[0], chain.original


def frozen_values(module: nn.Module) -> dict[str, Tensor]:
    """All values that a conversion froze, by their names before it, without those that come from the seed."""
    made = set(conversion_of(module).crwn_made)
    return {name: value.detach() for name, value in _all_values(module).items() if name not in made}


def _all_values(module: nn.Module) -> dict[str, Tensor]:
    values = {name: value for name, _, value in modulated_weights(module)}
    excluded = {id(value) for value in values.values()}
    for part in module.modules():
        if isinstance(part, Modulated):
            excluded |= {id(part.v), id(part.alpha)}
    # Every tensor once, whatever shares it, and also buffers that a state dict leaves out: they may be random.
    others = (*module.named_parameters(), *module.named_buffers())
    return values | {name: value for name, value in others if id(value) not in excluded}


def load_kept_weights(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copy stored values into a converted module.

    Raises:
        ModelError: names or shapes are not those of the module.
    """
    # Values that the seed makes are among the stored ones where they were changed after the conversion.
    info = conversion_of(module)
    info.crwn_made = sorted(set(info.crwn_made) - tensors.keys())
    places = frozen_values(module)
    if places.keys() != tensors.keys():
        odd = sorted(places.keys() ^ tensors.keys())
        differ = ", ".join(odd[:3])
        raise ModelError(f"stored weights do not fit this module, which differs in {differ}: use the same code")
    for name, value in tensors.items():
        if value.shape != places[name].shape:
            raise ModelError(
                f"stored weights do not fit this module: {name} has shape {tuple(value.shape)}, "
                f"here {tuple(places[name].shape)}: use the same code"
            )
        places[name].copy_(value)
    update_fingerprints(module)


def record_checksums(module: nn.Module) -> None:
    """Store checksums of the values made from the seed, to see later whether they were changed."""
    conversion_of(module).crwn_sums = _sums_of_made(module)


def _sums_of_made(module: nn.Module) -> dict[str, str]:
    made = set(conversion_of(module).crwn_made)
    values = _all_values(module)
    return {name: checksum({name: values[name]}) for name in made & values.keys()}


def update_fingerprints(module: nn.Module) -> None:
    """Compute the fingerprints of the kept values of a converted module, so that modules with other values differ.

    Values that the seed made and that were changed since count as kept from now on.
    """
    info = conversion_of(module)
    sums = _sums_of_made(module)
    changed = {name for name, known in info.crwn_sums.items() if sums.get(name, known) != known}
    made = set(info.crwn_made) - changed
    info.crwn_made = sorted(made)
    for name, modulation, value in modulated_weights(module):
        if name not in made:
            found = checksum({"weight": value})
            owner = modulation.frozen if isinstance(modulation, ConvertedLinear) else modulation
            owner.fingerprint = found
    kept = frozen_values(module)
    info.crwn_description = {**info.crwn_description, "kept": checksum(kept) if kept else None}
