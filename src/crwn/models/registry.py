"""A network as plain data: describe it, build it again, and fingerprint it."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Protocol, runtime_checkable

from torch import nn

from crwn.errors import ModelError
from crwn.models.backbones.deep import DeepBackboneNet
from crwn.models.backbones.network import BackboneNet
from crwn.models.custom import network_of
from crwn.models.flynet import FlyNet
from crwn.models.image_flynet import ImageFlyNet
from crwn.models.network import Network
from crwn.models.neuromodnet import NeuroModNet
from crwn.models.resnet import NeuroModResNet
from crwn.models.whitened_resnet import WhitenedResNet

MODELS: dict[str, type[Network]] = {
    model.kind: model
    for model in (NeuroModNet, FlyNet, ImageFlyNet, NeuroModResNet, WhitenedResNet, BackboneNet, DeepBackboneNet)
}

# What was added to descriptions, with the value it has where it is missing.
ADDED = {ImageFlyNet.kind: {"shift": 0}, BackboneNet.kind: {"gains": 1}}


@runtime_checkable
class Fingerprinted(Protocol):
    """A layer with frozen weights of its own, and the SHA-256 of what they are made from."""

    fingerprint: str


def describe(model: nn.Module) -> dict[str, Any]:
    """What `build` needs to make this network again.

    Raises:
        ModelError: the model is a custom module, which only its own code can make again.
    """
    network = network_of(model)
    if not network.rebuildable:
        raise ModelError(f"{type(model).__name__} is not one of crwn's networks: only its own can be described as data")
    return network.record


def build(description: dict[str, Any]) -> Network:
    """Make a network from its description."""
    kind, config = description.get("kind"), description.get("config")
    if kind not in MODELS or not isinstance(config, dict):
        raise ModelError(f'unknown kind of network "{kind}": choose one of {", ".join(MODELS)}')
    # Descriptions without these are of networks without such inputs, whatever the default is now.
    if kind in (NeuroModNet.kind, FlyNet.kind):
        config = {"constant": False} | config
    if kind == FlyNet.kind:
        config = {"mirrored": False} | config
    added = {key: value for key, value in ADDED.get(kind, {}).items() if key not in config}
    try:
        network = MODELS[kind](**config, **added)
    except TypeError as error:
        raise ModelError(f"the description of this {kind} does not fit this version of crwn: {error}") from None
    for key in added:  # fingerprints of networks described without it were made without it
        del network.config[key]
    return network


def fingerprint(model: nn.Module) -> str:
    """SHA-256 of what makes two models the same: identity, and the integers that all frozen weights are made from."""
    parts = [json.dumps(network_of(model).identity, sort_keys=True)]
    for name, module in model.named_modules():
        if isinstance(module, Fingerprinted) and isinstance(module.fingerprint, str):
            parts.append(f"{name}={module.fingerprint}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
