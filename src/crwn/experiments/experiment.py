"""A run's scenario, method and recipe, made from its config alone, so that any process can do a part of it."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from crwn.contexts import Context
from crwn.data import Progress
from crwn.data.dataset import Rows
from crwn.data.progress import silent
from crwn.errors import ConfigError, CRWNError
from crwn.experiments.config import RunConfig
from crwn.learner.entropy import row_entropies
from crwn.methods import Method, find_method, make_method
from crwn.methods.make import ELSEWHERE
from crwn.methods.sizes import has_images
from crwn.scenarios import Scenario, Task, make_scenario
from crwn.scenarios.all_classes import all_classes
from crwn.scenarios.held_out import held_out
from crwn.training.checkpoint import Checkpoint
from crwn.training.loop import Callback, Step
from crwn.training.precision import check_precision, computing_in
from crwn.training.recipe import Recipe
from crwn.training.stacking import stack_key, stacks


@dataclass(frozen=True)
class Experiment:
    """A scenario, a method, and the recipe tasks are trained by."""

    config: RunConfig
    scenario: Scenario
    method: Method
    recipe: Recipe
    setup_seconds: float


@dataclass(frozen=True)
class LearnedTask:
    """A learned task of a group: its state, its accuracy right after learning, its times, and its context."""

    task: int
    state: dict[str, Tensor]
    accuracy: float
    training_seconds: float
    evaluation_seconds: float
    context: Context | None = None


def build(config: RunConfig, *, fetch: Progress = silent, hold_out: float | None = None) -> Experiment:
    """Everything a run needs; names, sizes and options that do not exist are refused here.

    Args:
        hold_out: share of the training rows that stands in for the test rows, for choices that are made by accuracy.
    """
    for name, value in config.settings.items():
        if name in ELSEWHERE:
            raise ConfigError(f"--set {name}={value}: {ELSEWHERE[name].format(value=value)}")
    scenario = make_scenario(config.scenario, seed=config.seed, tasks=config.tasks, progress=fetch)
    if hold_out is not None:
        scenario = held_out(scenario, hold_out)
    if config.protocol == "class" and find_method(config.method).one_head:
        scenario = all_classes(scenario)
    began = time.perf_counter()
    method, overrides = make_method(
        config.method, scenario, size=config.size, seed=config.seed, settings=config.settings
    )
    method.progress = fetch
    if config.class_incremental and not method.predictions_depend_on_task:
        raise ConfigError(
            f"--class-incremental {config.class_incremental}: {method.name} predicts the same for every task, so there "
            "is no task to infer: leave the option out"
        )
    recipe = method.recipe(**overrides, batches=config.batches, epochs=config.epochs)
    check_precision(recipe.precision)
    method.precision = recipe.precision
    return Experiment(config, scenario, method, recipe, time.perf_counter() - began)


def changed_defaults(chosen: Mapping[str, Any], method: Method) -> dict[str, str]:
    """Settings of options whose defaults have changed since a run began, from what its record says was chosen.

    Records of earlier versions lack the options; there an option that was not set had the default of that time.
    """
    now = method.options.model_dump(mode="json")
    then = chosen.get("options")
    if not isinstance(then, dict):
        then = {"conv_start": "kaiming"} if has_images(method.scenario) else {}
        if now.get("pretrained"):
            then["first_rate"] = 1e-3
    unset = now.keys() - method.options.model_fields_set
    return {name: str(value) for name, value in then.items() if name in unset and value != now[name]}


def groups(experiment: Experiment, stack_size: int) -> list[list[int]]:
    """Positions of the tasks that are learned together: stacks of independent tasks, all of a joint method, or one."""
    method, scenario = experiment.method, experiment.scenario
    if method.joint:
        return [list(range(len(scenario)))]
    alike: list[Hashable] = [stack_key(task.train) for task in scenario]
    if method.first_alone and alike:
        alike[0] = "first"
    return stacks(alike, stack_size if method.independent else 1, in_order=True)


def learn_group(
    experiment: Experiment,
    indices: Sequence[int],
    *,
    callbacks: Sequence[Callback] = (),
    checkpoint: Checkpoint | None = None,
) -> list[LearnedTask]:
    """Learn these tasks and evaluate each right afterwards; the times are shared out among them."""
    tasks = [experiment.scenario[i] for i in indices]
    clock = StepClock()
    began = time.perf_counter()
    experiment.method.learn(tasks, experiment.recipe, callbacks=[clock, *callbacks], checkpoint=checkpoint)
    training = (time.perf_counter() - began) * clock.share_repeated / len(tasks)
    found = []
    for i, task in zip(indices, tasks, strict=True):
        began = time.perf_counter()
        score = accuracy(experiment.method, task, task.test)
        found.append(
            LearnedTask(
                i,
                experiment.method.task_state(task),
                score,
                training,
                time.perf_counter() - began,
                experiment.method.task_context(task, accuracy=score),
            )
        )
    return found


class StepClock:
    """Counts steps, so that the time of a task resumed in its middle is extrapolated to all of its steps."""

    def __init__(self) -> None:
        self.seen = 0
        self.skipped = 0
        self.names: tuple[str, ...] | None = None

    def __call__(self, step: Step) -> None:
        if step.names != self.names:
            self.names = step.names
            self.skipped += step.step - 1
        self.seen += 1

    @property
    def share_repeated(self) -> float:
        return (self.seen + self.skipped) / self.seen if self.seen else 1.0


def _logits(method: Method, task: Task, rows: Rows) -> Tensor:
    """Logits of rows, computed in the precision that the method is trained in."""
    with computing_in(method.precision):
        return method.logits(task, rows)


def accuracy(method: Method, task: Task, rows: Rows) -> float:
    """Percentage of rows that the method puts into their class, knowing the task."""
    right = int((_logits(method, task, rows).argmax(dim=1) == rows.labels(slice(None))).sum())
    return 100.0 * right / len(rows)


def accuracy_unlearned(method: Method, task: Task) -> float | None:
    """The same for a task that is not learned yet; None where the method cannot predict it."""
    try:
        return accuracy(method, task, task.test)
    except (CRWNError, KeyError):
        return None


def inferred_accuracy(
    method: Method, tasks: Sequence[Task], group: int, *, show: Callable[[int], None] = lambda done: None
) -> dict[str, float]:
    """How often the task, and then the class, is right when the task is inferred from groups of rows.

    The task is the one under which the group's outputs have the lowest mean entropy, divided by the log of its
    number of classes.
    """
    right_tasks = right_rows = groups_seen = rows_seen = 0
    for i, task in enumerate(tasks):
        rows = task.test
        labels = rows.labels(slice(None))
        at = torch.arange(len(rows)) // group  # the group of every row
        best = torch.full((math.ceil(len(rows) / group),), math.inf)
        chosen = torch.zeros(len(best), dtype=torch.long)
        predicted = torch.zeros(len(rows), dtype=torch.long)
        for j, candidate in enumerate(tasks):
            logits = _logits(method, candidate, rows)
            entropy = row_entropies(logits[None], torch.tensor([logits.shape[1]]))[0]
            mean = torch.zeros(len(best)).index_add_(0, at, entropy) / at.bincount()
            better = mean < best
            best = torch.where(better, mean, best)
            chosen[better] = j
            predicted = torch.where(better[at], logits.argmax(dim=1), predicted)
        right_tasks += int((chosen == i).sum())
        right_rows += int(((chosen[at] == i) & (predicted == labels)).sum())
        groups_seen += len(best)
        rows_seen += len(rows)
        show(i + 1)
    return {
        "group": float(group),
        "task_accuracy": 100.0 * right_tasks / groups_seen,
        "accuracy": 100.0 * right_rows / rows_seen,
    }


def data_digest(task: Task) -> str:
    """A digest that differs between data: of classes, labels, and a few rows, raw and as model inputs."""
    digest = hashlib.sha256(repr(task.classes).encode())
    for rows in (task.train, task.test):
        some = torch.arange(0, len(rows), max(1, len(rows) // 16))[:16]
        for part in (rows.labels(slice(None)), rows.raw(some), rows.inputs(some[:2])):
            digest.update(f"{part.dtype}{tuple(part.shape)}".encode())
            digest.update(part.contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def checkpoint_identity(config: RunConfig, recipe: Recipe, names: Sequence[str]) -> str:
    """What a checkpoint inside a task belongs to: the run, the recipe and the tasks being learned."""
    whole = json.dumps([config.identity(), recipe.model_dump(), list(names)], sort_keys=True)
    return hashlib.sha256(whole.encode()).hexdigest()
