"""What methods have in common that train one network through all tasks: its weights, and what they may forget."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel
from torch import Tensor, nn

from crwn.checkpoint import Checkpoint
from crwn.errors import ConfigError
from crwn.layers import context_tensors
from crwn.methods.image_networks import dense_baseline
from crwn.methods.method import Method
from crwn.methods.published import has_images, published_recipe
from crwn.prediction import predict_logits
from crwn.recipe import Recipe
from crwn.rows import Rows, TaskRows
from crwn.scenarios import Scenario, Task
from crwn.training import Callback, ExtraLoss, train


class OneNetwork(Method):
    """One network whose weights every task goes on training, so that earlier tasks may be forgotten.

    Batch-norm statistics are kept for every task as it left them: they are not learned, and with those of a later
    task an earlier one would lose more than the weights forgot.
    """

    independent = False
    extra_loss: ExtraLoss | None = None  # what a method adds to the loss while it learns

    def __init__(self, scenario: Scenario, *, size: str | None, seed: int, options: BaseModel) -> None:
        super().__init__(scenario, size=size, seed=seed, options=options)
        self.model = self.network()
        self.weights = context_tensors(self.model)
        self.statistics: dict[str, dict[str, Tensor]] = {}

    def network(self) -> nn.Module:
        """The network as it starts: ordinary dense layers or kernels, unless a method has its own."""
        return dense_baseline(self.scenario, self.size, seed=self.seed, method=self.name)

    @property
    def answers_by_task(self) -> bool:
        return has_images(self.scenario) and not self.joint  # there a task has statistics of its own

    def recipe(self, **overrides: object) -> Recipe:
        return published_recipe(self.scenario, overrides, rate=1e-3, image_rate=1e-3)

    @property
    def stack_size(self) -> int:
        return 1

    def learn(
        self,
        tasks: Sequence[Task],
        recipe: Recipe,
        *,
        callbacks: Sequence[Callback] = (),
        checkpoint: Checkpoint | None = None,
    ) -> None:
        if len(tasks) != 1:
            raise ConfigError(
                f"{self.name} learns one task after another, got {len(tasks)} at once: use a stack size of 1"
            )
        (task,) = tasks
        self.keep(task, self.trained(self.lesson(task), recipe, callbacks, checkpoint))

    def lesson(self, task: Task) -> TaskRows:
        """What a task is learned from: its own rows, unless a method adds others."""
        return TaskRows(task.name, task.train, len(task.classes))

    def trained(
        self, lesson: TaskRows, recipe: Recipe, callbacks: Sequence[Callback], checkpoint: Checkpoint | None
    ) -> dict[str, Tensor]:
        """The weights after learning, which begins with those there are."""
        (learned,) = train(
            self.model,
            [lesson],
            recipe,
            seed=self.seed,
            start=[self.weights],
            callbacks=callbacks,
            extra_loss=self.extra_loss,
            checkpoint=checkpoint,
        )
        return learned.tensors

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
