"""Converted modules whose attributes tests read and set."""

from __future__ import annotations

from typing import Any

from torch import nn

from crwn import neuromodulate


def modulate(module: nn.Module, *, classes: int | None = None, **settings: Any) -> Any:
    """`neuromodulate` as Any: `crwn_report` and the like are not attributes of `nn.Module`."""
    net: Any = neuromodulate(module, **settings)
    if classes is not None:
        net.classes = classes
    return net


def modulate_rows(module: nn.Module, **settings: Any) -> Any:
    """A converted module for rows of 8 features and two classes."""
    net = modulate(module, classes=2, **settings)
    net.input_shape = (8,)
    return net
