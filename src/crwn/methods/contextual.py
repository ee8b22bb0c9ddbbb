"""What methods share that learn contexts: tasks are prepared, trained and kept as a `Learner` does it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypedDict

import torch
from pydantic import BaseModel, Field
from torch import Tensor

from crwn.contexts import Context, ContextInfo
from crwn.contexts.density import make_density
from crwn.data.dataset import Rows
from crwn.data.standardize import NO_SCALING, stack_scalings
from crwn.errors import ConfigError
from crwn.layers import context_tensors
from crwn.learner.density_ranking import ENTROPY, evidence
from crwn.learner.fit import fit, make_context
from crwn.methods import method
from crwn.methods.independent import Independent, prepared
from crwn.models import EncodedNetwork, fingerprint
from crwn.scenarios import Scenario, Task
from crwn.training.checkpoint import Checkpoint
from crwn.training.evaluation import predict_logits
from crwn.training.exact import ExactSettings, learn_exact
from crwn.training.exact.shared_head import UNITS, SharedHead, shared_units
from crwn.training.features import encoded, encoded_task
from crwn.training.loop import Callbacks, Learned
from crwn.training.recipe import Recipe

Training = Literal["gradient", "exact", "newton"]
NEWTON_STEPS = 4
BLOCK = 500  # rows answered at once by the shared head


class ModulatedOptions(TypedDict):
    """Arguments that all networks with contexts take."""

    modulation: str
    start: str
    start_scale: float


class ContextOptions(method.Options):
    """Options of every method that learns contexts: what is learned, where it starts, and how it is computed."""

    modulation: Literal["both", "local", "global"] = "both"
    start: Literal["uniform", "ones"] = "uniform"
    start_scale: float = Field(1.0, gt=0)
    constant: bool = Field(False, description="append a 1 to every flat row, for tables; the paper has none")
    training: Training = Field("gradient", description="exact and newton: of the output layer, others fixed")
    newton_steps: int = Field(NEWTON_STEPS, ge=1, le=100, description="steps of training=newton")

    @property
    def modulated(self) -> ModulatedOptions:
        """The arguments of a network that say what a context learns and where it starts."""
        return ModulatedOptions(modulation=self.modulation, start=self.start, start_scale=self.start_scale)


class Contextual(Independent):
    """One frozen network of crwn's and a context for every task; the folder of its run is a model folder.

    With the option `training=exact` the context of the output layer is computed in closed form, with `newton` that is
    followed by steps towards the minimum of cross-entropy; the recipe is not used then.
    """

    answers_without_task = True
    head_units = UNITS  # of the shared head on a backbone

    def __init__(self, scenario: Scenario, *, size: str | None, seed: int, options: BaseModel) -> None:
        super().__init__(scenario, size=size, seed=seed, options=options)
        self.kept: dict[str, Context] = {}
        self._densities: dict[str, ContextInfo] = {}
        self._head: SharedHead | None = None
        steps_given = "newton_steps" in options.model_fields_set
        if steps_given and self.training != "newton":
            raise ConfigError(f"newton_steps is for training=newton, not for training={self.training}")
        if self.closed_form and self.first_alone:
            raise ConfigError(f"pretrained=true trains weights, which training={self.training} cannot: use gradient")

    @property
    def training(self) -> Training:
        """How contexts are computed."""
        found: Training = getattr(self.options, "training", "gradient")
        return found

    @property
    def closed_form(self) -> bool:
        """Whether contexts come from a closed form, one task after another."""
        return self.training != "gradient"

    @property
    def training_note(self) -> str:
        """What the note on a task's cost adds where the recipe is not used."""
        steps = f" and {self._newton_steps} Newton steps" if self._newton_steps else ""
        return f"; learned in closed form{steps}, the budget of batches is not used" if self.closed_form else ""

    @property
    def _newton_steps(self) -> int:
        return int(getattr(self.options, "newton_steps", 0)) if self.training == "newton" else 0

    def train_stack(
        self, tasks: Sequence[Task], recipe: Recipe, callbacks: Callbacks, checkpoint: Checkpoint | None
    ) -> None:
        if self.closed_form:
            for task in tasks:
                settings, ready = ExactSettings(newton=self._newton_steps), prepared(task)
                found = learn_exact(self.model, ready, settings, start=self.start(task))
                made_by = fingerprint(self.model)
                self._keep(make_context(ready, found.learned, self.model, made_by, features=found.features))
            return
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

    def joint_logits(self, tasks: Sequence[Task], rows: Rows) -> Tensor | None:
        """Where images have frozen features, logits of one shared head over all classes; else None.

        The head's sums are those of the tasks' training rows, which are added when they are first asked for: they are
        the same as if they had been added when the tasks were learned.
        """
        if not isinstance(self.model, EncodedNetwork):
            return None
        head = self._shared_head(tasks)
        chosen = [head.members.index((task.name, label)) for task in tasks for label in task.classes]
        ready = encoded(self.model, rows, progress=self.progress)[1]
        parts = [head.logits(ready.inputs(slice(at, at + BLOCK))) for at in range(0, len(ready), BLOCK)]
        return torch.cat(parts)[:, chosen]

    def _shared_head(self, tasks: Sequence[Task]) -> SharedHead:
        assert isinstance(self.model, EncodedNetwork)
        if self._head is None:
            self._head = SharedHead(*shared_units(self.model, self.head_units), model=fingerprint(self.model))
        for task in tasks:
            if task.name not in self._head.tasks:
                ready = encoded_task(self.model, prepared(task), progress=self.progress)[1]
                self._head.add(task.name, ready.rows, task.classes)
        return self._head

    def task_scores(self, tasks: Sequence[Task], rows: Rows) -> Tensor:
        """Probabilities of the tasks by the densities of their training rows, and by the outputs where these are few.

        Without a density (few rows) by the entropy of the outputs alone.
        """
        infos = [self._density(task) for task in tasks]
        names = [task.name for task in tasks]
        found = evidence(names, infos, rows.inputs(slice(None)), stack_scalings([NO_SCALING] * len(tasks)))
        entropies = super().task_scores(tasks, rows)
        if found is None:
            return entropies
        return found.logits() + ENTROPY * entropies

    def _density(self, task: Task) -> ContextInfo:
        if task.name not in self._densities:
            self._densities[task.name] = ContextInfo(density=make_density(task.train))
        return self._densities[task.name]

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
