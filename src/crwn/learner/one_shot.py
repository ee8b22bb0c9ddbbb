"""The tasks most likely to be right for a group of rows, by the gradients of one mixture of all contexts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn

from crwn.contexts.bank import ResidentStack
from crwn.contexts.bank.resident import Facts
from crwn.data.dataset import Rows
from crwn.data.standardize import NO_SCALING, stack_scalings
from crwn.learner.entropy import normalised_entropy
from crwn.models.tied import functional_call_tied

_NOBODY: AbstractContextManager[object] = nullcontext()  # nobody else uses the model


def row_scalings(rows: Rows, facts: Sequence[Facts]) -> Tensor:
    """The scaling every task applies to these rows: its own, or none where the rows are standardized already."""
    return stack_scalings([NO_SCALING if rows.standardized else fact.info.scaling for fact in facts])


def choose_tasks(
    model: nn.Module,
    resident: ResidentStack,
    names: Sequence[str],
    rows: Rows,
    *,
    keep: int,
    share: float = 0.1,
    busy: AbstractContextManager[object] = _NOBODY,
) -> list[str]:
    """The tasks most likely to be right, by gradients: a few passes of one network instead of one pass per task.

    All contexts are mixed with equal weights `p_k = 1/K`; tasks whose weight would lower the entropy of the mixture
    most, `-dH/dp_k`, are kept, and mixed again until `keep` are left. By the chain rule `dH/dp_k` is the product of
    the gradient by the mixed context with the k-th context, so one backward pass and a `[K, parameters]` product do for
    all K. A task's input scaling is mixed with its context.
    """
    left = list(names)
    while len(left) > keep:
        gains = _gains(model, resident, left, rows, busy)
        count = max(keep, math.ceil(len(left) * share))
        best = gains.topk(count).indices.tolist()
        left = [left[i] for i in best]
    return left


def _gains(
    model: nn.Module,
    resident: ResidentStack,
    names: Sequence[str],
    rows: Rows,
    busy: AbstractContextManager[object] = _NOBODY,
) -> Tensor:
    """`-dH/dp_k` of every task at equal weights, `[tasks]`."""
    x = rows.inputs(slice(None))
    stacks = _Stacks(resident, names, rows)
    mixed, scaling, classes = stacks.mean()
    learned = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    leaves = {key: value.requires_grad_(key in learned) for key, value in mixed.items()}
    scaling.requires_grad_()
    with busy, torch.enable_grad():
        factor, shift = (part.view(-1, 1, 1) if x.ndim == 4 else part for part in scaling)
        out = functional_call_tied(model, leaves, x * factor + shift)
        entropy = normalised_entropy(out.float()[None], torch.tensor([classes]))[0]
        wanted = [*(value for key, value in leaves.items() if key in learned), scaling]
        gradients = torch.autograd.grad(entropy, wanted, allow_unused=True)
    by_name = dict(zip([*(key for key in leaves if key in learned), ""], gradients, strict=True))
    return -stacks.product({key: value for key, value in by_name.items() if value is not None}).nan_to_num(0.0)


class _Stacks:
    """Contexts of many tasks, a part at a time where there are more than stay in memory."""

    def __init__(self, resident: ResidentStack, names: Sequence[str], rows: Rows) -> None:
        self.resident = resident
        self.names = names
        self.rows = rows
        self.size = min(1024, resident.capacity)
        self._only: tuple[dict[str, Tensor], Tensor, int] | None = None

    def _part(self, at: int) -> tuple[dict[str, Tensor], Tensor, int]:
        if self._only is not None:
            return self._only
        some = list(self.names[at : at + self.size])
        tensors, facts = self.resident.take_with_facts(some)
        raw = row_scalings(self.rows, [facts[name] for name in some])
        # (x - mean) / std = x * factor + shift
        scaling = torch.stack([1 / raw[:, 1], -raw[:, 0] / raw[:, 1]], dim=1)
        part = tensors, scaling, max(len(fact.classes) for fact in facts.values())
        if len(some) == len(self.names):
            self._only = part
        return part

    def mean(self) -> tuple[dict[str, Tensor], Tensor, int]:
        """The contexts and scalings mixed with equal weights, and the largest class count."""
        mixed: dict[str, Tensor] = {}
        scaling, classes = torch.zeros(2, 1), 1
        for at in range(0, len(self.names), self.size):
            tensors, some, count = self._part(at)
            for key, value in tensors.items():
                mixed[key] = mixed.get(key, torch.zeros(())) + value.sum(dim=0) / len(self.names)
            scaling = scaling + some.sum(dim=0) / len(self.names)
            classes = max(classes, count)
        return mixed, scaling, classes

    def product(self, gradients: Mapping[str, Tensor]) -> Tensor:
        """The inner product of every context (its scaling under "") with these gradients, `[tasks]`."""
        parts = []
        for at in range(0, len(self.names), self.size):
            tensors, scaling, _ = self._part(at)
            every = {**tensors, "": scaling.expand(-1, *gradients[""].shape) if "" in gradients else scaling}
            products = [every[key].reshape(len(scaling), -1) @ value.flatten() for key, value in gradients.items()]
            parts.append(torch.stack(products).sum(dim=0))
        return torch.cat(parts)
