"""What methods share that learn contexts: tasks are prepared, trained and kept as a `Learner` does it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pydantic import BaseModel
from torch import Tensor

from crwn.contexts import Context
from crwn.data.dataset import Rows
from crwn.layers import context_tensors
from crwn.learner.fit import fit, make_context
from crwn.methods.independent import Independent, prepared
from crwn.models import fingerprint
from crwn.scenarios import Scenario, Task
from crwn.training.checkpoint import Checkpoint
from crwn.training.evaluation import predict_logits
from crwn.training.features import encoded
from crwn.training.loop import Callbacks, Learned
from crwn.training.recipe import Recipe


class Contextual(Independent):
    """One frozen network of crwn's and a context for every task; the folder of its run is a model folder."""

    def __init__(self, scenario: Scenario, *, size: str | None, seed: int, options: BaseModel) -> None:
        super().__init__(scenario, size=size, seed=seed, options=options)
        self.kept: dict[str, Context] = {}

    def train_stack(
        self, tasks: Sequence[Task], recipe: Recipe, callbacks: Callbacks, checkpoint: Checkpoint | None
    ) -> None:
        group = [prepared(task) for task in tasks]
        starts = [[self.start(task) for task in tasks]]
        for contexts in fit(
            self.model,
            [group],
            recipe,
            seed=self.seed,
            starts=starts,
            callbacks=callbacks,
            checkpoint=checkpoint,
            progress=self.progress,
        ):
            for context in contexts:
                self._keep(context)

    def logits(self, task: Task, rows: Rows) -> Tensor:
        network, ready = encoded(self.model, rows, progress=self.progress)
        return predict_logits(network, self.context(task), ready, classes=len(task.classes))

    def store(self, task: Task, learned: Learned) -> None:
        self._keep(make_context(prepared(task), learned, self.model, fingerprint(self.model)))

    def _keep(self, context: Context) -> None:
        self.kept[context.name] = context
        self.contexts[context.name] = {name: context.tensors[name] for name in context_tensors(self.model)}

    def task_context(self, task: Task, *, accuracy: float) -> Context:
        """The task's context with its accuracy on the test rows, as it is stored."""
        self.context(task)  # raises where the task is not learned
        context = self.kept[task.name]
        return replace(context, info=replace(context.info, accuracy=round(accuracy, 2)))

    def adopted(self, task: Task, *, steps: int, seconds: float, accuracy: float) -> Context:
        """The context of a task whose tensors were stored without one (runs of earlier versions)."""
        self.store(task, Learned(task.name, self.context(task), steps, 0.0, seconds))
        return self.task_context(task, accuracy=accuracy)
