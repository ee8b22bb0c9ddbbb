"""Task inference: the task of a group of rows is the one whose context gives the outputs of lowest entropy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import torch
from torch import Tensor, nn

from crwn.contexts.bank import ResidentStack
from crwn.contexts.bank.resident import Facts
from crwn.contexts.sketch import distances, how_far, likely, usual
from crwn.data.dataset import Rows
from crwn.data.standardize import NO_SCALING, stack_scalings, standardize_per_task
from crwn.errors import ConfigError, DataError, TaskError
from crwn.learner.ranking import TaskScore, ranking_score
from crwn.models.tied import functional_call_tied
from crwn.models.vectorize import stacked
from crwn.training.features import encoded_stack

_NOBODY: AbstractContextManager[object] = nullcontext()  # nobody else uses the model
Method = Literal["auto", "exhaustive", "sketch", "one-shot"]
METHODS: tuple[Method, ...] = ("auto", "exhaustive", "sketch", "one-shot")
# Up to so many tasks, evaluating all of them takes no longer than choosing candidates.
FEW = 64
# New rows of a task differ a little from its training rows: this share of their deviation is tolerated.
TOLERANCE = 0.25
# Cost of rows at the usual distance from the training rows in the ranking, in units of normalized entropy.
UNLIKE = 0.1


def row_entropies(logits: Tensor, classes: Tensor) -> Tensor:
    """Output entropy of every task and row, divided by the log of the class count: `[tasks, rows]` in 0..1.

    Args:
        logits: `[tasks, rows, outputs]`.
        classes: how many of the outputs each task uses, `[tasks]`.
    """
    absent = torch.arange(logits.shape[-1], device=logits.device) >= classes[:, None]
    logp = logits.masked_fill(absent[:, None, :], -math.inf).log_softmax(dim=-1)
    entropy = -(logp.exp() * logp.masked_fill(absent[:, None, :], 0.0)).sum(dim=-1)
    return entropy / torch.log(classes.clamp_min(2).to(entropy.dtype))[:, None]


def normalised_entropy(logits: Tensor, classes: Tensor) -> Tensor:
    """Mean over the rows of `row_entropies`: `[tasks]` in 0..1."""
    return row_entropies(logits, classes).mean(dim=1)


@torch.no_grad()
def task_entropies(model: nn.Module, tensors: Mapping[str, Tensor], x: Tensor, classes: Sequence[int]) -> Tensor:
    """Normalised entropy under each of the stacked contexts: tensors `[tasks, ...]`, x `[tasks, rows, ...]`."""

    def one(context: dict[str, Tensor], rows: Tensor) -> Tensor:
        return functional_call_tied(model, context, rows)

    logits: Tensor = stacked(one)(dict(tensors), x)
    return normalised_entropy(logits.float(), torch.tensor(list(classes)))


def own_entropy(logits: Tensor) -> dict[str, float]:
    """Mean and deviation of the entropies of the training rows, stored for `fit_of`; logits `[rows, classes]`."""
    entropies = row_entropies(logits[None].float(), torch.tensor([logits.shape[1]]))[0]
    mean, std = round(float(entropies.mean()), 6), round(float(entropies.std(correction=0)), 6)
    return {"mean": mean, "std": std, "rows": len(entropies)}


def fit_of(entropy: float, rows: int, own: object) -> float | None:
    """The probability that a group of rows of the task has an entropy at least this high.

    Entropies of rows are positive and skewed, so their mean over a group is modelled as gamma distributed, with the
    mean and deviation of the training rows (`own`, as `own_entropy` returns them).

    >>> own = {"mean": 0.1, "std": 0.1, "rows": 500}
    >>> round(fit_of(0.1, 16, own), 2), round(fit_of(0.4, 16, own), 6)
    (0.45, 0.0)
    """
    match own:
        case {"mean": int() | float() as mean, "std": int() | float() as std, "rows": int() as count}:
            pass
        case _:
            return None
    if not (0 <= mean <= 1 and 0 <= std <= 1 and count >= 1) or not math.isfinite(entropy):
        return None
    mean = max(mean, 1e-4)
    variance = max(std, 0.02) ** 2 * (1 / rows + 1 / count + TOLERANCE**2)
    shape = torch.tensor(mean**2 / variance, dtype=torch.float64)
    return float(torch.special.gammaincc(shape, torch.tensor(entropy * mean / variance, dtype=torch.float64)))


def rank_tasks(
    model: nn.Module,
    resident: ResidentStack,
    names: Sequence[str],
    rows: Rows,
    *,
    chunk: int = 64,
    busy: AbstractContextManager[object] = _NOBODY,
    likelier: Sequence[str] | None = None,
) -> list[TaskScore]:
    """All these classification tasks with their scores for the rows as a group, best first.

    `busy` is entered for one stack at a time, so that other predictions come in between. The order is that of the
    entropies, to which the distance of the rows from the training rows is added where there is a sketch. Tasks for
    which the rows are strange come after all others, and before those the tasks that are not among `likelier`.
    """
    x = rows.inputs(slice(None))
    found: list[TaskScore] = []
    chosen = set(names if likelier is None else likelier)
    size = max(1, min(chunk, resident.capacity, _affordable(x)))
    for at in range(0, len(names), size):
        some = list(names[at : at + size])
        tensors, facts = resident.take_with_facts(some)
        scaling = _row_scalings(rows, [facts[name] for name in some])
        scaled = standardize_per_task(x[None], scaling, row_ndim=x.ndim - 1)
        # Rows in a larger unit than the training rows would have outputs of too low an entropy.
        loud = (scaled.flatten(1).square().mean(dim=1).sqrt() / 1.5).clamp_min(1.0)
        measured = (scaling != torch.tensor([[0.0], [1.0]])).flatten(1).any(dim=1)
        scaled = scaled / torch.where(measured, loud, 1.0).view(len(some), *[1] * x.ndim)
        with busy:
            network, ready = encoded_stack(model, scaled, scaling)
            entropies = task_entropies(network, tensors, ready, [len(facts[name].classes) for name in some])
        sketches = [facts[name].info.sketch for name in some]
        far = distances(x, sketches, scaling).tolist()
        values = entropies.nan_to_num(1.0).clamp(0.0, 1.0).tolist()
        for name, value, away, sketch in zip(some, values, far, sketches, strict=True):
            if facts[name].info.kind != "classification":  # its outputs cannot be compared
                continue
            fits = (fit_of(value, len(x), facts[name].info.own_entropy), usual(away, len(x), sketch))
            one = TaskScore(name, 0.0, min((fit for fit in fits if fit is not None), default=None), 1.0 - value)
            cost = value + UNLIKE * how_far(away, len(x), sketch)
            found.append(one._replace(score=ranking_score(cost, strange=one.strange, likely=name in chosen)))
    if not found:
        raise TaskError(f'task inference is for classification: "{names[0]}" is of another kind; give task=')
    # Rows unlike the training rows count less, however low their entropy.
    return sorted(found, key=lambda one: -one.score)


def _row_scalings(rows: Rows, facts: Sequence[Facts]) -> Tensor:
    """The scaling every task applies to these rows: its own, or none where the rows are standardized already."""
    return stack_scalings([NO_SCALING if rows.standardized else fact.info.scaling for fact in facts])


def _affordable(x: Tensor) -> int:
    """How many copies of the rows stay below 64 MB."""
    return max(1, 2**24 // max(1, x.numel()))


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
        raw = _row_scalings(self.rows, [facts[name] for name in some])
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


def choose_by_sketch(resident: ResidentStack, names: Sequence[str], rows: Rows, *, keep: int) -> list[str]:
    """The tasks whose training rows are most similar to these, by the sketches stored in their contexts."""
    size = min(1024, resident.capacity)
    facts: dict[str, Facts] = {}
    for at in range(0, len(names), size):
        facts |= resident.facts(names[at : at + size])
    sketches = [facts[name].info.sketch for name in names]
    scalings = _row_scalings(rows, [facts[name] for name in names])
    return [names[i] for i in likely(rows.inputs(slice(None)), sketches, scalings, keep)]


def check_question(rows: Rows, method: str, keep: int) -> None:
    """Raise an error for a method that does not exist, for a number of tasks to keep below 1, and for no rows."""
    if method not in METHODS:
        raise ConfigError(f'unknown method "{method}": choose one of {", ".join(METHODS)}')
    if isinstance(keep, bool) or not isinstance(keep, int) or keep < 1:
        raise ConfigError(f"keep must be a whole number of at least 1, got {keep!r}")
    if not len(rows):
        raise DataError("there are no rows to infer a task from")


def infer_task(
    model: nn.Module,
    resident: ResidentStack,
    names: Sequence[str],
    rows: Rows,
    *,
    method: Method = "auto",
    keep: int = 24,
    busy: AbstractContextManager[object] = _NOBODY,
) -> list[TaskScore]:
    """Tasks ranked for the rows as a group, best first: all of them, or the `keep` likeliest.

    The model is called inside `busy`, one stack of contexts at a time. "sketch" takes those whose training rows are
    most similar to these; "one-shot" those with the largest gradients in a mixture of all contexts. "auto" uses
    sketches too, but ranks all tasks where they are few, likely ones first.
    """
    check_question(rows, method, keep)
    if not names:
        raise TaskError("this learner has no tasks yet: learn one first")
    if method == "exhaustive":
        return rank_tasks(model, resident, names, rows, busy=busy)
    if method == "one-shot":
        chosen = choose_tasks(model, resident, names, rows, keep=keep, busy=busy)
        return rank_tasks(model, resident, chosen, rows, busy=busy)
    everything = method == "auto" and len(names) <= FEW
    keep = max(3, len(names) // 4) if everything else keep
    chosen = choose_by_sketch(resident, names, rows, keep=keep)
    # Entropy can be low for rows unlike the training rows: tasks with similar training rows come first.
    return rank_tasks(model, resident, names if everything else chosen, rows, busy=busy, likelier=chosen)
