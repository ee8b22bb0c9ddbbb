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
from crwn.data.standardize import standardize_per_task
from crwn.errors import ConfigError, DataError, TaskError
from crwn.learner.density_ranking import FALSE_ALARMS, Evidence, evidence, ranked
from crwn.learner.entropy import normalised_entropy, row_entropies
from crwn.learner.one_shot import choose_tasks, row_scalings
from crwn.learner.ranking import TaskScore, ranking_score
from crwn.learner.slices import cost_of, slice_sizes
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
# Tasks this much less likely than the best, as a logarithm, cannot become the best by their output entropies.
FAR_BEHIND = 200.0
# Tasks whose densities are compared; of more, sketches choose so many.
MANY = 1024
# Cost of rows at the usual distance from the training rows in the ranking, in units of normalized entropy.
UNLIKE = 0.1


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

    `busy` is entered for a slice of bounded work at a time: other predictions come in between. The order is that of the
    entropies, to which the distance of the rows from the training rows is added where there is a sketch. Tasks for
    which the rows are strange come after all others, and before those the tasks that are not among `likelier`.
    """
    x = rows.inputs(slice(None))
    found: list[TaskScore] = []
    chosen = set(names if likelier is None else likelier)
    with busy:
        cost = cost_of(model, x[0])
    size, step = slice_sizes(cost, min(chunk, resident.capacity, _affordable(x)), len(x))
    for at in range(0, len(names), size):
        some = list(names[at : at + size])
        tensors, facts = resident.take_with_facts(some)
        scaling = row_scalings(rows, [facts[name] for name in some])
        scaled = standardize_per_task(x[None], scaling, row_ndim=x.ndim - 1)
        # Rows in a larger unit than the training rows would have outputs of too low an entropy.
        loud = (scaled.flatten(1).square().mean(dim=1).sqrt() / 1.5).clamp_min(1.0)
        measured = (scaling != torch.tensor([[0.0], [1.0]])).flatten(1).any(dim=1)
        scaled = scaled / torch.where(measured, loud, 1.0).view(len(some), *[1] * x.ndim)
        counts = [len(facts[name].classes) for name in some]
        entropies = torch.zeros(len(some))
        for row in range(0, len(x), step):
            part = scaled[:, row : row + step]
            with busy:
                network, ready = encoded_stack(model, part, scaling)
                entropies += task_entropies(network, tensors, ready, counts) * (part.shape[1] / len(x))
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


def _affordable(x: Tensor) -> int:
    """How many copies of the rows stay below 64 MB."""
    return max(1, 2**24 // max(1, x.numel()))


def choose_by_sketch(resident: ResidentStack, names: Sequence[str], rows: Rows, *, keep: int) -> list[str]:
    """The tasks whose training rows are most similar to these, by the sketches stored in their contexts."""
    size = min(1024, resident.capacity)
    facts: dict[str, Facts] = {}
    for at in range(0, len(names), size):
        facts |= resident.facts(names[at : at + size])
    sketches = [facts[name].info.sketch for name in names]
    scalings = row_scalings(rows, [facts[name] for name in names])
    return [names[i] for i in likely(rows.inputs(slice(None)), sketches, scalings, keep)]


def infer_by_density(
    model: nn.Module,
    resident: ResidentStack,
    names: Sequence[str],
    rows: Rows,
    *,
    keep: int,
    false_alarms: float = FALSE_ALARMS,
    busy: AbstractContextManager[object] = _NOBODY,
) -> list[TaskScore] | None:
    """The tasks ranked by their densities and, for the `keep` likeliest, their output entropies; likeliest first.

    None unless all tasks have a density.
    """
    found = density_evidence(resident, names, rows, false_alarms)
    if found is None:
        return None
    logits = found.logits().sum(dim=0)
    best = logits.argsort(descending=True)[:keep]
    some = [names[at] for at in best[logits[best] > logits.max() - FAR_BEHIND].tolist()]
    return ranked(found, rank_tasks(model, resident, some, rows, busy=busy))


def density_evidence(
    resident: ResidentStack, names: Sequence[str], rows: Rows, false_alarms: float = FALSE_ALARMS
) -> Evidence | None:
    """What the densities of these tasks say of the rows; None unless all of them have one."""
    facts: dict[str, Facts] = {}
    size = min(MANY, resident.capacity)
    for at in range(0, len(names), size):
        facts |= resident.facts(names[at : at + size])
    every = [facts[name] for name in names]
    scalings = row_scalings(rows, every)
    x = rows.inputs(slice(None))
    return evidence(names, [fact.info for fact in every], x, scalings, false_alarms=false_alarms)


def check_question(rows: Rows, method: str, keep: int, false_alarms: float = FALSE_ALARMS) -> None:
    """Raise an error for an unknown method, no tasks to keep, a share outside 0..1, and for no rows."""
    if isinstance(false_alarms, bool) or not isinstance(false_alarms, int | float) or not 0 < false_alarms < 1:
        raise ConfigError(f"false_alarms is a share above 0 and below 1, got {false_alarms!r}")
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
    """Tasks without densities ranked for the rows as a group, best first: all of them, or the `keep` likeliest.

    The model is called inside `busy`, one stack of contexts at a time. "sketch" takes those whose training rows are
    most similar to these; "one-shot" those with the largest gradients in a mixture of all contexts. "auto" ranks all
    tasks where they are few, and otherwise those with the most similar sketches.
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
