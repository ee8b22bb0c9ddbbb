"""EWC: one network, whose weights are held back where earlier tasks need them (elastic weight consolidation)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import BaseModel, Field
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from crwn.layers import learned_numbers
from crwn.losses import class_mask
from crwn.methods import method
from crwn.methods.independent import float_bytes, kept_numbers, statistics_note
from crwn.methods.method import Counts
from crwn.methods.one_network import OneNetwork
from crwn.rows import Rows, named_generator
from crwn.scenarios import Scenario, Task

CHUNK = 32  # rows whose gradients are held at once: 34 MB at FC256


class EWC(OneNetwork):
    """`loss + strength / 2 * sum_j F_j (theta_j - theta*_j)^2` for every earlier task j, F_j its diagonal Fisher.

    The quadratics of all earlier tasks add up to one: `F = sum F_j` around `centre = sum F_j theta*_j / F`, which
    is exact up to a constant and keeps the memory from growing with the tasks.
    """

    name = "ewc"
    sizes = ("256",)

    class Options(method.Options):
        strength: float = Field(100.0, ge=0, description="how strongly earlier tasks hold the weights")
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
        self._hold(task)

    def penalty(self, model: nn.Module, tensors: dict[str, Tensor], step: int) -> Tensor:
        """How far the weights have moved from where earlier tasks left them, where those need them."""
        moved = [(self.fisher[name] * (tensors[name][0] - self.centre[name]) ** 2).sum() for name in self.fisher]
        return self.settings.strength / 2 * torch.stack(moved).sum()

    def _hold(self, task: Task) -> None:
        """Add the task's Fisher information, at the weights it left, to what holds the weights."""
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
        weights = learned_numbers(self.model)
        own = float_bytes(kept_numbers(self.model) - weights)
        note = "all tasks train the same weights; weights, Fisher and centre in float32, spread over the tasks"
        note += statistics_note(self.model)
        return Counts(weights, 3 * weights / tasks, float_bytes(3 * weights) // tasks + own, note)

    def shared_state(self) -> dict[str, Tensor]:
        held = {f"fisher/{name}": value for name, value in self.fisher.items()}
        return super().shared_state() | held | {f"centre/{name}": value for name, value in self.centre.items()}

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
    """Mean over rows of the squared gradient of `log p(y | x)`, with y drawn from the model's own prediction."""
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
