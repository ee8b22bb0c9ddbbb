"""Rotated images: task k has every image rotated by 10k degrees."""

from __future__ import annotations

import math
from collections.abc import Mapping

from crwn.data import ImageSet
from crwn.errors import ConfigError
from crwn.scenarios.pixel_map import rotation
from crwn.scenarios.scenario import Scenario, count_tasks, pixel_scenario

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
    """Rotations in steps of `step` degrees up to a full turn, or the first `tasks` of them.

    >>> from crwn.data import load
    >>> scenario = rotated(load("digits"))
    >>> len(scenario), scenario[9].name, dict(scenario[9].factors)
    (36, 'rotate-090', {'angle': 90.0})
    """
    name = name or f"rotated-{image_set.name}"
    if len(image_set.shape) < 2:
        raise ConfigError(f"{name} needs images, but {image_set.name!r} has plain rows of {image_set.features} values")
    if not 0 < step < 360:
        raise ConfigError(f"{name} cannot rotate in steps of {step} degrees: give more than 0 and less than 360")
    most = math.ceil(360 / step - 1e-9)
    angles = [step * k for k in range(count_tasks(tasks, usual=most, most=most, scenario=name))]
    rotations = (
        (
            f"rotate-{angle:03.0f}" if angle == int(angle) else f"rotate-{angle:07.3f}",
            None if angle == 0 else rotation(image_set.shape, angle),
            {"angle": angle},
        )
        for angle in angles
    )
    return pixel_scenario(name, image_set, rotations, seed=seed, budget=budget)
