"""Backbones by name: those whose weights are in installed packages, and those that a program registers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from crwn.errors import ConfigError
from crwn.models.backbones.efficientnet import efficientnet_lite0
from crwn.models.backbones.image import ImageBackbone

Make = Callable[..., ImageBackbone]

_KNOWN: dict[str, Make] = {"efficientnet-lite0": efficientnet_lite0}


def load_backbone(name: str, **settings: Any) -> ImageBackbone:
    """Make the backbone of this name.

    Args:
        settings: what its function takes, such as `size`.

    Raises:
        ConfigError: no backbone has this name.
        MissingExtraError: its packages are not installed.
    """
    if name not in _KNOWN:
        raise ConfigError(f'unknown backbone "{name}": choose one of {", ".join(_KNOWN)}, or register yours first')
    return _KNOWN[name](**settings)


def register_backbone(name: str, make: Make) -> None:
    """Make a backbone of the user's known by name in this process, so that model folders that name it can be loaded.

    Args:
        make: returns the backbone; it takes `size`.
    """
    if name in _KNOWN and _KNOWN[name] is not make:
        raise ConfigError(f'there is a backbone "{name}" already: choose another name')
    _KNOWN[name] = make
