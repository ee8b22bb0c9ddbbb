"""Rotated images: task k shows every image turned by 10k degrees."""

from __future__ import annotations

import math
from collections.abc import Mapping

from crwn.data import ImageSet
from crwn.errors import ConfigError
from crwn.rows import Rows
from crwn.scenarios.pixel_map import PixelMap, rotation
from crwn.scenarios.scenario import Scenario, Task, count_tasks

DEFAULT_BUDGET = {"batches": 1000}


def rotated(
    image_set: ImageSet,
    *,
    seed: int = 0,
    tasks: int | None = None,
    step: float = 10.0,
    budget: Mapping[str, int] = DEFAULT_BUDGET,
    name: str | None = None,
) -> Scenario:
    """Every rotation in steps of `step` degrees up to a full turn, or the first `tasks` of them.

    >>> from crwn.data import load
    >>> scenario = rotated(load("digits"))
    >>> len(scenario), scenario[9].name, dict(scenario[9].factors)
    (36, 'rotate-090', {'angle': 90.0})
    """
    name = name or f"rotated-{image_set.name}"
    if len(image_set.shape) < 2:
        raise ConfigError(f"{name} needs images, but {image_set.name!r} has plain rows of {image_set.features} numbers")
    if not 0 < step < 360:
        raise ConfigError(f"{name} cannot turn by {step} degrees from task to task: give more than 0 and less than 360")
    most = math.ceil(360 / step - 1e-9)
    train, test = image_set.x_train.flatten(1), image_set.x_test.flatten(1)  # views, shared by all tasks
    made = []
    for k in range(count_tasks(tasks, usual=most, most=most, scenario=name)):
        angle = step * k
        prepare = PixelMap(image_set, None if angle == 0 else rotation(image_set.shape, angle))
        made.append(
            Task(
                f"rotate-{angle:03.0f}" if angle == int(angle) else f"rotate-{angle:07.3f}",
                Rows(train, image_set.y_train, prepare=prepare),
                Rows(test, image_set.y_test, prepare=prepare),
                image_set.classes,
                {"angle": angle},
            )
        )
    return Scenario(name, made, seed=seed, input_shape=(image_set.features,), budget=budget)
