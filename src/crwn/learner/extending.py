"""New classes and new rows for a task that is there, without its old rows where a closed form kept their sums."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from dataclasses import replace as changed
from typing import Any

import numpy as np

from crwn.contexts import Context, check_label
from crwn.data import inputs
from crwn.errors import ConfigError, DataError
from crwn.learner.exact import ExactLearning
from crwn.learner.exact_args import class_weight_of, exact_settings
from crwn.learner.statistics_store import statistics_name
from crwn.training.exact import Solution, Statistics, learn_exact, output_layer, solve
from crwn.training.exact.output_layer import OutputLayer
from crwn.training.exact.solve import NormalEquations


@dataclass(frozen=True)
class Extension:
    """What `Learner.extend` did, and how far the answers for the old rows moved.

    Args:
        context: what the task has learned now.
        rows: how many were added.
        new_classes: labels that the task did not have before.
        mean_change: root of the mean squared change of the scores that old rows have for the old classes, where 1 is
            the difference between a class's target and the others'. Of a closed form it is exact, from the sums.
        largest_change: no old row's scores changed by more than this, as the length of the vector of changes. Of a
            closed form it is the length of all rows' changes together, which no single row can exceed.
        answers_changed: share of the old rows given that have another answer now; None where none were given.
    """

    context: Context
    rows: int
    new_classes: tuple[Hashable, ...]
    mean_change: float
    largest_change: float
    answers_changed: float | None = None


class Extending(ExactLearning):
    """The part of a `Learner` that adds classes to tasks."""

    def extend(self, task: str, x: Any, y: Any, *, old: Any = None, **options: Any) -> Extension:
        """Add rows, of the task's classes or of new ones, to a task.

        A task that was learned with `method="exact", keep_statistics=True` needs no old rows: its context becomes
        that of all rows learned at once. Any other task is learned again from `old` and the new rows.

        Args:
            x, y: the new rows and their labels.
            old: `(x, y)`, the rows learned before; with a closed form only to count answers that changed.
            options: of `learn`, where the task is learned again.

        Raises:
            ConfigError: the task keeps no sums and `old` is not given.
            DataError: more classes than the model has outputs.
        """
        context = self.bank.get(task)
        if context.info.kind != "classification":
            raise ConfigError(f'task "{task}" is a {context.info.kind}: only classes can be added to')
        labels = [check_label(label, task) for label in inputs.plain_labels(y)]
        new = tuple(label for label in inputs.classes_of(labels) if label not in context.classes)
        if len(context.classes) + len(new) > self.outputs:
            raise DataError(
                f'task "{task}" would have {len(context.classes) + len(new)} classes, this model has {self.outputs} '
                "outputs: make a wider one"
            )
        learner: Any = self  # which has predict and learn
        answers = None if old is None else learner.predict(old[0], task)
        if statistics_name(context) is None:
            return self._learned_again(context, x, y, new, old, answers, options)
        if options:
            raise ConfigError(f"{next(iter(options))} is for tasks that are learned again: this one adds to its sums")
        found, mean, largest = self._added(context, x, y, new)
        share = None if answers is None else float(np.mean(learner.predict(old[0], task) != answers))
        return Extension(found, len(labels), new, mean, largest, share)

    def _added(self, context: Context, x: Any, y: Any, new: tuple[Hashable, ...]) -> tuple[Context, float, float]:
        task, facts = context.name, context.info.exact or {}
        with self._statistics.locked():
            before = self._statistics.get(context)
            wide = changed(context, classes=(*context.classes, *new))
            ready = self._prepared(task, x, y, {}, wide)
            settings = exact_settings({"ridge": facts.get("given_ridge"), "class_weight": class_weight_of(context)})
            model = self._model_copy()
            layer = output_layer(model)
            found = learn_exact(model, ready, settings, start=context.tensors, before=before.widened(wide.classes))
            old = solve(before, layer.frozen, bias=layer.bias, ridge=facts.get("ridge"))
            mean, largest = _moved(layer, before, old, found.solution)
            made = self._context(model, ready, found, settings)
            # These were measured on the new rows alone.
            info = changed(made.info, training_accuracy=None, accuracy=None, majority=None, balanced_accuracy=None)
            kept: dict[str, Any] = dict.fromkeys(("sketch", "own_entropy", "density"))
            if not new:
                kept = {name: getattr(context.info, name) for name in kept}
            stored = changed(made, info=changed(info, **kept))
            return self._store(stored, found.statistics, context), mean, largest

    def _learned_again(
        self,
        context: Context,
        x: Any,
        y: Any,
        new: tuple[Hashable, ...],
        old: Any,
        answers: Any,
        options: dict[str, Any],
    ) -> Extension:
        task = context.name
        if old is None:
            raise ConfigError(
                f'task "{task}" keeps no sums of its rows: give them as old=(x, y) to learn all again, or learn tasks '
                'with method="exact", keep_statistics=True, which need no old rows'
            )
        old_x, old_y = old
        learner: Any = self
        before = learner.predict_proba(old_x, task)
        rows = np.concatenate([np.asarray(old_x), np.asarray(x)])
        labels = [*inputs.plain_labels(old_y), *inputs.plain_labels(y)]
        found: Context = learner.learn(task, rows, labels, start=task, replace=True, **options)
        at = [found.classes.index(label) for label in context.classes]
        moved = np.square(learner.predict_proba(old_x, task)[:, at] - before).sum(axis=1)
        share = float(np.mean(learner.predict(old_x, task) != answers))
        mean, largest = float(moved.mean() ** 0.5), float(moved.max() ** 0.5)
        return Extension(found, len(labels) - len(old_y), new, mean, largest, share)


def _moved(layer: OutputLayer, before: Statistics, old: Solution, new: Solution) -> tuple[float, float]:
    """Root mean squared change of a row's scores for the old classes, and the length of all changes together."""
    system = NormalEquations(before, layer.frozen, layer.bias)
    step = new.gain - old.gain
    total = max(0.0, float(step @ system.times(step)) * system.unit)
    return float((total / system.weight) ** 0.5), float(total**0.5)
