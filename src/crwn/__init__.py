"""crwn: continual learning with configurable random-weight networks."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Names are imported when they are first used: `crwn --help` and `crwn.__version__` need no torch.
_HOME = {
    "Client": "crwn.serve.client",
    "Context": "crwn.context",
    "ContextStack": "crwn.context",
    "CRWNError": "crwn.errors",
    "FlyNet": "crwn.models",
    "Learner": "crwn.learner",
    "NeuroModNet": "crwn.models",
    "NeuroModResNet": "crwn.models",
    "Recipe": "crwn.recipe",
    "Rows": "crwn.rows",
    "make_scenario": "crwn.scenarios",
    "neuromodulate": "crwn.convert",
    "open_bank": "crwn.bank",
}

__all__ = [
    "Client",
    "Context",
    "ContextStack",
    "CRWNError",
    "FlyNet",
    "Learner",
    "NeuroModNet",
    "NeuroModResNet",
    "Recipe",
    "Rows",
    "__version__",
    "make_scenario",
    "neuromodulate",
    "open_bank",
]

if TYPE_CHECKING:
    from crwn.bank import open_bank
    from crwn.context import Context, ContextStack
    from crwn.convert import neuromodulate
    from crwn.errors import CRWNError
    from crwn.learner import Learner
    from crwn.models import FlyNet, NeuroModNet, NeuroModResNet
    from crwn.recipe import Recipe
    from crwn.rows import Rows
    from crwn.scenarios import make_scenario
    from crwn.serve.client import Client


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'crwn' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
