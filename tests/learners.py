"""Small learners, and tasks that they learn in a moment."""

from __future__ import annotations

from typing import Any

import crwn
from crwn import Learner, NeuroModNet


def network(**settings: Any) -> NeuroModNet:
    """A network for rows of 64 features and ten classes."""
    return NeuroModNet(64, (128,), 10, seed=0, **settings)


def quickly(learner: Learner, name: str, data: tuple[Any, Any], **settings: Any) -> crwn.Context:
    """Learn a task in three batches, or as the settings say."""
    return learner.learn(name, *data, **{"batches": 3, "progress": False, **settings})
