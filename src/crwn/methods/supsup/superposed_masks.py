"""Which task are these rows from? SupSup's own answer: superpose all masks, and ask the entropy which one to keep."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from crwn.errors import ModelError
from crwn.methods.networks import Masked
from crwn.methods.supsup import SupSup
from crwn.scenarios import Task


class SuperposedMasks:
    """The masks of many tasks over one fully connected SupSup network, each with a share of the mixture.

    A task whose share is worth raising is one along which the mixture's output entropy falls fastest.
    """

    def __init__(self, method: SupSup, tasks: Sequence[Task]) -> None:
        layers = [(name, layer) for name, layer in method.model.named_modules() if isinstance(layer, Masked)]
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
        """One gradient with equal shares, and the task it favours most."""
        shares = torch.full((len(self.names),), 1 / len(self.names))
        return self.names[int(self.slopes(x, shares).argmin())]

    def binary(self, x: Tensor) -> str:
        """A gradient, the better half of the tasks, a gradient among those, and so on until one is left."""
        left = torch.arange(len(self.names))
        while len(left) > 1:
            shares = torch.zeros(len(self.names))
            shares[left] = 1 / len(left)
            order = self.slopes(x, shares)[left].argsort()
            left = left[order[: (len(left) + 1) // 2]]
        return self.names[int(left[0])]

    def slopes(self, x: Tensor, shares: Tensor) -> Tensor:
        """How the mean output entropy of the rows changes with every task's share, `[tasks]`."""
        mixed = [
            (weight * torch.tensordot(shares, masks, dims=1)).requires_grad_()
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
