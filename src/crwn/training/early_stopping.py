"""Early stopping: when to stop a task, and which of its contexts to keep."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from crwn.training.evaluation import predict_logits
from crwn.training.losses import task_losses
from crwn.training.recipe import Recipe
from crwn.training.task import PreparedTask

Tensors = dict[str, Tensor]


class EarlyStopping:
    """Keeps the context with the lowest validation loss of every task, where all tasks have validation rows.

    Args:
        network: the network that is trained.
        tasks: the tasks of the stack.
        recipe: its `patience` and `check_every`.
        steps: the number of steps at most.
        device: where to compute.
    """

    def __init__(
        self, network: nn.Module, tasks: Sequence[PreparedTask], recipe: Recipe, steps: int, device: torch.device
    ) -> None:
        self.network = network
        self.tasks = tasks
        self.device = device
        self.patience = recipe.patience
        self.steps = steps
        # An epoch of few rows is a batch or two: too short to see whether a task still improves.
        epoch = math.ceil(len(tasks[0].rows) / recipe.batch_size)
        self.every = recipe.check_every or max(epoch, math.ceil(steps / 20))
        self.losses = [math.inf] * len(tasks)
        self.stale = [0] * len(tasks)
        self.kept: Tensors = {}
        # Rows held out before a task is learned from all of them judge the recipe: they must not choose the context.
        self.enabled = all(task.validation is not None and task.everything is None for task in tasks)

    def finished(self, tensors: Tensors, step: int) -> bool:
        """Compute validation losses when a check is due; true once no task improved in its last `patience` checks."""
        if not self.enabled or (step % self.every and step < self.steps):
            return False
        if not self.kept:
            self.kept = {name: value.detach().clone() for name, value in tensors.items()}
        for i, task in enumerate(self.tasks):
            if self.stale[i] >= self.patience:
                continue  # it would have stopped alone: its result must not depend on other tasks in the stack
            loss = self._loss({name: value[i].detach() for name, value in tensors.items()}, task)
            if loss < self.losses[i]:
                self.losses[i], self.stale[i] = loss, 0
                for name, value in tensors.items():
                    self.kept[name][i] = value[i].detach()
            else:
                self.stale[i] += 1
        return min(self.stale) >= self.patience

    def _loss(self, tensors: Tensors, task: PreparedTask) -> float:
        assert task.validation is not None
        logits = predict_logits(self.network, tensors, task.validation, classes=task.classes, device=self.device)
        weight = task.validation.weight
        everything = task.validation.labels(slice(None))
        weights = None if weight is None else weight[None]
        return float(task_losses(logits[None], everything[None], None, weights, task.kind)[0])

    def best(self, tensors: Tensors) -> Tensors:
        """The contexts with the lowest validation losses, or the given ones where there are no validation rows."""
        return {name: value.detach().cpu() for name, value in (self.kept or tensors).items()}
