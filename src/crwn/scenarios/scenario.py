"""Task and Scenario: tasks in order, indexed, sliced and iterated like a list."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import overload

from crwn.errors import ConfigError
from crwn.rows import Rows


@dataclass(frozen=True)
class Task:
    """A name and labelled rows.

    Args:
        name: readable and unique within its scenario.
        train: rows to learn from.
        test: rows to be judged on.
        classes: label values in the order of the class indices.
        factors: what makes this task differ from the others, for people and for tests of meaning.
    """

    name: str
    train: Rows
    test: Rows
    classes: tuple[Hashable, ...]
    factors: Mapping[str, float | int | str] = field(default_factory=dict)


class Scenario(Sequence[Task]):
    """Tasks in order.

    >>> from crwn.scenarios import make_scenario
    >>> scenario = make_scenario("rotated-digits", tasks=8)
    >>> len(scenario), scenario[1].name, [task.name for task in scenario[6:]]
    (8, 'rotate-010', ['rotate-060', 'rotate-070'])

    Args:
        name: what people call it.
        tasks: the tasks, with names that differ.
        seed: what everything random in the tasks was drawn from.
        input_shape: shape of one model input: `(784,)` or `(3, 32, 32)`.
        budget: how long a task is learned where nobody says otherwise: `{"batches": 1000}` or `{"epochs": 250}`.
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
        """Classes of the widest task: how many outputs a model needs."""
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
            f"Scenario({self.name!r}, {len(self)} tasks, seed={self.seed}, inputs {self.input_shape}, "
            f"up to {self.num_classes} classes, {dict(self.budget)})"
        )


def count_tasks(tasks: int | None, *, usual: int, most: int | None, scenario: str) -> int:
    """How many tasks to make: the number asked for, checked, or the usual one."""
    if tasks is None:
        return usual
    if tasks < 1 or (most is not None and tasks > most):
        limit = "at least 1" if most is None else f"1 to {most}"
        raise ConfigError(f"{scenario} cannot have {tasks} tasks: it has {limit}")
    return tasks
