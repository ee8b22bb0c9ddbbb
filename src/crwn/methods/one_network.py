"""The common part of methods that train one network on all tasks: finetune, EWC, replay, PSP and MTL."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel
from torch import Tensor, nn

from crwn.data.dataset import Rows
from crwn.errors import ConfigError
from crwn.layers import context_tensors, learned_parameters
from crwn.methods.dense import DenseOptions, dense_network
from crwn.methods.independent import float_bytes, prepared, statistics_note, stored_values
from crwn.methods.method import Counts, Method
from crwn.methods.published import published_recipe
from crwn.methods.sizes import has_images
from crwn.scenarios import Scenario, Task
from crwn.training.checkpoint import Checkpoint
from crwn.training.evaluation import predict_logits
from crwn.training.loop import Callbacks, ExtraLoss, train
from crwn.training.recipe import Recipe
from crwn.training.task import PreparedTask


class OneNetwork(Method):
    """One network whose weights every task continues to train, so that earlier tasks may be forgotten.

    Batch-norm statistics are stored for every task as they were after it was learned: they are not learned
    parameters, and the statistics of a later task would lower the accuracy beyond what the weights forgot.
    """

    independent = False
    one_head = True
    Options = DenseOptions
    extra_loss: ExtraLoss | None = None  # a term that a subclass adds to the training loss

    def __init__(self, scenario: Scenario, *, size: str | None, seed: int, options: BaseModel) -> None:
        super().__init__(scenario, size=size, seed=seed, options=options)
        self.model = self.network()
        self.weights = context_tensors(self.model)
        self.statistics: dict[str, dict[str, Tensor]] = {}  # by task name

    def network(self) -> nn.Module:
        """The network with its initial weights: dense layers unless a subclass overrides it."""
        return dense_network(self.scenario, self.size, seed=self.seed, method=self.name, options=self.options)

    @property
    def predictions_depend_on_task(self) -> bool:
        return has_images(self.scenario) and not self.joint  # every task has its own batch-norm statistics there

    def recipe(self, **overrides: object) -> Recipe:
        return published_recipe(self.scenario, overrides, rate=1e-3, image_rate=1e-3)

    def learn(
        self, tasks: Sequence[Task], recipe: Recipe, *, callbacks: Callbacks = (), checkpoint: Checkpoint | None = None
    ) -> None:
        task, recipe = self.joined(tasks, recipe)
        (learned,) = train(
            self.model,
            [self.prepared(task)],
            recipe,
            seed=self.seed,
            start=[self.start(task)],
            callbacks=callbacks,
            extra_loss=self.extra_loss,
            checkpoint=checkpoint,
        )
        self.keep(task, learned.tensors)

    def joined(self, tasks: Sequence[Task], recipe: Recipe) -> tuple[Task, Recipe]:
        """The task to train on, and its recipe; only a joint method accepts more than one task."""
        if len(tasks) != 1:
            raise ConfigError(
                f"{self.name} learns one task after another, got {len(tasks)} at once: use a stack size of 1"
            )
        return tasks[0], recipe

    def start(self, task: Task) -> dict[str, Tensor]:
        """The tensors training starts from: the current weights."""
        return self.weights

    def prepared(self, task: Task) -> PreparedTask:
        """The task as it is trained on: its own rows, unless a subclass adds others."""
        return prepared(task)

    def keep(self, task: Task, tensors: dict[str, Tensor]) -> None:
        """Store what training on the task returned: weights for all tasks, batch-norm statistics for this one."""
        self.weights = tensors
        learned = {name for name, parameter in self.model.named_parameters() if parameter.requires_grad}
        self.statistics[task.name] = {name: value for name, value in tensors.items() if name not in learned}

    def tensors(self, task: Task) -> dict[str, Tensor]:
        """The current weights, with the batch-norm statistics of this task where it was learned."""
        return self.weights | self.statistics.get(task.name, {})

    def logits(self, task: Task, rows: Rows) -> Tensor:
        """Logits of the current network, also for a task that is not learned yet (forward transfer)."""
        return predict_logits(self.model, self.tensors(task), rows, classes=len(task.classes))

    def shared_counts(self, tasks: int, note: str, *, more_params: int = 0, more_bytes: int = 0) -> Counts:
        """Counts where a task trains all weights, and they are stored once, divided by the number of tasks.

        Args:
            more_params, more_bytes: what a method stores once besides the weights.
        """
        weights = learned_parameters(self.model)
        statistics = float_bytes(stored_values(self.model) - weights)
        stored = (float_bytes(weights) + more_bytes) // tasks + statistics
        return Counts(weights, (weights + more_params) / tasks, stored, note + statistics_note(self.model))

    def task_state(self, task: Task) -> dict[str, Tensor]:
        return dict(self.statistics.get(task.name, {}))

    def shared_state(self) -> dict[str, Tensor]:
        return dict(self.weights)

    def restore(self, task_states: dict[str, dict[str, Tensor]], shared: dict[str, Tensor]) -> None:
        if shared:
            self.weights = {name: shared[name] for name in self.weights}
        for task, state in task_states.items():
            self.statistics[task] = {name: value for name, value in state.items() if name in self.weights}
