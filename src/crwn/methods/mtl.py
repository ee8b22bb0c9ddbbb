"""MTL: one network taught all tasks at once, rows of all of them mixed in every batch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from torch import nn

from crwn.checkpoint import Checkpoint
from crwn.layers import learned_numbers
from crwn.methods.image_networks import DenseKernel, baseline
from crwn.methods.independent import float_bytes
from crwn.methods.joined_rows import JoinedRows
from crwn.methods.method import Counts
from crwn.methods.networks import Dense
from crwn.methods.one_network import OneNetwork
from crwn.methods.published import has_images, published_recipe
from crwn.recipe import Recipe
from crwn.scenarios import Scenario, Task
from crwn.training import Callback, TaskRows, train


class MTL(OneNetwork):
    """`y = W x` in every layer: one set of weights for all tasks, which are not told apart.

    The budget is that of all tasks together: as many batches as the tasks would have had one by one, or as many
    epochs over the rows of all of them.
    """

    name = "mtl"
    joint = True
    sizes = ("256",)

    @classmethod
    def default_size(cls, scenario: Scenario) -> str:
        return "1d" if has_images(scenario) else "256"

    def network(self) -> nn.Module:
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

    def learn(
        self,
        tasks: Sequence[Task],
        recipe: Recipe,
        *,
        callbacks: Sequence[Callback] = (),
        checkpoint: Checkpoint | None = None,
    ) -> None:
        if recipe.epochs is None:
            recipe = recipe.model_copy(update={"batches": recipe.steps(0) * len(tasks)})
        rows = JoinedRows.of([task.train for task in tasks])
        (learned,) = train(
            self.model,
            [TaskRows("all tasks", rows, max(len(task.classes) for task in tasks))],
            recipe,
            seed=self.seed,
            start=[self.weights],
            callbacks=callbacks,
            checkpoint=checkpoint,
        )
        self.weights = learned.tensors

    def counts(self, tasks: int) -> Counts:
        weights = learned_numbers(self.model)
        note = "one network for all tasks: a further task trains all weights again; float32, spread over the tasks"
        return Counts(weights, weights / tasks, float_bytes(weights) // tasks, note)
