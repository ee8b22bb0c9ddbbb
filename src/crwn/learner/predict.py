"""Predictions of a model with contexts that are in memory: one task for all rows, or one for each row."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from crwn._utils import counted
from crwn.contexts import ContextInfo
from crwn.contexts.bank import ResidentStack
from crwn.contexts.bank.resident import Facts
from crwn.contexts.density import FEWEST_ROWS
from crwn.contexts.forking import ForkSafeLock
from crwn.data.dataset import Rows
from crwn.data.image_set import Array
from crwn.data.inputs import rows_of, standardize_rows
from crwn.data.standardize import stack_scalings, standardize_per_task
from crwn.errors import ConfigError, DataError, TaskError
from crwn.learner.checks import warn_of_scale
from crwn.learner.density_ranking import FALSE_ALARMS, Evidence, ranked_rows
from crwn.learner.encode import Encodable, encode_for_tasks, rank_encodable
from crwn.learner.entropy import row_entropies
from crwn.learner.head_ranking import HeadScores, ranked_by_head, ranked_rows_by_head
from crwn.learner.ranking import TaskScore
from crwn.learner.sketch_index import SketchIndex
from crwn.learner.task_inference import (
    FEW,
    MANY,
    Method,
    check_question,
    density_evidence,
    infer_by_density,
    infer_task,
    rank_tasks,
)
from crwn.models import network_of
from crwn.models.functional import mixed_logits
from crwn.training.evaluation import predict_logits
from crwn.training.precision import Precision, computing_in


class Labels(tuple[Hashable, ...]):
    """The classes of a task (or its labels, or the names of its numbers), with the facts of its context."""

    info: ContextInfo

    @classmethod
    def of(cls, facts: Facts) -> Labels:
        labels = cls(facts.classes)
        labels.info = facts.info
        return labels


Classes = dict[str, Labels]
Outputs = tuple[Tensor, str | Sequence[str], Classes]  # logits, the task of all rows or of each, classes of each task
Infer = bool | Literal["rows"]  # whether to infer the task: of all rows together, or of every row on its own
MOST_ROWS = 1024
TRIED = 4  # contexts whose outputs help to choose the task of a single row
CLEAR = 0.999  # a task of this probability by its density needs no more evidence


@dataclass(frozen=True)
class Predictor:
    """One model, the contexts in memory for it, and the lock under which it may be called.

    `functional_call` swaps tensors inside the module for a moment, so there is one prediction at a time. `precision`
    is that of products and activations; the frozen weights of the model are in it already (`convert_frozen`).
    `head_scores` are those of the head over the classes of all tasks, where tasks were shared.
    """

    model: nn.Module
    resident: ResidentStack
    device: torch.device
    busy: ForkSafeLock
    sketches: SketchIndex
    precision: Precision = "float32"
    head_scores: HeadScores = lambda rows, names: None

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The shape of one input of the model."""
        return network_of(self.model).input_shape

    def choose(self, rows: Rows | Encodable, task: str | Sequence[str] | None, *, infer: Infer) -> str | Sequence[str]:
        """The task of all rows, or one task for each row: as given, inferred, or the only one there is.

        Raises:
            TaskError: no task is given and there is not exactly one.
        """
        if infer not in (True, False, "rows"):
            raise ConfigError(f'infer_task is True, False or "rows", got {infer!r}')
        if task is not None and infer:
            raise ConfigError("both a task and infer_task=True are given: give one of them")
        if isinstance(task, str):
            return task
        bank = self.resident.bank
        if task is not None:
            names = [str(name) for name in task]
            if len(names) != len(rows):
                raise DataError(f"{len(rows)} rows but {len(names)} task names: give one name, or one for each row")
            return names
        if infer == "rows":
            return [one.task for one in self.infer_rows(rows, None)]
        if infer:
            return self.infer_task(rows, None)[0].task
        first = bank.names(limit=2)
        if len(first) == 1:
            return first[0]
        held = counted(len(bank), "task") if first else "no tasks yet"
        raise TaskError(f"this learner has {held}: give one with task=, or pass infer_task=True")

    def logits(
        self, rows: Rows | Encodable, task: str | Sequence[str] | None, *, infer: Infer, outputs: int
    ) -> Outputs:
        """Logits of the rows under their tasks, which `choose` determines."""
        chosen = self.choose(rows, task, infer=infer)
        if not isinstance(rows, Rows):
            rows = rows_of(encode_for_tasks(rows, chosen, self.resident, self.shape), shape=self.shape)
        with computing_in(self.precision, self.device.type):
            if isinstance(chosen, str):
                logits, classes = self.one_task(rows, chosen)
            else:
                logits, classes = self.task_per_row(rows, chosen, outputs)
        return logits, chosen, classes

    def infer_task(
        self,
        rows: Rows | Encodable,
        names: Sequence[str] | None,
        *,
        method: Method = "auto",
        keep: int = 24,
        false_alarms: float = FALSE_ALARMS,
    ) -> list[TaskScore]:
        """These tasks, or all of them, ranked by how well they fit the rows as a group; see `Learner.infer_task`."""
        with computing_in(self.precision, self.device.type):
            return self._infer_task(rows, names, method, keep, false_alarms)

    def _infer_task(
        self, rows: Rows | Encodable, names: Sequence[str] | None, method: Method, keep: int, false_alarms: float
    ) -> list[TaskScore]:
        bank = self.resident.bank
        if not isinstance(rows, Rows):
            infos = {one.name: one.info for one in bank.entries() if names is None or one.name in names}
            if infos:

                def rank(x: Array, some: Sequence[str], together: bool) -> list[TaskScore]:
                    chosen = method if together or method != "auto" else "exhaustive" if len(some) <= FEW else "sketch"
                    return self._infer_task(rows_of(x, shape=self.shape), some, chosen, keep, false_alarms)

                # Densities of rows that are encoded in different ways cannot be compared, outputs can.
                return rank_encodable(rows, infos, self.shape, rank)
            rows = rows_of(np.zeros((len(rows), 1)), shape=None)  # there are no tasks, which is refused below
        check_question(rows, method, keep, false_alarms)
        if method == "auto" and (among := self._among(rows, names)):
            settings = {"keep": keep, "false_alarms": false_alarms}
            found = infer_by_density(self.model, self.resident, among, rows, **settings, busy=self.busy)  # type: ignore[arg-type]
            found = self._by_head(rows, among, keep) if found is None else found
            if found is not None:
                return found
        if names is None and method in ("auto", "sketch") and len(bank) > FEW:
            likely = self.sketches.likely(rows, keep)
            return rank_tasks(self.model, self.resident, likely, rows, busy=self.busy)
        names = bank.names() if names is None else names
        return infer_task(self.model, self.resident, names, rows, method=method, keep=keep, busy=self.busy)

    def _among(self, rows: Rows, names: Sequence[str] | None) -> list[str]:
        """The tasks whose densities are compared: those given, or all of them where they are not too many."""
        if names is not None:
            return list(names)
        bank = self.resident.bank
        return bank.names() if len(bank) <= MANY else self.sketches.likely(rows, MANY)

    def _by_head(self, rows: Rows, names: Sequence[str], keep: int) -> list[TaskScore] | None:
        """The tasks ranked by the shared head, with the outputs of the likeliest; None where it does not have all."""
        scores = self.head_scores(rows, names)
        if scores is None:
            return None
        best = scores.sum(dim=0).topk(min(keep, len(names))).indices.tolist()
        by_outputs = rank_tasks(self.model, self.resident, [names[at] for at in best], rows, busy=self.busy)
        return ranked_by_head(names, scores, by_outputs)

    def infer_rows(
        self, rows: Rows | Encodable, names: Sequence[str] | None, *, false_alarms: float = FALSE_ALARMS
    ) -> list[TaskScore]:
        """The likeliest of these tasks, or of all, for every row on its own.

        Raises:
            TaskError: there are no tasks, too many, or some have no density to compare rows with.
        """
        if not isinstance(rows, Rows):
            raise DataError("the tasks of single rows are inferred from numbers: give arrays, or the task of each row")
        names = self.resident.bank.names(limit=MANY + 1) if names is None else list(names)
        check_question(rows, "auto", 1, false_alarms)
        if not 0 < len(names) <= MANY:
            few = "no tasks yet" if not names else f"more than {MANY:,} tasks"
            raise TaskError(f"the task of each row is inferred among 1 to {MANY:,} tasks, there are {few}: give tasks=")
        found = density_evidence(self.resident, names, rows, false_alarms)
        if found is None and (scores := self.head_scores(rows, names)) is not None:
            return ranked_rows_by_head(names, scores)
        if found is None:
            raise TaskError(
                "the task of each row is inferred from densities, and some of these tasks have none (images, or "
                f"learned from fewer than {FEWEST_ROWS} rows or by an earlier version): share the rows of all of them "
                "(crwn share), or infer the task of groups"
            )
        return ranked_rows(found, self._row_entropies(found, rows))

    def _row_entropies(self, found: Evidence, rows: Rows) -> Tensor:
        """Output entropies `[rows, tasks]` of every row under its likeliest tasks, NaN elsewhere."""
        logits = found.logits()
        entropies = torch.full(logits.shape, torch.nan, dtype=torch.float64)
        shares, order = logits.softmax(dim=1).topk(min(TRIED, logits.shape[1]), dim=1)
        open_rows = (shares[:, 0] < CLEAR).nonzero()[:, 0]
        if not len(open_rows):
            return entropies
        some = rows.select(open_rows)
        for rank in range(order.shape[1]):
            at = order[open_rows, rank]
            names = [found.names[one] for one in at.tolist()]
            outputs, classes = self.task_per_row(some, names, network_of(self.model).classes or 0)
            counts = torch.tensor([len(classes[name]) for name in names])
            entropies[open_rows, at] = row_entropies(outputs[:, None].double(), counts)[:, 0].nan_to_num(1.0)
        return entropies

    def one_task(self, rows: Rows, task: str) -> tuple[Tensor, Classes]:
        """Logits `[rows, classes of the task]`."""
        tensors, facts = self.resident.take_with_facts([task])
        classes = Labels.of(facts[task])
        if not len(rows):
            return torch.zeros(0, len(classes)), {task: classes}
        context = {name: value[0] for name, value in tensors.items()}
        ready = standardize_rows(rows, facts[task].info.scaling)
        if not rows.standardized:
            warn_of_scale(ready, task, facts[task].info.scaling)
        with self.busy:
            logits = predict_logits(self.model, context, ready, classes=len(classes), device=self.device)
        return logits, {task: classes}

    def task_per_row(self, rows: Rows, names: Sequence[str], outputs: int) -> tuple[Tensor, Classes]:
        """Logits `[rows, outputs]` of rows that each have a task, `-inf` where the row's task has no class."""
        parts: list[Tensor] = [torch.zeros(0, outputs)]
        classes: Classes = {}
        size = min(MOST_ROWS, self.resident.capacity)
        for at in range(0, len(names), size):
            some = list(names[at : at + size])
            # Always in this order: whoever waits for the model must not keep others from the contexts.
            with self.busy, self.resident.holding(some) as (tensors, facts):
                x = rows.inputs(slice(at, at + size))
                if not rows.standardized:
                    x = standardize_per_task(x, stack_scalings([facts[name].info.scaling for name in some]))
                if self.device.type != "cpu":
                    tensors = {name: value.to(self.device) for name, value in tensors.items()}
                logits = mixed_logits(self.model, tensors, x.to(self.device)).float().cpu()
            counts = torch.tensor([len(facts[name].classes) for name in some])
            parts.append(logits.masked_fill(torch.arange(logits.shape[1]) >= counts[:, None], -torch.inf))
            classes |= {name: Labels.of(fact) for name, fact in facts.items()}
        return torch.cat(parts), classes
