"""The frozen values of a converted module: what the seed does not make again is stored once, with a checksum."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from crwn.convert.layers import ConvertedLinear, WeightModulation
from crwn.errors import ModelError
from crwn.layers import Modulated


def kept_weights(module: nn.Module) -> dict[str, Tensor]:
    """What has to be stored once with a converted module: every frozen value that the seed does not make again."""
    return frozen_values(module) if hasattr(module, "crwn_description") else {}


def checksum(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 over names, kinds and values."""
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
    """All values a conversion left in place, by their names before it; those that come from the seed are left out."""
    made: set[str] = set(getattr(module, "crwn_made", ()))
    return {name: value.detach() for name, value in _all_values(module).items() if name not in made}


def _all_values(module: nn.Module) -> dict[str, Tensor]:
    values = {name: value for name, _, value in modulated_weights(module)}
    ours = {id(value) for value in values.values()}
    for part in module.modules():
        if isinstance(part, Modulated):
            ours |= {id(part.v), id(part.alpha)}
    # Every tensor once, whatever shares it, and also buffers that a state dict leaves out: they may be random.
    others = (*module.named_parameters(), *module.named_buffers())
    return values | {name: value for name, value in others if id(value) not in ours}


def put_back(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Put stored values in their places again.

    Raises:
        ModelError: names or shapes are not those of the module.
    """
    # What somebody changed after the conversion is stored too, although the seed would make it, as it was.
    module.crwn_made = sorted(set(getattr(module, "crwn_made", ())) - tensors.keys())  # type: ignore[assignment]
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
    stamp(module)


def remember(module: nn.Module) -> None:
    """Note what the values made from the seed are, to see later whether somebody changed them."""
    module.crwn_sums = _sums_of_made(module)  # type: ignore[assignment]


def _sums_of_made(module: nn.Module) -> dict[str, str]:
    made: set[str] = set(getattr(module, "crwn_made", ()))
    values = _all_values(module)
    return {name: checksum({name: values[name]}) for name in made & values.keys()}


def stamp(module: nn.Module) -> None:
    """Take fingerprints of what is kept, so that a module with other kept values is told apart.

    Values that the seed made and somebody changed since are kept from now on.
    """
    sums = _sums_of_made(module)
    changed = {name for name, known in getattr(module, "crwn_sums", {}).items() if sums.get(name, known) != known}
    made = set(getattr(module, "crwn_made", ())) - changed
    module.crwn_made = sorted(made)  # type: ignore[assignment]
    for name, modulation, value in modulated_weights(module):
        if name not in made:
            found = checksum({"weight": value})
            owner = modulation.frozen if isinstance(modulation, ConvertedLinear) else modulation
            owner.fingerprint = found
    kept = frozen_values(module)
    description = dict(getattr(module, "crwn_description", {}))
    description["kept"] = checksum(kept) if kept else None
    module.crwn_description = description  # type: ignore[assignment]
