"""The training loop: one task, or a stack of tasks at once."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from crwn.data.dataset import StackedRows, visiting_order
from crwn.errors import CRWNError, DataError
from crwn.layers import context_tensors
from crwn.layers.weights import named_generator
from crwn.models import network_of
from crwn.models.convert.checks import check_unchanged
from crwn.models.convert.conversion import converted
from crwn.models.convert.dry_run import try_out
from crwn.models.functional import replica
from crwn.training.checkpoint import Checkpoint
from crwn.training.early_stopping import EarlyStopping
from crwn.training.forward import ForwardPass, Tensors
from crwn.training.losses import class_mask, task_losses
from crwn.training.optimizers import make_optimizer
from crwn.training.precision import replica_to_train
from crwn.training.recipe import Recipe
from crwn.training.task import PreparedTask

TRY_OUT_ROWS = 8

ExtraLoss = Callable[[nn.Module, Tensors, int], Tensor]


@dataclass(frozen=True)
class Step:
    """What callbacks receive after every step."""

    step: int  # from 1
    steps: int
    names: tuple[str, ...]
    losses: Tensor  # [tasks], on the device: reading them waits for it
    rate: float
    tensors: Mapping[str, Tensor]  # [tasks, ...]: contexts; the next step updates them in place, so clone


@dataclass(frozen=True)
class Learned:
    """The result of training one task."""

    name: str
    tensors: Tensors
    steps: int
    loss: float
    seconds: float


Callback = Callable[[Step], None]
Callbacks = Sequence[Callback]


class Batch(NamedTuple):
    """The rows of one step."""

    x: Tensor  # [tasks, batch, ...]
    y: Tensor  # [tasks, batch], or [tasks, batch, labels or numbers]
    weight: Tensor | None  # [tasks, batch]


def train(
    model: nn.Module,
    tasks: Sequence[PreparedTask],
    recipe: Recipe,
    *,
    seed: int,
    start: Sequence[Mapping[str, Tensor]] | None = None,
    device: str | torch.device = "cpu",
    extra_loss: ExtraLoss | None = None,
    callbacks: Callbacks = (),
    checkpoint: Checkpoint | None = None,
) -> list[Learned]:
    """Train one task, or several with equally many rows at once, on a replica of the model.

    The loss is the sum over tasks of each task's mean, so the optimizer of a stack does for every task exactly what
    it would do for that task alone; batches depend on seed and task name only.

    Args:
        model: any module; it is left unchanged.
        tasks: names, rows and numbers of classes.
        recipe: optimizer, learning rate, schedule and number of batches.
        seed: determines the order of batches, augmentation and dropout.
        start: the context each task starts from; by default the model's own, the same for all.
        device: where to compute.
        extra_loss: added to the loss: (model, stacked tensors, step) -> scalar.
        callbacks: called with a `Step` after every step.
        checkpoint: where to save and resume a task that takes long.

    Returns:
        What every task learned, on the CPU, in the order of `tasks`.

    Raises:
        DataError: there are no tasks, a task has no rows, or stacked tasks differ in their number of rows.
        ModelError: a custom module cannot be trained: it writes into its own tensors, or returns something else than
            logits.
        CRWNError: a loss is no longer finite.
    """
    began = time.perf_counter()
    device = torch.device(device)
    steps = recipe.steps(_rows_per_task(tasks))

    trained = replica_to_train(model, recipe, device)
    tensors = _stacked_contexts(trained, len(tasks), start, device)
    optimizer = make_optimizer(recipe, _learned(trained, tensors))
    forward = ForwardPass(trained, tasks, recipe, seed=seed, device=device)
    stopping = EarlyStopping(trained, tasks, recipe, steps, device)
    first = checkpoint.restore(tensors, optimizer) if checkpoint is not None else 0

    losses = torch.full((len(tasks),), math.nan)
    done = first
    for step, batch in enumerate(_batches(tasks, recipe, steps, seed, first, device), start=first):
        rate = _set_rate(optimizer, recipe.rate_at(step, steps))
        if step == first and converted(model):
            try_out(replica(model).to(device), batch.x[0][:TRY_OUT_ROWS])

        losses = _losses(forward(tensors, batch.x, step), batch, tasks, recipe.label_smoothing)
        loss = losses.sum() if extra_loss is None else losses.sum() + extra_loss(trained, tensors, step)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        done = step + 1

        if step == first:
            _check_module(model, trained)
        report = Step(done, steps, forward.names, losses.detach(), rate, tensors)
        for callback in callbacks:
            callback(report)
        # Not after the last step: a state with nothing left to do would be restored without a loss.
        if checkpoint is not None and done < steps and checkpoint.due():
            checkpoint.save(tensors, optimizer, done)
        if stopping.finished(tensors, done):
            break

    final = losses.detach().cpu()
    if done > first:
        _check_module(model, trained)
        _check_finite(final, forward.names, done, recipe)
    best = stopping.best(tensors)
    seconds = (time.perf_counter() - began) / len(tasks)
    return [
        Learned(name, {key: value[i].clone() for key, value in best.items()}, done, float(final[i]), seconds)
        for i, name in enumerate(forward.names)
    ]


def _rows_per_task(tasks: Sequence[PreparedTask]) -> int:
    counts = [len(task.rows) for task in tasks]
    if not counts or min(counts) == 0:
        empty = ", ".join(f'"{task.name}"' for task in tasks if not len(task.rows))
        raise DataError(f"no rows to learn from in task {empty}" if empty else "no tasks to learn")
    if len(set(counts)) > 1:
        raise DataError(f"stacked tasks must have equally many rows, got {counts}: learn them one after another")
    return counts[0]


def _stacked_contexts(
    trained: nn.Module, count: int, start: Sequence[Mapping[str, Tensor]] | None, device: torch.device
) -> Tensors:
    own = context_tensors(trained)
    starts = [own] * count if start is None else start
    return {name: torch.stack([tensors[name].to(device) for tensors in starts]).detach() for name in own}


def _learned(trained: nn.Module, tensors: Tensors) -> list[Tensor]:
    """The tensors that gradients are taken for; statistics of normalization layers are not among them."""
    return [tensors[name].requires_grad_() for name, value in trained.named_parameters() if value.requires_grad]


def _set_rate(optimizer: torch.optim.Optimizer, rate: float) -> float:
    for group in optimizer.param_groups:
        group["lr"] = rate
    return rate


def _batches(
    tasks: Sequence[PreparedTask], recipe: Recipe, steps: int, seed: int, first: int, device: torch.device
) -> Iterator[Batch]:
    """The batches of every step from `first` on."""
    orders = [visiting_order(len(t.rows), recipe.batch_size, steps, seed=seed, name=t.name) for t in tasks]
    rows = StackedRows([task.rows for task in tasks])
    for step, at in enumerate(zip(*orders, strict=True)):
        if step < first:
            continue
        generators = [
            None if task.rows.augment is None else named_generator("augment", seed, task.name, step) for task in tasks
        ]
        weight = rows.weights(at)
        yield Batch(
            rows.inputs(at, generators).to(device),
            rows.labels(at).to(device),
            None if weight is None else weight.to(device),
        )


def _losses(logits: Tensor, batch: Batch, tasks: Sequence[PreparedTask], smoothing: float) -> Tensor:
    kind = tasks[0].kind
    mask = None
    if kind == "classification":
        mask = class_mask([task.classes for task in tasks], logits.shape[-1], batch.y.device)
    return task_losses(logits.float(), batch.y, mask, batch.weight, kind, smoothing=smoothing)


def _check_module(model: nn.Module, trained: nn.Module) -> None:
    if not network_of(model).pure:
        check_unchanged(model, trained)


def _check_finite(losses: Tensor, names: Sequence[str], done: int, recipe: Recipe) -> None:
    finite = torch.isfinite(losses)
    if not bool(finite.all()):
        worst = names[int((~finite).nonzero()[0])]
        raise CRWNError(f'learning task "{worst}" diverged after {done} batches at rate {recipe.rate}: lower the rate')
