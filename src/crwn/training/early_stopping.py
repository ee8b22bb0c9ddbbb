"""When to stop learning, and which context to keep: the one with the lowest loss on rows held out."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from crwn.losses import task_losses
from crwn.prediction import predict_logits
from crwn.recipe import Recipe
from crwn.rows import TaskRows

Tensors = dict[str, Tensor]


class BestKeeper:
    """Early stopping: remembers, for every task with validation rows, the context with the lowest validation loss."""

    def __init__(
        self, work: nn.Module, tasks: Sequence[TaskRows], recipe: Recipe, steps: int, device: str | torch.device
    ) -> None:
        self.work = work
        self.tasks = tasks
        self.device = device
        self.patience = recipe.patience
        self.steps = steps
        # An epoch of few rows is a batch or two: too soon to tell whether a task still gets better.
        epoch = math.ceil(len(tasks[0].rows) / recipe.batch_size)
        self.every = recipe.check_every or max(epoch, math.ceil(steps / 20))
        self.losses = [math.inf] * len(tasks)
        self.stale = [0] * len(tasks)
        self.kept: Tensors = {}
        self.watching = all(task.validation is not None for task in tasks)

    def finished(self, tensors: Tensors, step: int) -> bool:
        """Check when it is time; true once no task has improved for `patience` checks."""
        if not self.watching or (step % self.every and step < self.steps):
            return False
        if not self.kept:
            self.kept = {name: value.detach().clone() for name, value in tensors.items()}
        for i, task in enumerate(self.tasks):
            if self.stale[i] >= self.patience:
                continue  # alone it would have stopped: what others in the stack still do must not change it
            loss = self._loss({name: value[i].detach() for name, value in tensors.items()}, task)
            if loss < self.losses[i]:
                self.losses[i], self.stale[i] = loss, 0
                for name, value in tensors.items():
                    self.kept[name][i] = value[i].detach()
            else:
                self.stale[i] += 1
        return min(self.stale) >= self.patience

    def _loss(self, tensors: Tensors, task: TaskRows) -> float:
        assert task.validation is not None
        logits = predict_logits(self.work, tensors, task.validation, classes=task.classes, device=self.device)
        weight = task.validation.weight
        everything = task.validation.labels(slice(None))
        return float(task_losses(logits[None], everything[None], None, None if weight is None else weight[None])[0])

    def best(self, tensors: Tensors) -> Tensors:
        """The kept contexts, or the final ones where nothing was watched."""
        return {name: value.detach().cpu() for name, value in (self.kept or tensors).items()}
