"""A network as plain data: describe it, build it again, and fingerprint it."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from torch import nn

from crwn.errors import ModelError
from crwn.models.fc import NeuroModNet
from crwn.models.flynet import FlyNet
from crwn.models.network import Network
from crwn.models.resnet import NeuroModResNet

MODELS: dict[str, type[Network]] = {model.kind: model for model in (NeuroModNet, FlyNet, NeuroModResNet)}


def describe(model: nn.Module) -> dict[str, Any]:
    """What `build` needs to make this network again."""
    if not isinstance(model, Network):
        raise ModelError(f"{type(model).__name__} is not one of crwn's networks: only its own can be described as data")
    return {"kind": model.kind, "config": model.config}


def build(description: dict[str, Any]) -> Network:
    """Make a network from its description."""
    kind, config = description.get("kind"), description.get("config")
    if kind not in MODELS or not isinstance(config, dict):
        raise ModelError(f'unknown kind of network "{kind}": choose one of {", ".join(MODELS)}')
    try:
        return MODELS[kind](**config)
    except TypeError as error:
        raise ModelError(f"the description of this {kind} does not fit this version of crwn: {error}") from None


def fingerprint(model: nn.Module) -> str:
    """SHA-256 of what makes two models the same: description, and the integers all frozen weights are made from."""
    described = (
        describe(model) if isinstance(model, Network) else getattr(model, "crwn_description", type(model).__name__)
    )
    parts = [json.dumps(described, sort_keys=True)]
    for name, module in model.named_modules():
        found = getattr(module, "fingerprint", None)
        if isinstance(found, str):
            parts.append(f"{name}={found}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
