"""The training loop: one task, or a stack of tasks at once, through `torch.func.vmap`."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from crwn.checkpoint import Checkpoint
from crwn.compilation import compiled
from crwn.convert.kept import modulated_weights
from crwn.early_stopping import BestKeeper
from crwn.errors import CRWNError, DataError
from crwn.layers import Modulated, context_names, context_tensors
from crwn.losses import class_mask, task_losses
from crwn.models import Network
from crwn.own_modules import check_logits, check_unchanged, converted, readable_errors
from crwn.prediction import shared_names, under
from crwn.recipe import Recipe
from crwn.rows import StackedRows, TaskRows, named_generator, visiting_order
from crwn.stacked import stacked
from crwn.trial import try_out
from crwn.weights import FrozenWeights

FEW = 8  # rows a module is tried on before it learns

Tensors = dict[str, Tensor]
ExtraLoss = Callable[[nn.Module, Tensors, int], Tensor]


@dataclass(frozen=True)
class Step:
    """What callbacks are told after every step: the losses stay on the device until somebody reads them."""

    step: int
    steps: int
    names: tuple[str, ...]
    losses: Tensor  # [tasks]
    rate: float
    tensors: Mapping[str, Tensor]  # [tasks, ...]: the contexts as they are now, for those who watch them drift


@dataclass(frozen=True)
class Learned:
    """What came of one task."""

    name: str
    tensors: Tensors
    steps: int
    loss: float
    seconds: float


Callback = Callable[[Step], None]


def replica(model: nn.Module) -> nn.Module:
    """A copy of the model that shares its frozen weights: it can be trained while the original predicts.

    What else a module of somebody's own holds is copied: it may write into that while it learns.
    """
    own = set(context_names(model))
    frozen = [part for part in model.modules() if isinstance(part, FrozenWeights | Modulated)]
    everything = [
        *(modulated_weights(model) if converted(model) else model.named_parameters()),
        *(model.named_buffers() if isinstance(model, Network) else ()),
        *(("", buffer) for part in frozen for buffer in part.buffers()),
    ]
    shared = {id(tensor): tensor for name, *_, tensor in everything if name not in own}
    return copy.deepcopy(model, memo=dict(shared))


def train(
    model: nn.Module,
    tasks: Sequence[TaskRows],
    recipe: Recipe,
    *,
    seed: int,
    start: Sequence[Mapping[str, Tensor]] | None = None,
    device: str | torch.device = "cpu",
    autocast: torch.dtype | None = None,
    compile: bool = False,
    callbacks: Sequence[Callback] = (),
    extra_loss: ExtraLoss | None = None,
    checkpoint: Checkpoint | None = None,
) -> list[Learned]:
    """Learn one task, or several with equally many rows at once; the model itself is left as it was.

    The loss is the sum over tasks of each task's mean, so a stack's optimiser does for every task exactly what
    it would do for that task alone; batches depend on seed and task name only.

    Args:
        start: the context each task starts from; by default the model's own, the same for all.
        extra_loss: added to the loss: (model, stacked tensors, step) -> scalar.
        checkpoint: where to save and resume a task that takes long.

    Raises:
        DataError: there are no tasks, a task has no rows, or stacked tasks differ in their number of rows.
        CRWNError: a loss is no longer finite.
    """
    began = time.perf_counter()
    counts = [len(task.rows) for task in tasks]
    if not counts or min(counts) == 0:
        empty = ", ".join(f'"{task.name}"' for task in tasks if not len(task.rows))
        raise DataError(f"no rows to learn from in task {empty}" if empty else "no tasks to learn")
    if len(set(counts)) > 1:
        raise DataError(f"stacked tasks must have equally many rows, got {counts}: learn them one after another")

    work = replica(model).to(device).train()
    tensors = _stacked(work, len(tasks), start, device)
    learned = [name for name, parameter in work.named_parameters() if parameter.requires_grad]
    leaves = [tensors[name].requires_grad_() for name in learned]
    optimizer = _optimizer(recipe, leaves)
    forward = _forward(work, len(tasks), max(task.classes for task in tasks))
    if compile or recipe.compile:
        forward = compiled(forward)
    classes = [task.classes for task in tasks]
    precision: Callable[[], AbstractContextManager[object]] = nullcontext
    if autocast is not None:
        precision = lambda: torch.autocast(torch.device(device).type, dtype=autocast)  # noqa: E731
    steps = recipe.steps(counts[0])
    keeper = BestKeeper(work, tasks, recipe, steps, device)
    names = tuple(task.name for task in tasks)
    noise = _noise(work, seed, names, torch.device(device))

    first = checkpoint.restore(tensors, optimizer) if checkpoint is not None else 0
    losses = torch.full((len(tasks),), math.nan)
    done = first
    for step, (x, y, weight) in enumerate(_batches(tasks, recipe, steps, seed, first, device), start=first):
        rate = recipe.rate_at(step, steps)
        for group in optimizer.param_groups:
            group["lr"] = rate
        if step == first and converted(model):
            try_out(replica(model).to(device), x[0][:FEW])
        with precision(), noise(step), readable_errors(work, x[0]):
            logits = forward(tensors, x)
        losses = task_losses(logits.float(), y, class_mask(classes, logits.shape[-1], device), weight)
        loss = losses.sum()
        if extra_loss is not None:
            loss = loss + extra_loss(work, tensors, step)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if step == first and not isinstance(work, Network):
            check_unchanged(model, work)
        done = step + 1
        report = Step(done, steps, names, losses.detach(), rate, tensors)
        for callback in callbacks:
            callback(report)
        # Not after the last step: a state with nothing left to do would come back without a loss.
        if checkpoint is not None and done < steps and checkpoint.due():
            checkpoint.save(tensors, optimizer, done)
        if keeper.finished(tensors, done):
            break
    if done > first and not isinstance(work, Network):
        check_unchanged(model, work)
    final = losses.detach().cpu()
    if done > first and not bool(torch.isfinite(final).all()):
        worst = names[int((~torch.isfinite(final)).nonzero()[0])]
        raise CRWNError(f'learning task "{worst}" diverged after {done} batches at rate {recipe.rate}: lower the rate')
    seconds = (time.perf_counter() - began) / len(tasks)
    best = keeper.best(tensors)
    return [
        Learned(name, {key: value[i].clone() for key, value in best.items()}, done, float(final[i]), seconds)
        for i, name in enumerate(names)
    ]


def _noise(
    work: nn.Module, seed: int, names: Sequence[str], device: torch.device
) -> Callable[[int], AbstractContextManager[object]]:
    """What a module draws while it learns (dropout) comes from seed, task and step, whatever was drawn before."""
    if isinstance(work, Network):
        return lambda step: nullcontext()  # our own networks draw nothing

    @contextmanager
    def seeded(step: int) -> Iterator[None]:
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(int(named_generator("noise", seed, *names, step).integers(2**63)))
            yield

    return seeded


def _stacked(
    work: nn.Module, count: int, start: Sequence[Mapping[str, Tensor]] | None, device: str | torch.device
) -> Tensors:
    own = context_tensors(work)
    starts = [own] * count if start is None else start
    return {name: torch.stack([tensors[name].to(device) for tensors in starts]).detach() for name in own}


def _forward(work: nn.Module, count: int, classes: int) -> Callable[[Tensors, Tensor], Tensor]:
    """(stacked tensors, inputs [tasks, batch, ...]) -> logits [tasks, batch, classes]."""
    own, shared = not isinstance(work, Network), shared_names(work)

    def one(tensors: Tensors, x: Tensor) -> Tensor:
        logits = under(work, tensors, x, shared)
        if own:
            check_logits(logits, len(x), classes)
        return logits

    if count == 1:
        return lambda tensors, x: one({name: value[0] for name, value in tensors.items()}, x[0])[None]
    if getattr(work, "rowwise", False):
        # v as [tasks, 1, in] and alpha as [tasks, 1, 1] do for whole stacks what vmap does, with less to set up.
        return lambda tensors, x: one({name: value.view(count, 1, -1) for name, value in tensors.items()}, x)
    return stacked(one, randomness="different")


def _optimizer(recipe: Recipe, leaves: list[Tensor]) -> torch.optim.Optimizer:
    if recipe.optimizer == "rmsprop":
        return torch.optim.RMSprop(leaves, lr=recipe.rate, momentum=recipe.momentum, weight_decay=recipe.weight_decay)
    if recipe.optimizer == "adam":
        return torch.optim.Adam(leaves, lr=recipe.rate, weight_decay=recipe.weight_decay)
    return torch.optim.SGD(leaves, lr=recipe.rate, momentum=recipe.momentum, weight_decay=recipe.weight_decay)


def _batches(
    tasks: Sequence[TaskRows], recipe: Recipe, steps: int, seed: int, first: int, device: str | torch.device
) -> Iterator[tuple[Tensor, Tensor, Tensor | None]]:
    """Inputs `[tasks, batch, ...]`, labels `[tasks, batch]` and weights of every step from `first` on."""
    orders = [visiting_order(len(t.rows), recipe.batch_size, steps, seed=seed, name=t.name) for t in tasks]
    rows = StackedRows([task.rows for task in tasks])
    for step, at in enumerate(zip(*orders, strict=True)):
        if step < first:
            continue
        generators = [
            None if task.rows.augment is None else named_generator("augment", seed, task.name, step) for task in tasks
        ]
        weight = rows.weights(at)
        yield (
            rows.inputs(at, generators).to(device),
            rows.labels(at).to(device),
            None if weight is None else weight.to(device),
        )
