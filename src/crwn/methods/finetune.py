"""Fine-tuning: one network taught task after task, nothing protected: the forgetting the others avoid."""

from __future__ import annotations

from collections.abc import Sequence

from crwn.checkpoint import Checkpoint
from crwn.layers import learned_numbers
from crwn.methods.independent import float_bytes
from crwn.methods.method import Counts
from crwn.methods.one_network import OneNetwork, only
from crwn.recipe import Recipe
from crwn.scenarios import Task
from crwn.training import Callback, TaskRows, train


class Finetune(OneNetwork):
    """`y = W x` in every layer: every task goes on training the same weights."""

    name = "finetune"
    sizes = ("256",)

    def learn(
        self,
        tasks: Sequence[Task],
        recipe: Recipe,
        *,
        callbacks: Sequence[Callback] = (),
        checkpoint: Checkpoint | None = None,
    ) -> None:
        task = only(tasks, method=self.name)
        (learned,) = train(
            self.model,
            [TaskRows(task.name, task.train, len(task.classes))],
            recipe,
            seed=self.seed,
            start=[self.weights],
            callbacks=callbacks,
            checkpoint=checkpoint,
        )
        self.keep(task, learned.tensors)

    def counts(self, tasks: int) -> Counts:
        weights = learned_numbers(self.model)
        note = "every task trains all weights again; one network of float32 is kept, spread over the tasks"
        return Counts(weights, weights / tasks, float_bytes(weights) // tasks, note)
