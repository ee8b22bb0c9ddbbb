"""Which task do these rows belong to? The right context gives the surest outputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from crwn.bank import ResidentStack
from crwn.rows import Rows


def normalised_entropy(logits: Tensor, classes: Tensor) -> Tensor:
    """Mean output entropy of every task over the rows, divided by the log of its class count: `[tasks]` in 0..1.

    Args:
        logits: `[tasks, rows, outputs]`.
        classes: how many of the outputs each task uses, `[tasks]`.
    """
    absent = torch.arange(logits.shape[-1], device=logits.device) >= classes[:, None]
    logp = logits.masked_fill(absent[:, None, :], -math.inf).log_softmax(dim=-1)
    entropy = -(logp.exp() * logp.masked_fill(absent[:, None, :], 0.0)).sum(dim=-1).mean(dim=1)
    return entropy / torch.log(classes.clamp_min(2).to(entropy.dtype))


@torch.no_grad()
def task_entropies(model: nn.Module, tensors: Mapping[str, Tensor], x: Tensor, classes: Sequence[int]) -> Tensor:
    """Normalised entropy under each of the stacked contexts: tensors `[tasks, ...]`, x `[tasks, rows, ...]`."""

    def one(context: dict[str, Tensor], rows: Tensor) -> Tensor:
        out: Tensor = functional_call(model, context, (rows,))
        return out

    logits = vmap(one)(dict(tensors), x)
    return normalised_entropy(logits.float(), torch.tensor(list(classes)))


class TaskScore(NamedTuple):
    """A task and how well it fits: one minus its normalised entropy, in 0..1."""

    task: str
    score: float


def rank_tasks(
    model: nn.Module,
    resident: ResidentStack,
    names: Sequence[str],
    rows: Rows,
    scaling_of: Callable[[Mapping[str, Any]], tuple[float, float]],
    *,
    chunk: int = 64,
) -> list[TaskScore]:
    """All these tasks with their scores for the rows as a group, best first; contexts are tried in stacks."""
    x = rows.inputs(slice(None))
    found: list[TaskScore] = []
    size = max(1, min(chunk, resident.capacity))
    for at in range(0, len(names), size):
        some = list(names[at : at + size])
        tensors, facts = resident.take_with_facts(some)
        scaling = torch.tensor([scaling_of(facts[name].info) for name in some])
        spread = (len(some), *[1] * x.ndim)
        scaled = (x[None] - scaling[:, 0].view(spread)) / scaling[:, 1].view(spread)
        entropies = task_entropies(model, tensors, scaled, [len(facts[name].classes) for name in some])
        found += [TaskScore(name, 1.0 - float(value)) for name, value in zip(some, entropies, strict=True)]
    return sorted(found, key=lambda one: -one.score)
