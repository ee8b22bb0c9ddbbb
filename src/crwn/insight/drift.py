"""Drift of contexts during training: a callback of the training loop that stores snapshots."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from crwn.errors import ConfigError, DataError
from crwn.insight.measures import Matrix, layers, similarity
from crwn.training.loop import Step


class DriftRecorder:
    """A callback for `train` or `learn` that stores the contexts every `every` batches, and the last ones.

    >>> import numpy as np, crwn
    >>> from crwn.layers import context_tensors
    >>> rows = np.random.default_rng(0).normal(size=(200, 8)).astype("float32")
    >>> learner = crwn.Learner(crwn.NeuroModNet(in_features=8, hidden=(16,), classes=2, seed=0))
    >>> drift = DriftRecorder(context_tensors(learner.model), every=20)
    >>> _ = learner.learn("sign", rows, rows[:, 0] > 0, batches=50, progress=False, callbacks=[drift])
    >>> drift.steps
    [0, 20, 40, 50]

    Args:
        start: the context that tasks start from (`context_tensors(model)`).
        every: batches between snapshots.
    """

    def __init__(self, start: Mapping[str, Tensor], *, every: int = 50) -> None:
        if every < 1:
            raise ConfigError(f"every={every}: it must be at least 1 batch")
        self.start = {name: tensor.detach().clone() for name, tensor in start.items()}
        self.every = every
        self.snapshots: dict[int, dict[str, dict[str, Tensor]]] = {}  # step -> task -> context

    def __call__(self, step: Step) -> None:
        if step.step % self.every == 0 or step.step == step.steps:
            kept = {name: tensor.detach().cpu().clone() for name, tensor in step.tensors.items()}
            here = self.snapshots.setdefault(step.step, {})
            for i, task in enumerate(step.names):
                here[task] = {name: tensor[i] for name, tensor in kept.items()}

    @property
    def steps(self) -> list[int]:
        """The steps with a snapshot; 0 is the start."""
        return [0, *sorted(self.snapshots)]

    @property
    def tasks(self) -> list[str]:
        """The tasks with snapshots, in the order they were learned."""
        return list(dict.fromkeys(task for here in self.snapshots.values() for task in here))

    @property
    def layers(self) -> list[str]:
        return layers(self.start)

    def contexts(self, step: int) -> list[Mapping[str, Tensor]]:
        """The contexts of all tasks at one of `steps`."""
        if step == 0:
            return [self.start for _ in self.tasks]
        if step not in self.snapshots:
            raise DataError(f"there is no snapshot at batch {step}: choose one of {self.steps}")
        return [self.snapshots[step].get(task, self.start) for task in self.tasks]

    def distances(self, layer: str) -> list[dict[str, float]]:
        """Distance of every task's layer from the start at each step, divided by the norm of the start."""
        names = [name for name in self.start if name.rpartition(".")[0] == layer]
        size = torch.cat([self.start[name].flatten() for name in names]).norm().clamp_min(1e-12)
        found = []
        for step in self.steps:
            here = {}
            for task, context in zip(self.tasks, self.contexts(step), strict=True):
                moved = torch.cat([(context[name] - self.start[name]).flatten() for name in names])
                here[task] = float(moved.norm() / size)
            found.append(here)
        return found

    def similarities(self, *, layer: str | None = None) -> dict[int, Matrix]:
        """Similarity of the tasks at each step after the start, where all are equal."""
        return {step: similarity(self.contexts(step), layer=layer) for step in sorted(self.snapshots)}
