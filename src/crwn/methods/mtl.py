"""MTL: one network taught all tasks at once, rows of all of them mixed in every batch."""

from __future__ import annotations

from collections.abc import Sequence

from crwn.checkpoint import Checkpoint
from crwn.layers import learned_numbers
from crwn.methods.independent import float_bytes, kept_numbers
from crwn.methods.joined_rows import JoinedRows
from crwn.methods.method import Counts
from crwn.methods.one_network import OneNetwork
from crwn.recipe import Recipe
from crwn.rows import TaskRows
from crwn.scenarios import Task
from crwn.training import Callback


class MTL(OneNetwork):
    """`y = W x` in every layer: one set of weights for all tasks, which are not told apart.

    The budget is that of all tasks together: as many batches as the tasks would have had one by one, or as many
    epochs over the rows of all of them.
    """

    name = "mtl"
    joint = True
    sizes = ("256",)

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
        everything = TaskRows("all tasks", rows, max(len(task.classes) for task in tasks))
        self.weights = self.trained(everything, recipe, callbacks, checkpoint)

    def counts(self, tasks: int) -> Counts:
        weights = learned_numbers(self.model)
        note = "one network for all tasks: a further task trains all weights again; float32, spread over the tasks"
        return Counts(weights, weights / tasks, float_bytes(kept_numbers(self.model)) // tasks, note)
