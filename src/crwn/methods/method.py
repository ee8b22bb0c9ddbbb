"""What every method is: the same few things in the same order, so that a run can drive any of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pydantic import BaseModel, ConfigDict
from torch import Tensor

from crwn.checkpoint import Checkpoint
from crwn.methods.published import has_images
from crwn.recipe import Recipe
from crwn.rows import Rows
from crwn.scenarios import Scenario, Task
from crwn.training import Callback


class Options(BaseModel):
    """A method's own options (`--set key=value`); unknown names are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True)
class Counts:
    """How much a task costs, counted honestly; `note` says how."""

    params_per_task: int  # numbers that one further task learns
    params_per_task_amortised: float  # with what is shared and trained spread over the tasks, as the paper counts
    bytes_per_task: int  # what has to be kept: a further task's own bytes, and its share of what is shared and trained
    note: str = ""


class Method(ABC):
    """A way to learn the tasks of a scenario one after another.

    Args:
        scenario: the tasks; its input shape and widest task size the network.
        size: what the paper calls the size ("256", "10d", "1d"); None for the method's default.
        seed: makes everything random in the method.
        options: the method's own options, an instance of its `Options`.
    """

    name: ClassVar[str]
    independent: ClassVar[bool]  # tasks never touch each other: they may be stacked and cannot forget
    joint: ClassVar[bool] = False  # all tasks are learned at once, so forgetting has no meaning
    Options: ClassVar[type[Options]] = Options
    sizes: ClassVar[tuple[str, ...]] = ()  # the usual ones, for messages; a method may take others of the same form

    def __init__(self, scenario: Scenario, *, size: str | None, seed: int, options: BaseModel) -> None:
        self.scenario = scenario
        self.size = size or self.default_size(scenario)
        self.seed = seed
        self.options = options

    @property
    def answers_by_task(self) -> bool:
        """Whether the same rows get other answers when another task is named: else there is no task to infer."""
        return not self.joint

    @classmethod
    def default_size(cls, scenario: Scenario) -> str:
        """The size used when none is given; that of the paper's baselines unless a method says otherwise."""
        return "1d" if has_images(scenario) else "256"

    @abstractmethod
    def recipe(self, **overrides: object) -> Recipe:
        """The method's published recipe on this scenario, with the caller's overrides."""

    @property
    @abstractmethod
    def stack_size(self) -> int:
        """How many independent tasks to learn at once: a rule of sizes, never of timing; 1 where tasks are not."""

    @property
    def first_alone(self) -> bool:
        """Whether later tasks build on the first, so that it is learned before them and never in a stack."""
        return False

    @abstractmethod
    def learn(
        self,
        tasks: Sequence[Task],
        recipe: Recipe,
        *,
        callbacks: Sequence[Callback] = (),
        checkpoint: Checkpoint | None = None,
    ) -> None:
        """Learn these tasks: a stack when independent, all of them when joint, exactly one otherwise."""

    @abstractmethod
    def logits(self, task: Task, rows: Rows) -> Tensor:
        """Logits `[rows, classes of the task]` for a task learned before."""

    @abstractmethod
    def counts(self, tasks: int) -> Counts:
        """What a task costs when there are this many."""

    @abstractmethod
    def task_state(self, task: Task) -> dict[str, Tensor]:
        """What was learned for this task alone: kept in its own file, never written again."""

    def shared_state(self) -> dict[str, Tensor]:
        """What tasks share and later tasks change: kept after every task; empty for independent methods."""
        return {}

    @abstractmethod
    def restore(self, task_states: dict[str, dict[str, Tensor]], shared: dict[str, Tensor]) -> None:
        """Put back what `task_state` and `shared_state` gave, by task name."""
