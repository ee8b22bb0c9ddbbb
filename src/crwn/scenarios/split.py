"""Split classes: each task has a few classes that no other task has."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from crwn.data import ImageSet
from crwn.data.dataset import Rows
from crwn.errors import ConfigError, DataError
from crwn.layers.weights import named_generator
from crwn.scenarios.augment import crop_and_flip
from crwn.scenarios.pixel_map import PixelMap
from crwn.scenarios.scenario import Scenario, Task, count_tasks

DEFAULT_BUDGET = {"epochs": 250}


def split(
    image_set: ImageSet,
    classes_per_task: int = 5,
    *,
    seed: int = 0,
    tasks: int | None = None,
    augment: bool | None = None,
    budget: Mapping[str, int] = DEFAULT_BUDGET,
    name: str | None = None,
) -> Scenario:
    """Classes in an order drawn from the seed, `classes_per_task` to a task; remaining classes are not used.

    Colour images stay images, `[n, 3, H, W]`, and are cropped and mirrored at random in training; grey images and
    tables become flat rows without augmentation. `augment` overrides this.

    >>> from crwn.data import load
    >>> scenario = split(load("digits"), classes_per_task=2)
    >>> len(scenario), scenario[4].name, scenario.num_classes
    (5, 'split-04', 2)
    """
    name = name or f"split-{image_set.name.replace('_', '-')}"
    available = len(image_set.classes)
    if classes_per_task < 2:
        raise ConfigError(f"{name} cannot have {classes_per_task} classes per task: give at least 2")
    most = available // classes_per_task
    if most == 0:
        raise ConfigError(
            f"{name} needs {classes_per_task} classes per task, but {image_set.name!r} has only {available}: "
            "give fewer classes per task, or a dataset with more classes"
        )
    if tasks is not None and tasks > most:
        raise ConfigError(
            f"{name} cannot have {tasks} tasks of {classes_per_task} classes: {image_set.name!r} has {available} "
            f"classes, enough for {most}"
        )
    in_colour = len(image_set.shape) == 3
    if augment and len(image_set.shape) < 2:
        raise ConfigError(f"{name} cannot crop and mirror: {image_set.name!r} has plain rows, not images")
    shape = image_set.shape if in_colour else (image_set.features,)
    prepare = PixelMap(image_set, shape=shape)
    change = crop_and_flip if augment or (augment is None and in_colour) else None
    order = named_generator("split", seed, image_set.name).permutation(available)
    made = []
    for k in range(count_tasks(tasks, usual=most, most=most, scenario=name)):
        chosen = torch.from_numpy(order[k * classes_per_task : (k + 1) * classes_per_task])
        classes = tuple(image_set.classes[at] for at in chosen.tolist())
        index_train, y_train = _of_classes(image_set.y_train, chosen)
        index_test, y_test = _of_classes(image_set.y_test, chosen)
        for what, y in (("train", y_train), ("test", y_test)):
            missing = [classes[i] for i in range(len(classes)) if not bool((y == i).any())]
            if missing:
                shown = ", ".join(repr(label) for label in missing[:4])
                raise DataError(f"{name} cannot use class {shown} of {image_set.name!r}: it has no {what} rows")
        made.append(
            Task(
                f"split-{k:02d}",
                Rows(image_set.x_train, y_train, index_train, prepare, change, standardized=True),
                Rows(image_set.x_test, y_test, index_test, prepare, standardized=True),
                classes,
                {"classes": ", ".join(str(label) for label in classes)},
                prepare.scaling,
            )
        )
    return Scenario(name, made, seed=seed, input_shape=shape, budget=budget)


def _of_classes(y: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Positions of the rows of the chosen classes, and each row's place among those classes."""
    matches = y.unsqueeze(1) == chosen  # [rows, chosen]
    index = matches.any(dim=1).nonzero().squeeze(1)
    return index, matches[index].to(torch.int64).argmax(dim=1)
