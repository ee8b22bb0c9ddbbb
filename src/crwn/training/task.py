"""A task ready to be trained: what `prepare` makes of data, and what the loop, every engine and every method take."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from crwn.contexts import ContextInfo
from crwn.contexts.kinds import Kind
from crwn.data.dataset import Rows
from crwn.data.standardize import NO_SCALING, Scaling


@dataclass(frozen=True)
class PreparedTask:
    """One task's rows as model inputs, and what its context keeps beside the learned tensors.

    Args:
        name: of the task; together with the seed it determines the order of batches.
        rows: labelled training rows.
        labels: the value of every class (or label, or the name of every number), in the order of the outputs.
        validation: rows for early stopping, or None.
        scaling: mean and deviation that raw rows of this task are standardized with before they reach the model.
        info: facts the context keeps: what makes the task differ (`factors`), and the user's own.
        kind: what the outputs are: one of several classes, any number of labels, or numbers.
        target_scaling: mean and deviation of the numbers that a regression predicts.
        everything: training and validation rows together, where the context is learned from all of them in the end and
            the validation rows only measure what the recipe reaches.
    """

    name: str
    rows: Rows
    labels: Sequence[Hashable]
    validation: Rows | None = None
    scaling: Scaling = NO_SCALING
    info: ContextInfo = field(default_factory=ContextInfo)
    kind: Kind = "classification"
    target_scaling: Scaling = NO_SCALING
    everything: Rows | None = None

    @property
    def classes(self) -> int:
        """How many classes (or labels, or numbers) the task has: it uses so many outputs."""
        return len(self.labels)
