"""What methods have in common whose tasks never touch each other: a context per task, learned in stacks."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping, Sequence

import torch
from pydantic import BaseModel
from torch import Tensor, nn

from crwn.contexts import ContextInfo
from crwn.data.dataset import Rows
from crwn.errors import ModelError, TaskError
from crwn.layers import context_tensors, learned_parameters
from crwn.methods.method import Method
from crwn.methods.sizes import has_images, width
from crwn.models.trained import set_trained
from crwn.scenarios import Scenario, Task
from crwn.training.checkpoint import Checkpoint
from crwn.training.evaluation import predict_logits
from crwn.training.loop import Callbacks, Learned, train
from crwn.training.recipe import Recipe
from crwn.training.stacking import stack_key, stack_size, stacks
from crwn.training.task import PreparedTask


class Independent(Method):
    """One frozen network, and for every task a context of its own.

    Where `first_trains` names frozen weights, the first task learns them together with its context (the paper's
    pretrained mode, BatchE); from then on they are frozen like any others, and kept with the first task.
    """

    independent = True

    def __init__(self, scenario: Scenario, *, size: str | None, seed: int, options: BaseModel) -> None:
        super().__init__(scenario, size=size, seed=seed, options=options)
        self.model = self.network()
        self.contexts: dict[str, dict[str, Tensor]] = {}
        self.first: str | None = None  # the task that trained the shared weights

    @abstractmethod
    def network(self) -> nn.Module:
        """The network: its parameters are a task's, everything else is shared and frozen."""

    def first_trains(self) -> list[str]:
        """Names of the frozen weights that the first task trains."""
        return []

    def first_recipe(self, recipe: Recipe) -> Recipe:
        """The recipe of a first task that trains shared weights."""
        return recipe

    def start(self, task: Task) -> Mapping[str, Tensor]:
        """The context a task starts from: the same for all, so that what they learn can be compared."""
        return context_tensors(self.model)

    @property
    def stack_size(self) -> int:
        if has_images(self.scenario):
            return 1  # stacked convolutions are slower than one task after another
        return stack_size(max(*self.scenario.input_shape, width(self.size, method=self.name)))

    @property
    def first_alone(self) -> bool:
        return bool(self.first_trains())

    def learn(
        self, tasks: Sequence[Task], recipe: Recipe, *, callbacks: Callbacks = (), checkpoint: Checkpoint | None = None
    ) -> None:
        tasks = list(tasks)
        if self.first_alone and self.first is None:
            first = tasks.pop(0)
            self._learn_first(first, self.first_recipe(recipe), callbacks, _for_tasks(checkpoint, [first], whole=False))
        for positions in stacks([stack_key(task.train) for task in tasks], max(1, len(tasks))):
            stack = [tasks[at] for at in positions]
            whole = len(stack) == len(tasks) and not self.first_alone
            self.train_stack(stack, recipe, callbacks, _for_tasks(checkpoint, stack, whole=whole))

    def train_stack(
        self, tasks: Sequence[Task], recipe: Recipe, callbacks: Callbacks, checkpoint: Checkpoint | None
    ) -> None:
        """Train tasks with equally many rows at once, and keep what each learned."""
        found = train(
            self.model,
            [prepared(task) for task in tasks],
            recipe,
            seed=self.seed,
            start=[self.start(task) for task in tasks],
            callbacks=callbacks,
            checkpoint=checkpoint,
        )
        for task, learned in zip(tasks, found, strict=True):
            self.store(task, learned)

    def _learn_first(self, task: Task, recipe: Recipe, callbacks: Callbacks, checkpoint: Checkpoint | None) -> None:
        names = self.first_trains()
        trained = unfrozen(self.model, names)
        start = dict(self.start(task)) | {name: self.model.get_buffer(name) for name in names}
        (learned,) = train(
            trained,
            [prepared(task)],
            recipe,
            seed=self.seed,
            start=[start],
            callbacks=callbacks,
            checkpoint=checkpoint,
        )
        self._freeze(task.name, {name: learned.tensors.pop(name) for name in names})
        self.store(task, learned)

    def _freeze(self, first: str, weights: Mapping[str, Tensor]) -> None:
        set_trained(self.model, weights)
        self.first = first

    def store(self, task: Task, learned: Learned) -> None:
        """Store what a task learned, by its name."""
        self.contexts[task.name] = self.keep(learned.tensors)

    def keep(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """The part of a task's learned tensors that is stored: all of them."""
        return tensors

    def context(self, task: Task) -> dict[str, Tensor]:
        """The context the network computes with."""
        if task.name not in self.contexts:
            raise TaskError(f'{self.name} has not learned task "{task.name}": learn it first')
        return self.contexts[task.name]

    def logits(self, task: Task, rows: Rows) -> Tensor:
        return predict_logits(self.model, self.context(task), rows, classes=len(task.classes))

    def task_state(self, task: Task) -> dict[str, Tensor]:
        self.context(task)
        state = dict(self.contexts[task.name])
        if task.name == self.first:
            state |= {f"shared/{name}": self.model.get_buffer(name).clone() for name in self.first_trains()}
        return state

    def restore(self, task_states: dict[str, dict[str, Tensor]], shared: dict[str, Tensor]) -> None:
        for task, state in task_states.items():
            self.contexts[task] = {name: value for name, value in state.items() if not name.startswith("shared/")}
            weights = {
                name.removeprefix("shared/"): value for name, value in state.items() if name.startswith("shared/")
            }
            if weights:
                self._freeze(task, weights)
        if task_states and self.first_alone and self.first is None:
            raise ModelError(f"the shared weights of {self.name} are not in the state of any task: learn it again")


def unfrozen(model: nn.Module, names: Sequence[str]) -> nn.Module:
    """A copy of the model in which these frozen weights are learned."""
    trained = copy.deepcopy(model)
    for name in names:
        owner, _, attribute = name.rpartition(".")
        module = trained.get_submodule(owner)
        value = getattr(module, attribute)
        delattr(module, attribute)
        module.register_parameter(attribute, nn.Parameter(value.clone()))
    return trained


def float_bytes(values: int) -> int:
    """Bytes of this many float32 values."""
    return values * torch.finfo(torch.float32).bits // 8


def stored_values(model: nn.Module) -> int:
    """Values stored for a task: the parameters it learned, and the statistics of normalization layers."""
    return sum(value.numel() for value in context_tensors(model).values())


def statistics_note(model: nn.Module) -> str:
    """What the note on a task's bytes adds where statistics of normalisation layers are kept; empty elsewhere."""
    count = stored_values(model) - learned_parameters(model)
    return f"; {count:,} batch-norm statistics are kept with it and not counted as learned" if count else ""


def prepared(task: Task) -> PreparedTask:
    """A task of a scenario as the training loop takes it."""
    return PreparedTask(
        task.name, task.train, task.classes, scaling=task.scaling, info=ContextInfo(factors=dict(task.factors))
    )


def _for_tasks(checkpoint: Checkpoint | None, tasks: Sequence[Task], *, whole: bool) -> Checkpoint | None:
    """The checkpoint of a part of the tasks: a state saved by another part must not be taken for its own."""
    if checkpoint is None or whole:
        return checkpoint
    part = ",".join(task.name for task in tasks)
    return Checkpoint(checkpoint.path, f"{checkpoint.identity}/{part}", seconds=checkpoint.seconds)
