"""Seconds until FlyNet has an accuracy on tasks of images: features and steps count, evaluation does not."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from crwn.data.dataset import Rows
from crwn.methods import make_method
from crwn.methods.flynet import FlyNetMethod
from crwn.models import EncodedNetwork
from crwn.scenarios import Scenario, Task
from crwn.training.evaluation import accuracy, predict_logits
from crwn.training.exact.linear import learn_linear
from crwn.training.loop import Step, train
from crwn.training.recipe import Recipe
from crwn.training.task import PreparedTask

BLOCK = 500  # images encoded at once
CHECKS = 20  # evaluations of a task, evenly spread over its steps


@dataclass(frozen=True)
class Check:
    """The state of one task at one of its evaluations."""

    step: int
    seconds: float  # since the task began, without evaluations
    accuracy: float


@dataclass(frozen=True)
class Reached:
    """When the mean accuracy of all tasks was first as high as the target.

    Args:
        seconds: per task; None where it was not reached.
        step: of the decoder's training, the same for all tasks.
        accuracy: the mean then, or at the end where it was not reached.
        final: the mean at the end of training.
    """

    seconds: float | None
    step: int
    accuracy: float
    final: float


def time_to(target: float, scenario: Scenario, *, size: str, settings: dict[str, str], seed: int) -> Reached:
    """Train FlyNet on every task of the scenario, from images to the end, and find when it was good enough."""
    method, overrides = make_method("flynet", scenario, size=size, seed=seed, settings=settings)
    recipe = method.recipe(**overrides)
    model = method.model
    assert isinstance(method, FlyNetMethod)
    assert isinstance(model, EncodedNetwork)
    if method.linear:
        return first_reached(target, [[solved(model, task)] for task in scenario])
    return first_reached(target, [watched(model, task, recipe, seed=seed) for task in scenario])


def first_reached(target: float, tasks: Sequence[Sequence[Check]]) -> Reached:
    """The first check at which the mean over the tasks has the target.

    >>> one, other = [Check(10, 1.0, 70.0), Check(20, 2.0, 85.0)], [Check(10, 3.0, 80.0), Check(20, 4.0, 95.0)]
    >>> first_reached(80.0, [one, other])
    Reached(seconds=3.0, step=20, accuracy=90.0, final=90.0)
    """
    means = [sum(check.accuracy for check in checks) / len(checks) for checks in zip(*tasks, strict=True)]
    for at, mean in enumerate(means):
        if mean >= target:
            seconds = sum(checks[at].seconds for checks in tasks) / len(tasks)
            return Reached(seconds, tasks[0][at].step, mean, means[-1])
    return Reached(None, tasks[0][-1].step, means[-1], means[-1])


def watched(model: EncodedNetwork, task: Task, recipe: Recipe, *, seed: int) -> list[Check]:
    """The checks of one task; its features are computed here, whether or not the feature cache has them."""
    labels, held = task.test.labels(slice(None)), _test_features(model, task)
    began = time.perf_counter()
    rows = _features(model, task)
    head, every = model.head, max(1, recipe.steps(len(rows)) // CHECKS)
    found: list[Check] = []

    def check(step: Step) -> None:
        nonlocal began
        if step.step % every and step.step != step.steps:
            return
        seconds = time.perf_counter() - began
        tensors = {name: value[0].detach() for name, value in step.tensors.items()}
        right = accuracy(predict_logits(head, tensors, held, classes=len(task.classes)), labels)
        found.append(Check(step.step, seconds, 100 * right))
        began = time.perf_counter() - seconds

    train(head, [PreparedTask(task.name, rows, task.classes)], recipe, seed=seed, callbacks=[check])
    return found


def solved(model: EncodedNetwork, task: Task) -> Check:
    """The one check of a task that is learned in closed form."""
    labels, held = task.test.labels(slice(None)), _test_features(model, task)
    began = time.perf_counter()
    learned = learn_linear(model.head, PreparedTask(task.name, _features(model, task), task.classes))
    seconds = time.perf_counter() - began
    right = accuracy(predict_logits(model.head, learned.tensors, held, classes=len(task.classes)), labels)
    return Check(0, seconds, 100 * right)


def _test_features(model: EncodedNetwork, task: Task) -> Rows:
    return Rows(torch.cat([model.encode(batch) for batch in task.test.batches(BLOCK)]))


def _features(model: EncodedNetwork, task: Task) -> Rows:
    """The features of all copies of the training images."""
    plain = task.train.without_augmentation()
    copies = [model.encode_copy(batch, at).half() for at in range(model.copies) for batch in plain.batches(BLOCK)]
    return Rows(torch.cat(copies), plain.labels(slice(None)).repeat(model.copies), standardized=True)
