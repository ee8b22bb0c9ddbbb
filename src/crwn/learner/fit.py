"""Train prepared tasks with an engine, and make a context of what each has learned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from crwn.contexts import Context, now
from crwn.contexts.density import make_density
from crwn.contexts.sketch import make_sketch
from crwn.data.dataset import Rows
from crwn.data.progress import Progress, silent
from crwn.errors import ConfigError
from crwn.learner.judge import judge
from crwn.learner.tables import is_table_network, table_recipe
from crwn.learner.task_inference import own_entropy
from crwn.models import EncodedNetwork, fingerprint, network_of
from crwn.models.convert.dry_run import one_at_a_time
from crwn.models.functional import replica
from crwn.training.checkpoint import Checkpoint
from crwn.training.engines import Engine, LocalEngine, Training
from crwn.training.evaluation import predict_logits
from crwn.training.features import encoded, encoded_task
from crwn.training.loop import Callback, Learned
from crwn.training.precision import check_precision, computing_in
from crwn.training.recipe import Recipe, best_recipe, deep_recipe, image_recipe, make_recipe, residual_recipe
from crwn.training.stacking import model_stack_size, stack_key, stacks
from crwn.training.task import PreparedTask

# Rows of a task that its context is measured on, for task inference and its training accuracy.
SAMPLE = 512
# Held-out rows that its accuracy is measured on: all of them where they are few, so that rare classes are among them.
JUDGED = 10_000
NOT_MEASURED: dict[str, Any] = dict.fromkeys(
    ("accuracy", "training_accuracy", "majority", "balanced_accuracy", "r2", "rmse")
)

Start = Sequence[Mapping[str, Tensor]] | None


def choose_recipe(
    model: nn.Module,
    recipe: Recipe | str | None,
    *,
    batches: int | None,
    epochs: int | None,
    rows: int | None = None,
) -> Recipe:
    """The recipe to train by: a named one ("paper" or "best"), or the caller's, with its length overridden.

    Args:
        rows: of the largest task; the length of "best" for tables depends on it.
    """
    length = {key: value for key, value in (("batches", batches), ("epochs", epochs)) if value is not None}
    if len(length) == 2:
        raise ConfigError(f"both batches ({batches}) and epochs ({epochs}) are given: give one of them")
    if isinstance(recipe, Recipe):
        chosen = recipe.model_dump()
    elif recipe in (None, "best", "paper"):
        chosen = _named(model, recipe or "best", rows)
    else:
        raise ConfigError(f'unknown recipe "{recipe}": choose "paper", "best", or pass a Recipe')
    if length:
        chosen |= {"batches": None, "epochs": None} | length
    return make_recipe(**chosen)


def _named(model: nn.Module, name: str, rows: int | None) -> dict[str, Any]:
    network = network_of(model)
    if name == "best" and is_table_network(model):
        return table_recipe(rows)
    if network.kind in ("neuromodnet", "flynet"):
        if name == "paper":
            return {"optimizer": "rmsprop", "rate": 0.01}
        return dict(best_recipe(normed=network.normalized))
    if network.kind in ("image-flynet", "backbone"):
        return image_recipe()
    if network.kind == "whitened-resnet":
        return residual_recipe()
    if network.kind == "deep-backbone":
        return deep_recipe(network.suggested_rate)
    return {"optimizer": "adam", "rate": network.suggested_rate, "schedule": "cosine"}


def group_tasks(model: nn.Module, tasks: Sequence[PreparedTask], batch_size: int) -> list[list[PreparedTask]]:
    """The tasks in stacks that are trained at once.

    A module that draws random numbers, or cannot be computed for several tasks at once, is trained on one at a time.
    """
    size = model_stack_size(model, batch_size=batch_size)
    if size > 1 and len(tasks) > 1 and not network_of(model).pure:
        few = tasks[0].rows.inputs(slice(0, 2))
        size = 1 if one_at_a_time(replica(model), few) else size
    alike = [(task.kind, stack_key(task.rows, task.validation)) for task in tasks]
    return [[tasks[at] for at in stack] for stack in stacks(alike, size)]


def fit(
    model: nn.Module,
    groups: Sequence[Sequence[PreparedTask]],
    recipe: Recipe,
    *,
    seed: int,
    starts: Sequence[Start] | None = None,
    engine: Engine | None = None,
    device: str | torch.device = "cpu",
    callbacks: Sequence[Callback] = (),
    checkpoint: Checkpoint | None = None,
    alone: AbstractContextManager[object] | None = None,
    progress: Progress = silent,
) -> Iterator[list[Context]]:
    """Train stacks of tasks and yield the contexts of each stack as soon as it is trained.

    Where the model has an encoder without a context, its features are computed first, and its head is trained on them.

    Args:
        starts: for every group the contexts its tasks start from; None for the model's initial one.
        engine: where the work runs; by default in this process.
        checkpoint: where a long group is saved and resumed; for one group only.
        alone: held while the model is copied, where other threads call it; what is trained and measured is the copy.
        progress: shows the computation of features.
    """
    alone = alone or nullcontext()
    with alone:  # a prediction in another thread has its context inside the model at this moment
        copy = replica(model)
    made_by = fingerprint(model)
    begins = starts if starts is not None else [None] * len(groups)
    check_precision(recipe.precision)
    with computing_in(recipe.precision):
        ready = [[encoded_task(copy, task, progress=progress)[1] for task in group] for group in groups]
    trained = copy.head if isinstance(copy, EncodedNetwork) else copy
    work = [
        Training(trained, group, recipe, seed, start, device, checkpoint)
        for group, start in zip(ready, begins, strict=True)
    ]
    for position, learned in (engine or LocalEngine()).run(work, callbacks=callbacks):
        every = zip(groups[position], ready[position], learned, strict=True)
        yield [make_context(task, one, copy, made_by, features=rows) for task, rows, one in every]


def make_context(
    task: PreparedTask, learned: Learned, model: nn.Module, made_by: str, *, features: PreparedTask | None = None
) -> Context:
    """A task's context, with what task inference needs and how good it is, both measured on a sample of its rows.

    The sample is of the validation rows where there are any. `features` is the task as the head of an `EncodedNetwork`
    learned it, so that the sample need not be encoded again.
    """
    held = task.validation
    rows, count = (task.rows, SAMPLE) if held is None else (held, JUDGED)
    sample = spread(rows, count)
    network, measured = model, sample
    if isinstance(model, EncodedNetwork):
        if features is None:
            network, measured = encoded(model, sample)
        else:
            computed = features.rows if features.validation is None else features.validation
            network, measured = model.head, computed.select(sample_positions(len(rows), count))
    logits = predict_logits(network, learned.tensors, measured, classes=task.classes)
    found = judge(task, logits, sample.labels(slice(None)))
    if held is None and "accuracy" in found:
        found["training_accuracy"] = found.pop("accuracy")
    few = sample_positions(len(sample), SAMPLE)
    info = replace(
        task.info,
        rows=len(task.rows),
        batches=learned.steps,
        loss=round(learned.loss, 6),
        seconds=round(learned.seconds, 3),
        scaling=task.scaling,
        own_entropy=own_entropy(logits[few]) if task.kind == "classification" else None,
        sketch=make_sketch(sample.inputs(few)),
        density=make_density(task.rows) if task.kind == "classification" else None,
        kind=task.kind,
        target_scaling=task.target_scaling,
        held_out=None if held is None else len(sample),
        **NOT_MEASURED | found,
    )
    return Context(task.name, learned.tensors, tuple(task.labels), made_by, now(), info)


def spread(rows: Rows, count: int) -> Rows:
    """At most `count` rows spread evenly over all: rows sorted by class begin with one class only."""
    return rows.select(sample_positions(len(rows), count))


def sample_positions(rows: int, count: int) -> Tensor:
    """Positions of at most `count` rows spread evenly over all, from the first part to the last.

    >>> sample_positions(10, 4).tolist(), sample_positions(3, 4).tolist()
    ([0, 2, 5, 7], [0, 1, 2])
    """
    some = min(rows, count)
    return torch.arange(some) * rows // max(1, some)
