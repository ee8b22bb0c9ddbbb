"""Permuted images: each task sees the pixels in a fixed random order of its own."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from crwn.data import ImageSet
from crwn.rows import Rows, named_generator
from crwn.scenarios.pixel_map import PixelMap
from crwn.scenarios.scenario import Scenario, Task, count_tasks

DEFAULT_BUDGET = {"batches": 1000}


def permuted(
    image_set: ImageSet,
    *,
    seed: int = 0,
    tasks: int | None = None,
    budget: Mapping[str, int] = DEFAULT_BUDGET,
    name: str | None = None,
) -> Scenario:
    """`tasks` permutations (100 when not said), each drawn from the seed and its number alone; task 0 is one too.

    >>> from crwn.data import load
    >>> scenario = permuted(load("digits"), tasks=5)
    >>> len(scenario), scenario[3].name, dict(scenario[3].factors)
    (5, 'permute-003', {'permutation': 3})
    """
    name = name or f"permuted-{image_set.name}"
    train, test = image_set.x_train.flatten(1), image_set.x_test.flatten(1)  # views, shared by all tasks
    made = []
    for k in range(count_tasks(tasks, usual=100, most=None, scenario=name)):
        order = torch.from_numpy(named_generator("permutation", seed, k).permutation(image_set.features))
        prepare = PixelMap(image_set, order)
        made.append(
            Task(
                f"permute-{k:03d}",
                Rows(train, image_set.y_train, prepare=prepare),
                Rows(test, image_set.y_test, prepare=prepare),
                image_set.classes,
                {"permutation": k},
            )
        )
    return Scenario(name, made, seed=seed, input_shape=(image_set.features,), budget=budget)
