"""What a learner does in closed form: learn in one pass, add rows in any order, take rows back, keep statistics."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace as changed
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from crwn.contexts import Context, ContextInfo, check_free
from crwn.contexts.bank import Bank, ResidentStack
from crwn.contexts.forking import ForkSafeLock
from crwn.data.standardize import Scaling
from crwn.errors import ContextError, DataError
from crwn.layers import context_tensors
from crwn.learner.exact_args import (
    ExactArgs,
    check_added,
    check_as_begun,
    class_weight_of,
    exact_settings,
    solution_facts,
)
from crwn.learner.fit import make_context
from crwn.learner.model_facts import ModelFacts
from crwn.learner.prepare import DataArgs, prepare_task
from crwn.learner.removal import Removal, removal_note
from crwn.learner.statistics_store import StatisticsStore, statistics_name
from crwn.models.functional import replica
from crwn.training.exact import ExactSettings, Solution, Statistics, learn_exact, output_layer, solve
from crwn.training.exact.accumulate import precision_for
from crwn.training.exact.learn import ClassWeight, ExactResult, add_rows, context_of
from crwn.training.exact.memory import check_memory, memory_note
from crwn.training.exact.statistics import check_statistics
from crwn.training.task import PreparedTask

# Bytes are scaled by constants: a scale measured on rows would depend on which rows came first, or were taken back.
BYTE_SCALING: Scaling = (127.5, 64.0)


class ExactLearning(ModelFacts):
    """The part of a `Learner` that computes contexts in closed form."""

    fingerprint: str
    seed: int
    bank: Bank
    resident: ResidentStack
    folder: Path | None
    _busy: ForkSafeLock
    _statistics: StatisticsStore

    def partial_fit(
        self,
        task: str,
        x: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        classes: Sequence[Hashable] | None = None,
        scaling: Scaling | None = None,
        ridge: float | None = None,
        class_weight: ClassWeight = None,
    ) -> Context:
        """Add rows to a task in closed form: in any order and split, the context is that of all rows at once.

        The first call begins the task and fixes its classes (those of its rows, or `classes`) and its scaling: bytes
        have a constant one; for other rows give `scaling`, or it is measured on the first rows. Statistics are kept.
        """
        known = task in self.bank
        if known and (classes is not None or scaling is not None):
            begun = self.bank.get(task)
            check_as_begun(task, (begun.classes, begun.info.scaling), classes, scaling)
        settings: ExactArgs = {"ridge": ridge, "class_weight": class_weight, "keep_statistics": True}
        if not known:
            settings |= {"classes": classes, "scaling": scaling}
        return self._learn_exact(task, x, y, {"sample_weight": sample_weight}, settings, resume=known)

    def statistics(self, task: str) -> Statistics:
        """The sums that a task's context follows from; `add`, `subtract` and `merge` combine them."""
        return self._statistics.get(self.bank.get(task))

    def no_statistics(self, classes: Sequence[Hashable], scaling: Scaling) -> Statistics:
        """Statistics of no rows, to add others to: those of a new task of this model."""
        layer = output_layer(self.model)
        return Statistics.empty(
            layer.width,
            tuple(classes),
            model=self.fingerprint,
            below=layer.below(context_tensors(self.model)),
            scaling=scaling,
            precision=precision_for(layer.width),
        )

    def statistics_of(
        self, x: Any, y: Any = None, *, classes: Sequence[Hashable], scaling: Scaling, sample_weight: Any = None
    ) -> Statistics:
        """The statistics of rows that are learned elsewhere, such as one owner's part; nothing is stored here."""
        given: ExactArgs = {"classes": classes, "scaling": scaling}
        ready = self._prepared("statistics", x, y, {"sample_weight": sample_weight}, None, given)
        check_memory(output_layer(self.model).width)
        return add_rows(self._model_copy(), ready, context_tensors(self.model))[2]

    def add_statistics(self, task: str, statistics: Statistics, *, ridge: float | None = None) -> Context:
        """Store the context of these statistics, such as the merged ones of several owners, as a task.

        Raises:
            ContextError: they are no statistics, or of another model.
        """
        check_statistics(statistics)
        layer = output_layer(self.model)
        tensors = context_tensors(self.model)
        expected = {"model": self.fingerprint, "below": layer.below(tensors)}
        for what, value in expected.items():
            if (theirs := getattr(statistics, what)) != value:
                raise ContextError(
                    f"these statistics are of another model ({theirs[:12]}..., this one is {value[:12]}...): "
                    "compute them with this model"
                )
        if not 1 <= len(statistics.classes) <= self.outputs:
            raise ContextError(
                f"statistics of {len(statistics.classes)} classes, this model has {self.outputs} outputs"
            )
        check_free([task], self.bank)
        with self._statistics.locked():
            return self._store_solved(task, tensors, statistics, ridge, ContextInfo(), before=None)

    def unlearn(
        self, task: str, x: Any, y: Any = None, *, sample_weight: Any = None, key: bytes | None = None
    ) -> Removal:
        """Take rows back: the context becomes that of the rows that are left; returns a signed note, also kept in it.

        What was measured on samples of all rows (training accuracy, the sketch and entropies of task inference) is
        dropped, because removed rows may be among them.

        Args:
            key: the secret that the note is signed with; by default the one in the model folder.

        Raises:
            DataError: more rows of a class than were learned, or rows that were not learned; nothing is removed then.
        """
        with self._statistics.locked():
            context = self.bank.get(task)
            before = self._statistics.get(context)
            ready = self._prepared(task, x, y, {"sample_weight": sample_weight}, context)
            weights = class_weight_of(context)
            removed = add_rows(self._model_copy(), ready, context.tensors, class_weight=weights)[2]
            left = before.subtract(removed)
            if not left.rows:
                raise DataError(f'all rows of task "{task}" would be removed: use forget to drop the task')
            note = removal_note(context, removed, left, key or self._statistics.key())
            facts = dict(context.info.exact or {})
            facts["removed"] = [*facts.get("removed", []), note.as_dict()]
            info = changed(
                context.info,
                rows=left.rows // self.copies,
                exact=facts,
                training_accuracy=None,
                accuracy=None,
                sketch=None,
                density=None,
                own_entropy=None,
            )
            self._store_solved(task, context.tensors, left, facts.get("given_ridge"), info, before=context)
            return note

    def _learn_exact(
        self,
        task: str,
        x: Any,
        y: Any,
        data: DataArgs,
        exact: ExactArgs,
        start: str | None = None,
        resume: bool = False,
        replace: bool = False,
        progress: bool = False,
    ) -> Context:
        """Learn one task in closed form, or add rows to it where `resume` is set."""
        settings = exact_settings(exact)
        check_memory(output_layer(self.model).width)
        if progress and (note := memory_note(output_layer(self.model).width)):
            print(note, file=sys.stderr)
        with self._statistics.locked():
            if not (resume or replace):
                check_free([task], self.bank, hint="resume=True adds rows to it, replace=True starts over")
            old = self.bank.get(task) if task in self.bank else None
            before, known, tensors = None, None, context_tensors(self.model)
            if resume:
                known = self.bank.get(task)
                before, tensors = self._statistics.get(known), known.tensors
                check_added(settings)
            elif start is not None:
                tensors = self.bank.get(start).tensors
            ready = self._prepared(task, x, y, data, known, exact)
            model = self._model_copy()
            found = learn_exact(model, ready, settings, start=tensors, before=before)
            context = self._context(model, ready, found, settings)
            keep = resume or bool(exact.get("keep_statistics"))
            return self._store(context, found.statistics if keep else None, old)

    def _prepared(
        self, task: str, x: Any, y: Any, data: DataArgs, known: Context | None, exact: ExactArgs | None = None
    ) -> PreparedTask:
        given = exact or {}
        return prepare_task(
            task,
            x,
            y,
            shape=self.input_shape,
            outputs=self.outputs,
            seed=self.seed,
            known=known,
            byte_scaling=self.byte_scaling or BYTE_SCALING,
            float_scaling=self.float_scaling,
            classes=given.get("classes"),
            scaling=given.get("scaling"),
            **data,
        )

    def _model_copy(self) -> nn.Module:
        """A copy of the model that shares its frozen weights, so that predictions do not wait for the closed form."""
        with self._busy:
            return replica(self.model)

    def _context(self, model: nn.Module, ready: PreparedTask, found: ExactResult, settings: ExactSettings) -> Context:
        context = make_context(ready, found.learned, model, self.fingerprint, features=found.features)
        facts = solution_facts(found.solution, found.statistics, settings.ridge)
        if settings.class_weight is not None:
            facts["class_weight"] = (
                "balanced"
                if settings.class_weight == "balanced"
                else [[k, v] for k, v in settings.class_weight.items()]
            )
        if settings.newton:
            facts["newton"] = settings.newton
        return changed(context, info=changed(context.info, rows=found.statistics.rows // self.copies, exact=facts))

    def _store_solved(
        self,
        task: str,
        tensors: Mapping[str, Tensor],
        statistics: Statistics,
        ridge: float | None,
        info: ContextInfo,
        *,
        before: Context | None,
    ) -> Context:
        """Solve statistics for which there are no rows here, and store the context with them."""
        layer = output_layer(self.model)
        solution = solve(statistics, layer.frozen, bias=layer.bias, ridge=ridge, prior_rows=layer.prior_rows)
        return self._store_solution(task, tensors, statistics, solution, info, ridge=ridge, before=before)

    def _store_solution(
        self,
        task: str,
        tensors: Mapping[str, Tensor],
        statistics: Statistics,
        solution: Solution,
        info: ContextInfo,
        *,
        before: Context | None,
        ridge: float | None = None,
    ) -> Context:
        layer = output_layer(self.model)
        facts = dict(info.exact or {}) | solution_facts(solution, statistics, ridge)
        facts.pop("newton", None)
        loss = round(solution.residual, 6)
        rows = statistics.rows // self.copies
        whole = changed(info, rows=rows, loss=loss, scaling=statistics.scaling, exact=facts)
        found = context_of(layer, tensors, statistics, solution)
        return self._store(Context(task, found, statistics.classes, self.fingerprint, info=whole), statistics, before)

    def _delete(self, task: str) -> None:
        kept = statistics_name(self.bank.get(task))
        self.bank.delete(task)
        self._statistics.drop(kept)

    def _store(self, context: Context, statistics: Statistics | None, before: Context | None) -> Context:
        """Store a context and its statistics so that a kill at any moment leaves both old or both new."""
        if statistics is not None:
            facts = {**(context.info.exact or {}), "statistics": self._statistics.put(statistics, context.name)}
            context = changed(context, info=changed(context.info, exact=facts))
        self.bank.put(context, replace=before is not None)
        self.resident.drop(context.name)
        if before is not None and statistics_name(before) != statistics_name(context):
            self._statistics.drop(statistics_name(before))
        return context
