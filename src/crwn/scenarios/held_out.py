"""A scenario judged on held-out training rows: choices are made there, so that test rows stay unseen."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from crwn.data.dataset import Rows
from crwn.data.image_set import hold_out
from crwn.errors import ConfigError
from crwn.scenarios.scenario import Scenario, Task


def held_out(scenario: Scenario, share: float = 0.2) -> Scenario:
    """The same tasks, where a share of every class's training rows is held out and stands in for the test rows.

    >>> from crwn.scenarios import make_scenario
    >>> whole = make_scenario("rotated-digits", tasks=2)
    >>> part = held_out(whole)[0]
    >>> len(whole[0].train), len(part.train), len(part.test)
    (1438, 1151, 287)
    """
    if not 0 < share < 1:
        raise ConfigError(f"the share of training rows to hold out must be between 0 and 1, got {share}")
    parts: dict[tuple[int, int], tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]] = {}

    def split(task: Task) -> Task:
        rows = task.train
        kept, held = hold_out(rows.labels(slice(None)).numpy(), share=share, key="choose")
        at, test = torch.from_numpy(kept), torch.from_numpy(held)
        if not len(test):
            raise ConfigError(f"task {task.name!r} has {len(rows)} training rows: too few to hold any out")
        if rows.index is not None or type(rows) is not Rows or rows.y is None:
            return replace(task, train=rows.select(at), test=rows.select(test).without_augmentation())
        # Tasks that share their rows go on sharing them, so that a stack of tasks gathers them once.
        key = (id(rows.x), id(rows.y))
        if key not in parts:
            parts[key] = (rows.x[at], rows.y[at]), (rows.x[test], rows.y[test])
        (x, y), (x_held, y_held) = parts[key]
        weight = None if rows.weight is None else rows.weight[at]
        train = replace(rows, x=x, y=y, weight=weight)
        return replace(task, train=train, test=replace(rows, x=x_held, y=y_held, weight=None, augment=None))

    tasks = [split(task) for task in scenario]
    return Scenario(scenario.name, tasks, seed=scenario.seed, input_shape=scenario.input_shape, budget=scenario.budget)
