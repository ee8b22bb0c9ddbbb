"""EWC (elastic weight consolidation): one network, with a penalty on changing weights that earlier tasks need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import BaseModel, Field
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from crwn.data.dataset import Rows
from crwn.layers import learned_parameters
from crwn.layers.weights import named_generator
from crwn.methods.dense import DenseOptions
from crwn.methods.independent import float_bytes
from crwn.methods.method import Counts
from crwn.methods.one_network import OneNetwork
from crwn.scenarios import Scenario, Task
from crwn.training.losses import class_mask

CHUNK = 32  # rows whose gradients are in memory at once: 34 MB with two hidden layers of 256


class EWC(OneNetwork):
    """`loss + strength / 2 * sum_j F_j (theta - theta*_j)^2` over earlier tasks j, with F_j their diagonal Fisher.

    The quadratic terms of all earlier tasks are stored as one, `F = sum F_j` around `centre = sum F_j theta*_j / F`,
    which is exact up to a constant and does not grow with the number of tasks.
    """

    name = "ewc"
    sizes = ("256",)

    class Options(DenseOptions):
        strength: float = Field(100.0, ge=0, description="weight of the penalty")
        fisher_rows: int = Field(1024, ge=1, description="training rows the Fisher information is estimated from")

    def __init__(self, scenario: Scenario, *, size: str | None, seed: int, options: BaseModel) -> None:
        super().__init__(scenario, size=size, seed=seed, options=options)
        learned = [name for name, parameter in self.model.named_parameters() if parameter.requires_grad]
        self.fisher = {name: torch.zeros_like(self.weights[name]) for name in learned}
        self.centre = {name: torch.zeros_like(self.weights[name]) for name in learned}
        self.extra_loss = self.penalty

    @property
    def settings(self) -> Options:
        return cast(EWC.Options, self.options)

    def keep(self, task: Task, tensors: dict[str, Tensor]) -> None:
        super().keep(task, tensors)
        self._add_fisher(task)

    def penalty(self, model: nn.Module, tensors: dict[str, Tensor], step: int) -> Tensor:
        """`strength / 2 * sum F (theta - centre)^2`, with theta the weights of the only task in the stack."""
        moved = [(self.fisher[name] * (tensors[name][0] - self.centre[name]) ** 2).sum() for name in self.fisher]
        return self.settings.strength / 2 * torch.stack(moved).sum()

    def _add_fisher(self, task: Task) -> None:
        """Add the task's Fisher information at the current weights to `fisher` and `centre`."""
        at = named_generator("fisher", self.seed, task.name).permutation(len(task.train))[: self.settings.fisher_rows]
        found = diagonal_fisher(
            self.model,
            self.weights,
            task.train.select(torch.from_numpy(at)),
            classes=len(task.classes),
            names=list(self.fisher),
            generator=named_generator("fisher labels", self.seed, task.name),
        )
        for name, new in found.items():
            total = self.fisher[name] + new
            weighted = self.fisher[name] * self.centre[name] + new * self.weights[name]
            self.centre[name] = torch.where(total > 0, weighted / total.clamp_min(1e-30), self.weights[name])
            self.fisher[name] = total

    def counts(self, tasks: int) -> Counts:
        both = 2 * learned_parameters(self.model)  # Fisher information and centre
        note = "all tasks train the same weights; weights, Fisher and centre in float32, spread over the tasks"
        return self.shared_counts(tasks, note, more_params=both, more_bytes=float_bytes(both))

    def shared_state(self) -> dict[str, Tensor]:
        fisher = {f"fisher/{name}": value for name, value in self.fisher.items()}
        return super().shared_state() | fisher | {f"centre/{name}": value for name, value in self.centre.items()}

    def restore(self, task_states: dict[str, dict[str, Tensor]], shared: dict[str, Tensor]) -> None:
        super().restore(task_states, shared)
        if shared:
            self.fisher = {name: shared[f"fisher/{name}"] for name in self.fisher}
            self.centre = {name: shared[f"centre/{name}"] for name in self.centre}


def diagonal_fisher(
    model: nn.Module,
    weights: dict[str, Tensor],
    rows: Rows,
    *,
    classes: int,
    names: Sequence[str],
    generator: np.random.Generator,
) -> dict[str, Tensor]:
    """Mean over rows of the squared gradient of `log p(y | x)`, with y drawn from the model's prediction.

    Args:
        weights: all tensors of the model.
        rows: inputs; their labels are not used.
        classes: the number of classes of the task; further outputs have no probability.
        names: the weights to differentiate with respect to.
        generator: source of the drawn labels.
    """
    fixed = {name: value for name, value in weights.items() if name not in names}
    learned = {name: weights[name] for name in names}
    training = model.training
    model.eval()

    def loss(parameters: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(functional_call(model, parameters | fixed, (x[None],))[:, :classes], y[None])

    total = {name: torch.zeros_like(value) for name, value in learned.items()}
    try:
        for x in rows.batches(CHUNK):
            with torch.no_grad():
                logits = functional_call(model, weights, (x,))
                mask = class_mask([classes], logits.shape[-1], "cpu")
                chance = (logits if mask is None else logits + mask[0]).softmax(dim=1)
            drawn = torch.from_numpy(generator.random((len(x), 1), dtype=np.float32))
            y = (chance.cumsum(dim=1) < drawn).sum(dim=1).clamp_max(classes - 1)
            for name, gradient in vmap(grad(loss), in_dims=(None, 0, 0))(learned, x, y).items():
                total[name] += gradient.square().sum(dim=0)
    finally:
        model.train(training)
    return {name: value / len(rows) for name, value in total.items()}
