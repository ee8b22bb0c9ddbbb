"""SupSup's task inference: superpose the masks of all tasks and follow the gradient of the output entropy."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from crwn.errors import ModelError
from crwn.methods.supsup.supsup import SupSup, SupSupLinear
from crwn.scenarios import Task


class SuperposedMasks:
    """`y = (W ⊙ sum_k a_k mask_k) x` in every layer, with a coefficient a_k for every task.

    The inferred task is the one whose coefficient lowers the mean output entropy of the rows fastest.

    Args:
        method: SupSup with a fully connected network that has learned the tasks.
        tasks: the candidates.

    Raises:
        ModelError: the network has no fully connected masked layers, or there are no tasks.
    """

    def __init__(self, method: SupSup, tasks: Sequence[Task]) -> None:
        layers = [(name, layer) for name, layer in method.model.named_modules() if isinstance(layer, SupSupLinear)]
        if not layers or not tasks:
            raise ModelError("superposed masks need a fully connected SupSup network and at least one learned task")
        contexts = [method.context(task) for task in tasks]
        self.names = [task.name for task in tasks]
        self.weights = [layer.weight for _, layer in layers]
        self.masks = [
            torch.stack([layer.mask(context[f"{name}.scores"]) for context in contexts]).float()
            for name, layer in layers
        ]

    def one_shot(self, x: Tensor) -> str:
        """The task with the steepest slope when all coefficients are equal."""
        coefficients = torch.full((len(self.names),), 1 / len(self.names))
        return self.names[int(self.slopes(x, coefficients).argmin())]

    def binary(self, x: Tensor) -> str:
        """The task that is left after the half of the tasks with the higher slopes is dropped again and again."""
        left = torch.arange(len(self.names))
        while len(left) > 1:
            coefficients = torch.zeros(len(self.names))
            coefficients[left] = 1 / len(left)
            order = self.slopes(x, coefficients)[left].argsort()
            left = left[order[: (len(left) + 1) // 2]]
        return self.names[int(left[0])]

    def slopes(self, x: Tensor, coefficients: Tensor) -> Tensor:
        """Derivatives of the mean output entropy of the rows with respect to the coefficients, `[tasks]`."""
        mixed = [
            (weight * torch.tensordot(coefficients, masks, dims=1)).requires_grad_()
            for weight, masks in zip(self.weights, self.masks, strict=True)
        ]
        hidden = x
        for weight in mixed[:-1]:
            hidden = F.relu(F.linear(hidden, weight))
        logp = F.linear(hidden, mixed[-1]).log_softmax(dim=-1)
        entropy = -(logp.exp() * logp).sum(dim=-1).mean()
        total = torch.zeros(len(self.names))
        for slope, weight, masks in zip(torch.autograd.grad(entropy, mixed), self.weights, self.masks, strict=True):
            total += masks.flatten(1) @ (slope * weight).flatten()
        return total
