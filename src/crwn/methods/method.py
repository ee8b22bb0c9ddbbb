"""The interface of a method: what a run calls to train it, evaluate it, count its parameters and store its state."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn

from crwn.contexts import Context
from crwn.data.dataset import Rows
from crwn.data.progress import Progress, silent
from crwn.learner.entropy import row_entropies
from crwn.methods.sizes import has_images
from crwn.scenarios import Scenario, Task
from crwn.training.checkpoint import Checkpoint
from crwn.training.loop import Callbacks
from crwn.training.precision import Precision
from crwn.training.recipe import Recipe

# Methods of earlier versions that subclasses may still override, and their names now.
RENAMED = {"answers_by_task": "predictions_depend_on_task", "lesson": "prepared"}


class Options(BaseModel):
    """Options of a method (`--set key=value`); an unknown name raises an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True)
class Counts:
    """Parameters and bytes of one task."""

    params_per_task: int  # parameters that one further task learns
    params_per_task_amortised: float  # with shared trained parameters divided by the number of tasks, as in the paper
    bytes_per_task: int  # stored for one further task, with its share of the shared trained parameters
    note: str = ""  # how these were counted


class Method(ABC):
    """A way to learn the tasks of a scenario.

    Args:
        scenario: the tasks; the network gets its input shape and its largest number of classes.
        size: the size of the network in the paper's terms ("256", "10d", "1d"); None for the method's default.
        seed: determines everything random in the method.
        options: an instance of the method's `Options`.
    """

    name: ClassVar[str]
    independent: ClassVar[bool]  # tasks share nothing that is trained: they can be stacked, and nothing is forgotten
    one_head: ClassVar[bool] = False  # the same outputs answer for all tasks: without a task, every class needs its own
    answers_without_task: ClassVar[bool] = False  # `joint_logits` returns logits for some scenarios
    joint: ClassVar[bool] = False  # all tasks are learned at once, so forgetting is not defined
    Options: ClassVar[type[Options]] = Options
    model: nn.Module  # of a method that learns contexts
    precision: Precision = "float32"  # of products and activations where rows are predicted
    progress: Progress = staticmethod(silent)  # receives the progress of work other than training steps
    sizes: ClassVar[tuple[str, ...]] = ()  # the usual ones, for messages; others of the same form may be accepted

    def __init__(self, scenario: Scenario, *, size: str | None, seed: int, options: BaseModel) -> None:
        self.scenario = scenario
        self.size = size or self.default_size(scenario)
        self.seed = seed
        self.options = options

    def __init_subclass__(cls, **settings: object) -> None:
        super().__init_subclass__(**settings)
        for old, new in RENAMED.items():
            if old in vars(cls):
                warnings.warn(f"{cls.__name__}.{old}: rename it to {new}", DeprecationWarning, stacklevel=2)
                setattr(cls, new, vars(cls)[old])
            elif new in vars(cls):
                setattr(cls, old, vars(cls)[new])  # for subclasses that call it on super()

    @property
    def predictions_depend_on_task(self) -> bool:
        """Whether predictions for the same rows differ between tasks; where they do not, no task can be inferred."""
        return not self.joint

    @classmethod
    def default_size(cls, scenario: Scenario) -> str:
        """The size used when none is given: that of the paper's baselines unless a method overrides it."""
        return "1d" if has_images(scenario) else "256"

    @abstractmethod
    def recipe(self, **overrides: object) -> Recipe:
        """The published recipe of the method on this scenario, with the caller's overrides."""

    @property
    def stack_size(self) -> int:
        """How many tasks to learn at once, from sizes alone and never from timing; 1 unless tasks are independent."""
        return 1

    @property
    def first_alone(self) -> bool:
        """Whether the first task trains weights that later tasks use, so that it is learned alone and before them."""
        return False

    @abstractmethod
    def learn(
        self, tasks: Sequence[Task], recipe: Recipe, *, callbacks: Callbacks = (), checkpoint: Checkpoint | None = None
    ) -> None:
        """Learn these tasks: a stack where `independent`, all of the scenario where `joint`, exactly one otherwise."""

    @abstractmethod
    def logits(self, task: Task, rows: Rows) -> Tensor:
        """Logits `[rows, classes of the task]` for a learned task."""

    def joint_logits(self, tasks: Sequence[Task], rows: Rows) -> Tensor | None:
        """Logits `[rows, classes]` over the classes of these tasks, one task after another, for rows without a task.

        None for a method whose predictions need a task: it is inferred then, by `task_scores`.
        """
        return None

    def task_scores(self, tasks: Sequence[Task], rows: Rows) -> Tensor:
        """How well every row fits every task, `[rows, tasks]`, larger for better: minus the entropy of its outputs."""
        parts = []
        for task in tasks:
            logits = self.logits(task, rows)
            parts.append(-row_entropies(logits[None].float(), torch.tensor([logits.shape[1]]))[0])
        return torch.stack(parts, dim=1)

    @abstractmethod
    def counts(self, tasks: int) -> Counts:
        """The cost of a task in a scenario of this many tasks."""

    @abstractmethod
    def task_state(self, task: Task) -> dict[str, Tensor]:
        """Tensors that belong to this task alone; they do not change once it is learned."""

    def task_context(self, task: Task, *, accuracy: float) -> Context | None:
        """What was learned for this task as a context of `self.model`, where the method learns contexts; else None.

        The folder of a run whose method returns contexts is a model folder.
        """
        return None

    def shared_state(self) -> dict[str, Tensor]:
        """Tensors that tasks share and later tasks change, stored after every task; empty for independent methods."""
        return {}

    @abstractmethod
    def restore(self, task_states: dict[str, dict[str, Tensor]], shared: dict[str, Tensor]) -> None:
        """Restore what `task_state` (by task name) and `shared_state` returned."""
