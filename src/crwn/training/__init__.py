"""Training: the loop, its recipe and losses, checkpoints, stacks of tasks, and in `engines/` where the work runs.

May import: `contexts`, `data`, `models`, `layers`, `errors`. Names are imported when they are first used: a recipe can
be read without torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOME = {
    "Callback": "loop",
    "Checkpoint": "checkpoint",
    "Learned": "loop",
    "Recipe": "recipe",
    "Step": "loop",
    "make_recipe": "recipe",
    "train": "loop",
}

__all__ = ["Callback", "Checkpoint", "Learned", "Recipe", "Step", "make_recipe", "train"]

if TYPE_CHECKING:
    from crwn.training.checkpoint import Checkpoint
    from crwn.training.loop import Callback, Learned, Step, train
    from crwn.training.recipe import Recipe, make_recipe


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
