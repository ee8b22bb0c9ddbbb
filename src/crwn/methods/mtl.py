"""MTL: one network trained on all tasks at once, with rows of all of them mixed in every batch."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from crwn.layers import learned_parameters
from crwn.methods.independent import float_bytes, stored_values
from crwn.methods.joined_rows import JoinedRows
from crwn.methods.method import Counts
from crwn.methods.one_network import OneNetwork
from crwn.scenarios import Task
from crwn.training.recipe import Recipe


class MTL(OneNetwork):
    """`y = W x` in every layer: the same W for all tasks, without an input that distinguishes them.

    The budget is that of all tasks together: the sum of their batches, or as many epochs over the rows of all.
    """

    name = "mtl"
    joint = True
    sizes = ("256",)

    def joined(self, tasks: Sequence[Task], recipe: Recipe) -> tuple[Task, Recipe]:
        """One task with the rows of all of them, and a recipe with the batches of all of them."""
        if recipe.epochs is None:
            recipe = recipe.model_copy(update={"batches": recipe.steps(0) * len(tasks)})
        train, test = (JoinedRows.of(parts) for parts in zip(*((t.train, t.test) for t in tasks), strict=True))
        return Task("all tasks", train, test, max((task.classes for task in tasks), key=len)), recipe

    def keep(self, task: Task, tensors: dict[str, Tensor]) -> None:
        self.weights = tensors  # the batch-norm statistics are those of all tasks

    def counts(self, tasks: int) -> Counts:
        weights = learned_parameters(self.model)
        note = "one network for all tasks: a further task trains all weights again; float32, spread over the tasks"
        return Counts(weights, weights / tasks, float_bytes(stored_values(self.model)) // tasks, note)
