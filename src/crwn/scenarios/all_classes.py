"""A scenario whose tasks share one list of classes: those of all tasks, for networks with one output for each."""

from __future__ import annotations

from dataclasses import replace

from crwn.errors import ConfigError
from crwn.scenarios.scenario import Scenario, Task

MOST_CLASSES = 10_000


def all_classes(scenario: Scenario) -> Scenario:
    """The same tasks, where the class indices of a task begin after those of the tasks before it.

    >>> from crwn.scenarios import make_scenario
    >>> whole = all_classes(make_scenario("rotated-digits", tasks=3))
    >>> whole.num_classes, whole[2].classes[20], int(whole[2].train.labels(slice(0, 1)))
    (30, ('rotate-020', 0), 20)
    """
    classes = tuple((task.name, label) for task in scenario for label in task.classes)
    if len(classes) > MOST_CLASSES:
        raise ConfigError(f"{len(classes):,} classes of all tasks are more than {MOST_CLASSES:,}: take fewer tasks")
    tasks: list[Task] = []
    start = 0
    for task in scenario:
        train, test = (rows.labelled(rows.labels(slice(None)) + start) for rows in (task.train, task.test))
        tasks.append(replace(task, train=train, test=test, classes=classes))
        start += len(task.classes)
    return Scenario(scenario.name, tasks, seed=scenario.seed, input_shape=scenario.input_shape, budget=scenario.budget)
