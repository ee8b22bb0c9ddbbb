"""Training of a learner's tasks: the context each starts from, training in groups, and storing what was learned."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

import torch
from torch import nn

from crwn.contexts import Context
from crwn.contexts.bank import ResidentStack
from crwn.contexts.forking import ForkSafeLock
from crwn.errors import ConfigError
from crwn.learner.fit import NOT_MEASURED, SAMPLE, Start, fit, spread
from crwn.learner.progress import progress_bar
from crwn.learner.tables import WEIGHT_DECAY, is_table_network
from crwn.training.engines import Engine, make_engine
from crwn.training.evaluation import predict_logits
from crwn.training.features import encoded
from crwn.training.loop import Callbacks
from crwn.training.losses import task_losses
from crwn.training.recipe import Recipe
from crwn.training.task import PreparedTask


class TrainingArgs(TypedDict, total=False):
    """Options of `Trainer.fit` that callers pass through."""

    progress: bool
    callbacks: Callbacks
    engine: str | Engine


@dataclass(frozen=True)
class Trainer:
    """One model, the contexts in memory and in the bank behind them, and the lock under which the model is called."""

    model: nn.Module
    resident: ResidentStack
    device: torch.device
    busy: ForkSafeLock
    seed: int

    def start(self, task: PreparedTask, start: str | None, *, resume: bool) -> Start:
        """The context that a task starts from: its own, another task's, or None for the model's initial one.

        Args:
            start: the name of a task, or "nearest" for the one that fits the rows best.
        """
        bank = self.resident.bank
        if resume:
            if start is not None:
                raise ConfigError(
                    f'both resume and start="{start}" are given: resume starts from the task\'s own context'
                )
            return [bank.get(task.name).tensors]
        found = self.best_start(task) if start == "nearest" else start
        return None if found is None else [bank.get(found).tensors]

    def best_start(self, task: PreparedTask) -> str | None:
        """The task whose context predicts the rows of this one with the lowest loss; None where no task can."""
        network, sample = encoded(self.model, spread(task.rows, SAMPLE))
        labels = sample.labels(slice(None))
        losses = {}
        for name in self.resident.bank.names():
            tensors, facts = self.resident.take_with_facts([name])
            classes = len(facts[name].classes)
            if facts[name].info.kind != task.kind or classes < task.classes:
                continue
            context = {key: value[0] for key, value in tensors.items()}
            with self.busy:
                logits = predict_logits(network, context, sample, classes=classes)
            losses[name] = float(task_losses(logits[None], labels[None], None, None, task.kind)[0])
        return min(losses, key=losses.__getitem__) if losses else None

    def fit(
        self,
        groups: Sequence[Sequence[PreparedTask]],
        recipe: Recipe,
        *,
        starts: Sequence[Start] | None = None,
        replace: bool,
        progress: bool = True,
        callbacks: Callbacks = (),
        engine: str | Engine = "local",
    ) -> list[Context]:
        """Train groups of tasks and return their contexts; each group is stored as soon as it is trained.

        Args:
            starts: for every group the contexts its tasks start from; None for the model's initial one.
            replace: overwrite tasks of the same names.
            progress: show a bar on stderr.
            callbacks: called after every step.
            engine: where groups are trained: "local", "processes", "ray", or an engine.
        """
        contexts: list[Context] = []
        prepared = {
            task.name: (task, None if starts is None else starts[at])
            for at, group in enumerate(groups)
            for task in group
        }
        with progress_bar(groups, recipe, shown=progress) as (show, encoding):
            for group in fit(
                self.model,
                groups,
                recipe,
                seed=self.seed,
                starts=starts,
                engine=make_engine(engine),
                device=self.device,
                callbacks=[*callbacks, show],
                alone=self.busy,
                progress=encoding,
            ):
                group = [self._refitted(context, prepared, recipe) for context in group]
                self.resident.bank.put_many(group, replace=replace)
                for context in group:
                    self.resident.drop(context.name)  # read from the bank when it is used, if it is still there
                contexts.extend(group)
        return contexts

    def _refitted(
        self, context: Context, prepared: Mapping[str, tuple[PreparedTask, Start]], recipe: Recipe
    ) -> Context:
        """The context learned again from all rows of its task, with what was measured on those held out at first.

        For a table the recipe is also tried with weight decay, and the one that is better on the rows held out is used;
        where all of these are right already, none can be.
        """
        task, start = prepared[context.name]
        if task.everything is None:
            return context
        seconds = context.info.seconds or 0.0
        if is_table_network(self.model) and not recipe.weight_decay and context.info.accuracy != 100.0:
            decayed = recipe.model_copy(update={"weight_decay": WEIGHT_DECAY})
            other = self._learned(task, decayed, start)
            seconds += other.info.seconds or 0.0
            if _reached(other) > _reached(context):
                context, recipe = other, decayed
        whole = dataclasses.replace(task, rows=task.everything, validation=None, everything=None)
        again = self._learned(whole, recipe, start)
        measured = {key: getattr(context.info, key) for key in (*NOT_MEASURED, "held_out")}
        total = round(seconds + (again.info.seconds or 0.0), 3)
        info = dataclasses.replace(again.info, **measured, seconds=total)
        return Context(context.name, again.tensors, again.classes, again.model, again.created, info)

    def _learned(self, task: PreparedTask, recipe: Recipe, start: Start) -> Context:
        """One task trained here, without storing it."""
        starts = None if start is None else [start]
        ((context,),) = fit(
            self.model, [[task]], recipe, seed=self.seed, starts=starts, device=self.device, alone=self.busy
        )
        return context


def _reached(context: Context) -> float:
    """Accuracy, or R2 of a regression, on the rows held out."""
    found = context.info.r2 if context.info.accuracy is None else context.info.accuracy
    return -math.inf if found is None else found
