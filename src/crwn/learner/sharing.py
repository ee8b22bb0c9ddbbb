"""One head over the classes of all tasks that share their rows with it: an answer for rows without a task."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from safetensors.numpy import load
from torch import Tensor, nn

from crwn.contexts.forking import ForkSafeLock, Protects
from crwn.contexts.info import to_json
from crwn.data import inputs
from crwn.data.dataset import Rows
from crwn.data.standardize import NO_SCALING, Scaling
from crwn.data.tables import Table
from crwn.errors import ConfigError, ContextError, DataError, TaskError
from crwn.learner.encode import encodable, encode_for, encode_to_learn
from crwn.learner.exact import BYTE_SCALING, ExactLearning
from crwn.learner.exact_args import ExactArgs
from crwn.models import EncodedNetwork
from crwn.training.exact import Statistics
from crwn.training.exact.files import from_bytes, to_bytes
from crwn.training.exact.shared_head import Encode, Member, SharedHead, shared_units, task_scores
from crwn.training.features import encoded_task

BLOCK = 500  # rows whose features are in memory at once
NOTHING = "no task has shared its rows yet: call share(task, x, y), or crwn share MODEL TASK DATA, first"


class Answer(NamedTuple):
    """The likeliest class of a row among those of all tasks, and its probability."""

    task: str
    label: Hashable
    probability: float


@dataclass(frozen=True)
class _Solved:
    """A head as it was stored last: `version` tells it from later ones."""

    version: object
    model: nn.Module
    encode: Encode
    members: tuple[Member, ...]
    weights: Tensor  # [units, classes]
    scaling: Scaling


class Sharing(ExactLearning):
    """The part of a `Learner` that answers for rows without a task, with one head for all tasks."""

    _solved: _Solved | None = None
    _classifying = ForkSafeLock(Protects.MODEL)  # the copy of the model is called by one thread at a time

    def share(self, task: str, x: Any, y: Any = None) -> int:
        """Add rows of a task that is learned to the head over the classes of all tasks; returns its number of classes.

        The head is a ridge regression on frozen features. It keeps one Gram matrix of all rows and a sum of features
        for every class, and nothing of the rows; the order in which tasks come makes no difference. Rows that are
        shared twice count twice. All tasks share rows in one unit: bytes, or numbers that mean the same in each task.

        Raises:
            TaskError: the task is not learned.
            ConfigError: it is no classification.
            DataError: rows by column name, or labels that the task does not have.
        """
        context = self.bank.get(task)
        if context.info.kind != "classification":
            raise ConfigError(f'task "{task}" is a {context.info.kind}: a shared head is for classes')
        if (given := encodable(x)) is not None:
            x, y, _ = encode_to_learn(given, y, shape=self.input_shape, known=context.info)
        x, y = (x, y) if y is not None else inputs.collect(x)
        labels = inputs.plain_labels(y)
        unknown = next((label for label in labels if label not in context.classes), None)
        if unknown is not None:
            raise DataError(f'task "{task}" has no class {unknown!r}: extend it first')
        rows = inputs.rows_of(x, shape=self.input_shape)
        with self._statistics.locked():
            data = self._statistics.shared()
            before = None if data is None else self._checked(data)
            scaling = self._common_scaling(rows)
            if before is not None and before.classes and before.scaling != scaling:
                raise DataError(
                    f"earlier tasks shared rows that are scaled by {before.scaling}, these would be by {scaling}: "
                    "give all of them as bytes, or all as other numbers"
                )
            options: ExactArgs = {"classes": context.classes, "scaling": scaling}
            ready = self._prepared(task, rows.x, labels, {}, None, options)
            model = self._model_copy()
            head = SharedHead(*shared_units(model), model=self.fingerprint, scaling=scaling, sums=before)
            head.add(task, encoded_task(model, ready)[1].rows, context.classes)
            self._statistics.put_shared(to_bytes(head.sums, head=head.weights.numpy()))
        return len(head.members)

    def classify(self, x: Any) -> list[Answer]:
        """The likeliest class of every row among the classes of all tasks that were shared, no task given.

        Rows are in the unit of those that were shared: numbers from 0 to 255 where these were bytes.

        Raises:
            TaskError: no task was shared yet.
        """
        found = self._loaded()
        there = {task: task in self.bank for task, _ in found.members}  # other processes may have dropped some
        if not any(there.values()):
            raise TaskError(NOTHING)
        kept = torch.tensor([there[task] for task, _ in found.members])
        ready = inputs.standardize_rows(
            self._rows_to_classify(x, [task for task in there if there[task]]), found.scaling
        )
        answers: list[Answer] = []
        for logits in self._head_logits(found, ready):
            share, best = logits.masked_fill(~kept, -torch.inf).softmax(dim=1).max(dim=1)
            for at, probability in zip(best.tolist(), share.tolist(), strict=True):
                task, label = found.members[at]
                answers.append(Answer(task, label, probability))
        return answers

    def _head_logits(self, found: _Solved, ready: Rows) -> Iterator[Tensor]:
        """Logits `[rows, classes]` of the head, a block of standardized rows at a time."""
        for batch in ready.batches(BLOCK):
            with torch.no_grad(), self._classifying:
                features = found.model.encode(batch) if isinstance(found.model, EncodedNetwork) else batch
                yield found.encode(features) @ found.weights

    def _head_scores(self, rows: Rows, names: Sequence[str]) -> Tensor | None:
        """Log-probabilities `[rows, tasks]` of these tasks by the head; None where one of them was not shared."""
        try:
            found = self._loaded()
        except TaskError:
            return None
        if not len(rows) or not set(names) <= {task for task, _ in found.members}:
            return None
        ready = inputs.standardize_rows(rows, found.scaling)
        return task_scores(names, found.members, torch.cat(list(self._head_logits(found, ready))))

    @property
    def shared_tasks(self) -> list[str]:
        """Names of the tasks whose classes `classify` answers with."""
        data = self._statistics.shared()
        named = () if data is None else dict.fromkeys(task for task, _ in self._loaded().members)
        return [task for task in named if task in self.bank]

    def _delete(self, task: str) -> None:
        super()._delete(task)
        self.unshare(task)

    def unshare(self, task: str) -> None:
        """Take a task's classes out of the shared head, as `forget` and `learn(replace=True)` do.

        Its rows stay in the Gram matrix as rows of no class: a matrix of its own would take megabytes for every task.
        """
        if self._statistics.shared() is None:
            return
        with self._statistics.locked():
            data = self._statistics.shared()
            if data is None:
                return
            head = SharedHead(*shared_units(self._model_copy()), sums=self._checked(data))
            if task not in head.tasks:
                return
            head.forget(task)
            weights = head.weights.numpy() if head.members else head.sums.products.astype("float32")
            self._statistics.put_shared(to_bytes(head.sums, head=weights))

    def _loaded(self) -> _Solved:
        """The head of all tasks, read again where it has changed."""
        file = self._statistics.shared_file
        data = None
        if file is None:
            version: object = id(data := self._statistics.shared())
        else:
            try:
                facts = file.stat()
                version = (facts.st_mtime_ns, facts.st_size, facts.st_ino)
            except OSError:
                version = None
        if self._solved is None or self._solved.version != version:
            data = self._statistics.shared() if data is None else data
            if data is None or not (sums := self._checked(data)).classes:
                raise TaskError(NOTHING)
            model = self._model_copy()
            encode = shared_units(model)[1]
            members: Any = sums.classes
            self._solved = _Solved(version, model, encode, members, torch.from_numpy(load(data)["head"]), sums.scaling)
        return self._solved

    def _checked(self, data: bytes) -> Statistics:
        sums = from_bytes(data, source="the shared head")
        if sums.model != self.fingerprint:
            raise ContextError(
                f"the shared head is of another model ({sums.model[:12]}..., this one is {self.fingerprint[:12]}...)"
            )
        return sums

    def _rows_to_classify(self, x: Any, tasks: list[str]) -> Rows:
        """Numbers or images as rows; columns by name, where all tasks encode them in the same way."""
        given, shape = encodable(x), self.input_shape
        if isinstance(given, Table):
            infos = [self.bank.get(task).info for task in tasks]
            if len({to_json([info.get("columns"), info.get("encoding")]) for info in infos}) > 1:
                raise DataError("tasks of the shared head encode tables in other ways: predict with a task")
            x = encode_for(given, infos[0], shape)
        elif given is not None:
            x = given.decode(shape if shape is not None and len(shape) == 3 else None)
        return inputs.rows_of(x, shape=shape)

    def _common_scaling(self, rows: Rows) -> Scaling:
        """The same for all tasks, so that a row has one set of features."""
        if rows.standardized:
            return NO_SCALING
        if rows.x.dtype == torch.uint8:
            return self.byte_scaling or BYTE_SCALING
        return self.float_scaling or NO_SCALING
