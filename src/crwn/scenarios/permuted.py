"""Permuted images: each task has a fixed random permutation of the pixels."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from crwn.data import ImageSet
from crwn.layers.weights import named_generator
from crwn.scenarios.scenario import Scenario, count_tasks, pixel_scenario

DEFAULT_BUDGET = {"batches": 1000}


def permuted(
    image_set: ImageSet,
    *,
    seed: int = 0,
    tasks: int | None = None,
    budget: Mapping[str, int] = DEFAULT_BUDGET,
    name: str | None = None,
) -> Scenario:
    """`tasks` permutations (100 by default), each drawn from the seed and its index alone; task 0 is permuted too.

    >>> from crwn.data import load
    >>> scenario = permuted(load("digits"), tasks=5)
    >>> len(scenario), scenario[3].name, dict(scenario[3].factors)
    (5, 'permute-003', {'permutation': 3})
    """
    name = name or f"permuted-{image_set.name}"
    permutations = (
        (
            f"permute-{k:03d}",
            torch.from_numpy(named_generator("permutation", seed, k).permutation(image_set.features)),
            {"permutation": k},
        )
        for k in range(count_tasks(tasks, usual=100, most=None, scenario=name))
    )
    return pixel_scenario(name, image_set, permutations, seed=seed, budget=budget)
