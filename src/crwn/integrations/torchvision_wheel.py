"""Import a torchvision whose wheel was built for another torch, as Avalanche and PEFT do beside a CPU torch."""

from __future__ import annotations

import importlib
import sys

import torch

_library: torch.library.Library | None = None  # kept: its definitions end with it


def import_torchvision() -> None:
    """Import torchvision; where its compiled part does not load, declare the operators its Python part refers to.

    Raises:
        ImportError: torchvision is not installed.
    """
    global _library
    try:
        importlib.import_module("torchvision")
    except RuntimeError:
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        _library = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
        for operator in ("nms", "qnms"):
            signature = f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            _library.define(signature)  # type: ignore[no-untyped-call]
        importlib.import_module("torchvision")
