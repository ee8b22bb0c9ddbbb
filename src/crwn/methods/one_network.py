"""What methods have in common that train one network through all tasks: its weights, and what they may forget."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pydantic import BaseModel
from torch import Tensor, nn

from crwn.errors import ConfigError
from crwn.layers import context_tensors
from crwn.methods.image_networks import DenseKernel, baseline
from crwn.methods.method import Method
from crwn.methods.networks import Dense
from crwn.methods.published import has_images, published_recipe
from crwn.recipe import Recipe
from crwn.rows import Rows
from crwn.scenarios import Scenario, Task
from crwn.training import predict_logits


class OneNetwork(Method):
    """One network whose weights every task goes on training, so that earlier tasks may be forgotten.

    Batch-norm statistics are kept for every task as it left them: they are not learned, and with those of a later
    task an earlier one would lose more than the weights forgot.
    """

    independent = False

    def __init__(self, scenario: Scenario, *, size: str | None, seed: int, options: BaseModel) -> None:
        super().__init__(scenario, size=size, seed=seed, options=options)
        self.model = self.network()
        self.weights = context_tensors(self.model)
        self.statistics: dict[str, dict[str, Tensor]] = {}

    @classmethod
    def default_size(cls, scenario: Scenario) -> str:
        return "1d" if has_images(scenario) else "256"

    def network(self) -> nn.Module:
        """The network as it starts: ordinary dense layers or kernels, unless a method has its own."""
        return baseline(
            self.scenario,
            self.size,
            lambda i, o, name: Dense(i, o, seed=self.seed, name=name),
            partial(DenseKernel, seed=self.seed),
            method=self.name,
            affine=True,
        )

    def recipe(self, **overrides: object) -> Recipe:
        return published_recipe(self.scenario, overrides, rate=1e-3, image_rate=1e-3)

    @property
    def stack_size(self) -> int:
        return 1

    def logits(self, task: Task, rows: Rows) -> Tensor:
        """Logits of the network as it is now; a task that is not learned yet has them too (forward transfer)."""
        return predict_logits(self.model, self.tensors(task), rows, classes=len(task.classes))

    def keep(self, task: Task, tensors: dict[str, Tensor]) -> None:
        """Take over what a task left: the weights for all, its statistics for itself."""
        self.weights = tensors
        learned = {name for name, parameter in self.model.named_parameters() if parameter.requires_grad}
        self.statistics[task.name] = {name: value for name, value in tensors.items() if name not in learned}

    def tensors(self, task: Task) -> dict[str, Tensor]:
        """The weights as they are now, with the statistics of this task where it was learned."""
        return self.weights | self.statistics.get(task.name, {})

    def task_state(self, task: Task) -> dict[str, Tensor]:
        return dict(self.statistics.get(task.name, {}))

    def shared_state(self) -> dict[str, Tensor]:
        return dict(self.weights)

    def restore(self, task_states: dict[str, dict[str, Tensor]], shared: dict[str, Tensor]) -> None:
        if shared:
            self.weights = {name: shared[name] for name in self.weights}
        for task, state in task_states.items():
            self.statistics[task] = {name: value for name, value in state.items() if name in self.weights}


def only(tasks: Sequence[Task], *, method: str) -> Task:
    """The one task of a call: networks that share weights learn task after task."""
    if len(tasks) != 1:
        raise ConfigError(f"{method} learns one task after another, got {len(tasks)} at once: use a stack size of 1")
    return tasks[0]
