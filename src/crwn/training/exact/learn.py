"""One task learned in closed form: statistics of its rows, the context they determine, and Newton steps if asked."""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn

from crwn.data.dataset import Rows
from crwn.errors import DataError
from crwn.layers import context_tensors
from crwn.models import EncodedNetwork, fingerprint
from crwn.training.exact.accumulate import Report, accumulate, precision_for
from crwn.training.exact.newton import newton_steps
from crwn.training.exact.output_layer import OutputLayer, output_layer
from crwn.training.exact.solve import NormalEquations, Solution, solve
from crwn.training.exact.statistics import Statistics
from crwn.training.features import encoded_task
from crwn.training.loop import Learned
from crwn.training.task import PreparedTask

ClassWeight = Literal["balanced"] | Mapping[Hashable, float] | None


class ExactSettings(BaseModel):
    """Settings of the closed form.

    Args:
        ridge: relative to the mean diagonal of the normal matrix; None for the one of least generalized
            cross-validation.
        class_weight: "balanced", or a weight for every class; multiplied with the sample weights.
        newton: steps towards the minimum of cross-entropy after the closed form.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    ridge: float | None = Field(None, ge=0)
    class_weight: Literal["balanced"] | dict[Hashable, float] | None = None
    newton: int = Field(0, ge=0, le=100)


@dataclass(frozen=True)
class ExactResult:
    """What a task learned, the statistics it follows from, and the solution of its normal equations.

    `features` is the task as its features, so that what is measured afterwards need not compute them again.
    """

    learned: Learned
    statistics: Statistics
    solution: Solution
    features: PreparedTask


def learn_exact(
    model: nn.Module,
    task: PreparedTask,
    settings: ExactSettings,
    *,
    start: Mapping[str, Tensor] | None = None,
    before: Statistics | None = None,
    report: Report = lambda done: None,
) -> ExactResult:
    """Learn one task in one pass over its rows.

    Args:
        start: the context of the layers below the output layer; by default the model's own.
        before: statistics of rows that were learned earlier, to add these to.
        report: called with the number of rows done.

    Raises:
        ModelError: the model's outputs are not those of a modulated linear layer.
        ContextError: the earlier statistics are of another model, of other classes or another scaling.
        DataError: there are no rows, or features that cannot be used.
    """
    began = time.perf_counter()
    if not len(task.rows):
        raise DataError(f'task "{task.name}" has no rows: learning needs at least one')
    tensors = dict(context_tensors(model) if start is None else start)
    layer, rows, statistics, features = add_rows(
        model, task, tensors, class_weight=settings.class_weight, before=before, report=report
    )
    solution = solve(statistics, layer.frozen, bias=layer.bias, ridge=settings.ridge, prior_rows=layer.prior_rows)
    found = context_of(layer, tensors, statistics, solution)
    if settings.newton:
        found = newton_steps(layer, found, rows, statistics, solution, steps=settings.newton)
    seconds = time.perf_counter() - began
    return ExactResult(Learned(task.name, found, 0, solution.residual, seconds), statistics, solution, features)


def add_rows(
    model: nn.Module,
    task: PreparedTask,
    tensors: Mapping[str, Tensor],
    *,
    class_weight: ClassWeight = None,
    before: Statistics | None = None,
    report: Report = lambda done: None,
) -> tuple[OutputLayer, Rows, Statistics, PreparedTask]:
    """The output layer, the rows that its features come from, their statistics, and the features.

    Images are counted once for every copy that the model learns, such as mirror images.
    """
    network, ready = encoded_task(model, task)
    layer = output_layer(network)
    rows = weighted(ready.rows, ready.labels, class_weight)
    layer.check(tensors, rows.inputs(slice(0, 2)))
    empty = Statistics.empty(
        layer.width,
        tuple(task.labels),
        model=fingerprint(model),
        below=layer.below(tensors),
        scaling=task.scaling,
        precision=precision_for(layer.width),
    )
    if before is not None:
        before.check_same(empty)
    return layer, rows, accumulate(layer, tensors, rows, before or empty, report=report), ready


def copies_of(model: nn.Module) -> int:
    """How many rows of statistics one row of a task makes."""
    return model.copies if isinstance(model, EncodedNetwork) else 1


def context_of(
    layer: OutputLayer, tensors: Mapping[str, Tensor], statistics: Statistics, solution: Solution
) -> dict[str, Tensor]:
    """The whole context: the layers below unchanged, v the solution, and alpha what makes outputs log-probabilities.

    Where alpha is fixed, v is multiplied by it; where v is fixed, alpha alone minimizes the squared error.
    """
    found = {name: value.detach().clone() for name, value in tensors.items()}
    v, alpha = f"{layer.name}.v", f"{layer.name}.alpha"
    if v not in found:
        fixed = layer.layer.v.detach().double().cpu().numpy()
        system = NormalEquations(statistics, layer.frozen, layer.bias)
        size = float(fixed @ system.right) / max(float(fixed @ system.times(fixed)) * system.unit, 1e-30)
        found[alpha] = torch.tensor(size * solution.sharpness, dtype=torch.float32)
        return found
    gain = torch.from_numpy(solution.gain)
    if alpha in found:
        found[alpha] = torch.tensor(solution.sharpness, dtype=torch.float32)
    else:
        gain = gain * solution.sharpness
    found[v] = gain.float()
    return found


def weighted(rows: Rows, labels: object, class_weight: ClassWeight) -> Rows:
    """The rows with class weights multiplied into their sample weights."""
    if class_weight is None:
        return rows
    classes = list(labels)  # type: ignore[call-overload]
    y = rows.labels(slice(None))
    weight = torch.ones(len(y)) if rows.weight is None else rows.weight
    if class_weight == "balanced":
        sums = np.bincount(y.numpy(), weight.numpy(), len(classes))
        of_class = np.where(sums > 0, sums.sum() / np.maximum(sums, 1e-30) / max(1, int((sums > 0).sum())), 0.0)
    else:
        assert not isinstance(class_weight, str)
        unknown = [label for label in class_weight if label not in classes]
        wrong = [value for value in class_weight.values() if not 0 <= value < float("inf")]
        if unknown or wrong:
            what = f"{unknown[0]!r} is not a class of this task" if unknown else f"{wrong[0]} is not a weight"
            raise DataError(f"class_weight: {what}: give a number from 0 for classes among {classes[:12]}")
        of_class = np.array([class_weight.get(label, 1.0) for label in classes])
    weight = weight * torch.from_numpy(of_class).float()[y]
    return Rows(rows.x, rows.y, rows.index, rows.prepare, rows.augment, weight, rows.standardized)
