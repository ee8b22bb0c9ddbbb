"""crwn: continual learning with configurable random-weight networks."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Names are imported when they are first used: `crwn --help` and `crwn.__version__` need no torch.
_HOME = {
    "AsyncClient": "crwn.serve.async_client",
    "BackboneNet": "crwn.models",
    "DeepBackboneNet": "crwn.models",
    "Client": "crwn.serve.client",
    "Context": "crwn.contexts",
    "ContextStack": "crwn.contexts",
    "CRWNError": "crwn.errors",
    "FlyNet": "crwn.models",
    "ImageBackbone": "crwn.models",
    "ImageFlyNet": "crwn.models",
    "Learner": "crwn.learner",
    "NeuroModNet": "crwn.models",
    "NeuroModResNet": "crwn.models",
    "Recipe": "crwn.training.recipe",
    "Rows": "crwn.data.dataset",
    "WhitenedResNet": "crwn.models",
    "make_scenario": "crwn.scenarios",
    "neuromodulate": "crwn.models.convert",
    "open_bank": "crwn.contexts.bank",
}

__all__ = [
    "AsyncClient",
    "BackboneNet",
    "DeepBackboneNet",
    "Client",
    "Context",
    "ContextStack",
    "CRWNError",
    "FlyNet",
    "ImageBackbone",
    "ImageFlyNet",
    "Learner",
    "NeuroModNet",
    "NeuroModResNet",
    "Recipe",
    "Rows",
    "WhitenedResNet",
    "__version__",
    "make_scenario",
    "neuromodulate",
    "open_bank",
]

if TYPE_CHECKING:
    from crwn.contexts import Context, ContextStack
    from crwn.contexts.bank import open_bank
    from crwn.data.dataset import Rows
    from crwn.errors import CRWNError
    from crwn.learner import Learner
    from crwn.models import (
        BackboneNet,
        DeepBackboneNet,
        FlyNet,
        ImageBackbone,
        ImageFlyNet,
        NeuroModNet,
        NeuroModResNet,
        WhitenedResNet,
    )
    from crwn.models.convert import neuromodulate
    from crwn.scenarios import make_scenario
    from crwn.serve.async_client import AsyncClient
    from crwn.serve.client import Client
    from crwn.training.recipe import Recipe


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'crwn' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
