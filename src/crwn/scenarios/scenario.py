"""Task and Scenario: a scenario is a sequence of tasks that is indexed, sliced and iterated like a list."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, overload

from numpy.typing import NDArray
from torch import Tensor

from crwn._utils import counted
from crwn.data import ImageSet
from crwn.data.dataset import Rows
from crwn.data.standardize import NO_SCALING, Scaling
from crwn.errors import ConfigError
from crwn.scenarios.pixel_map import PixelMap


@dataclass(frozen=True)
class Task:
    """A name and labelled rows.

    Args:
        name: readable and unique within its scenario.
        train: training rows.
        test: test rows.
        classes: label values in the order of the class indices.
        factors: in what this task differs from the others (an angle, its classes), for reports and the atlas.
        scaling: mean and standard deviation of this task's raw rows, as stored in its context.
    """

    name: str
    train: Rows
    test: Rows
    classes: tuple[Hashable, ...]
    factors: Mapping[str, float | int | str] = field(default_factory=dict)
    scaling: Scaling = NO_SCALING

    def raw(self, part: Literal["train", "test"] = "test") -> tuple[NDArray[Any], list[Hashable]]:
        """Rows of this task (rotated, permuted) with raw values, and their labels, as `Learner.learn` takes them.

        >>> from crwn.scenarios import make_scenario
        >>> x, y = make_scenario("rotated-digits", tasks=2)[1].raw()
        >>> x.shape, x.dtype
        ((359, 64), dtype('uint8'))
        """
        rows = self.train if part == "train" else self.test
        raw = rows.raw(slice(None))
        if isinstance(rows.prepare, PixelMap):
            raw = rows.prepare.moved(raw)
        return raw.numpy(), [self.classes[i] for i in rows.labels(slice(None)).tolist()]


class Scenario(Sequence[Task]):
    """A sequence of tasks.

    >>> from crwn.scenarios import make_scenario
    >>> scenario = make_scenario("rotated-digits", tasks=8)
    >>> len(scenario), scenario[1].name, [task.name for task in scenario[6:]]
    (8, 'rotate-010', ['rotate-060', 'rotate-070'])

    Args:
        name: the scenario's name.
        tasks: the tasks, with distinct names.
        seed: the seed that everything random in the tasks was drawn from.
        input_shape: shape of one model input: `(784,)` or `(3, 32, 32)`.
        budget: default length of training per task: `{"batches": 1000}` or `{"epochs": 250}`.
    """

    def __init__(
        self,
        name: str,
        tasks: Sequence[Task],
        *,
        seed: int,
        input_shape: tuple[int, ...],
        budget: Mapping[str, int],
    ) -> None:
        names = [task.name for task in tasks]
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ConfigError(f"scenario {name!r} has two tasks named {twice!r}: names must differ")
        self.name = name
        self.seed = seed
        self.input_shape = input_shape
        self.budget = budget
        self._tasks = tuple(tasks)

    @property
    def num_classes(self) -> int:
        """The largest number of classes of a task, which is the number of outputs a model needs."""
        return max((len(task.classes) for task in self._tasks), default=0)

    def __len__(self) -> int:
        return len(self._tasks)

    @overload
    def __getitem__(self, at: int) -> Task: ...
    @overload
    def __getitem__(self, at: slice) -> Scenario: ...
    def __getitem__(self, at: int | slice) -> Task | Scenario:
        if isinstance(at, slice):
            return Scenario(
                self.name, self._tasks[at], seed=self.seed, input_shape=self.input_shape, budget=self.budget
            )
        return self._tasks[at]

    def __repr__(self) -> str:
        return (
            f"Scenario({self.name!r}, {counted(len(self), 'task')}, seed={self.seed}, inputs {self.input_shape}, "
            f"up to {self.num_classes} classes, {dict(self.budget)})"
        )


def pixel_scenario(
    name: str,
    image_set: ImageSet,
    tasks: Iterable[tuple[str, Tensor | None, Mapping[str, float | int | str]]],
    *,
    seed: int,
    budget: Mapping[str, int],
) -> Scenario:
    """A scenario whose tasks share all rows of a dataset, flat, each with its own pixel map.

    Args:
        tasks: name, `pixels` of `PixelMap` and factors of every task.
    """
    # One view for all tasks: rows that are the same object are gathered once for a stack of tasks.
    train, test = image_set.x_train.flatten(1), image_set.x_test.flatten(1)
    made = []
    for task, pixels, factors in tasks:
        prepare = PixelMap(image_set, pixels)
        made.append(
            Task(
                task,
                Rows(train, image_set.y_train, prepare=prepare, standardized=True),
                Rows(test, image_set.y_test, prepare=prepare, standardized=True),
                image_set.classes,
                factors,
                prepare.scaling,
            )
        )
    return Scenario(name, made, seed=seed, input_shape=(image_set.features,), budget=budget)


def count_tasks(tasks: int | None, *, usual: int, most: int | None, scenario: str) -> int:
    """Number of tasks to make: `tasks` if it is given and possible, else the usual number."""
    if tasks is None:
        return usual
    if tasks < 1 or (most is not None and tasks > most):
        limit = "at least 1" if most is None else f"1 to {most}"
        raise ConfigError(f"{scenario} cannot have {counted(tasks, 'task')}: it has {limit}")
    return tasks
