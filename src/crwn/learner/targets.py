"""The targets of a task as tensors, by its kind: class indices, a 0 or 1 for every label, or standardized numbers."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crwn.contexts import Context, check_label
from crwn.contexts.kinds import Kind, split_labels
from crwn.data import inputs
from crwn.data.standardize import NO_SCALING, Scaling, column_scaling
from crwn.errors import DataError


@dataclass(frozen=True)
class Targets:
    """What the rows of a task are to give.

    Args:
        labels: the classes, the labels that rows can have, or the names of the predicted numbers.
        y: `[rows]` int64 for classification, else `[rows, outputs]` float32.
        scaling: mean and deviation of the numbers of a regression.
    """

    kind: Kind
    labels: tuple[Hashable, ...]
    y: Tensor
    scaling: Scaling = NO_SCALING


@dataclass(frozen=True)
class _Known:
    labels: tuple[Hashable, ...]
    scaling: Scaling


def convert(targets: Targets, task: str, y: Any) -> Tensor:
    """Other targets of the same task, with its labels and scaling."""
    return _make(task, y, targets.kind, _Known(targets.labels, targets.scaling)).y


def make_targets(
    task: str, y: Any, kind: Kind, *, known: Context | None = None, classes: Sequence[Hashable] | None = None
) -> Targets:
    """Convert the targets of a task.

    Args:
        y: one label per row; for multilabel a `[rows, labels]` array of 0 and 1 or a collection of labels for every
            row; for regression numbers `[rows]` or `[rows, numbers]`.
        known: the context of a task that is resumed: its labels and scaling are taken.
        classes: all classes of a new task, where its rows may not have them all.

    Raises:
        DataError: the targets are not of this kind, or no model can be learned from them (a single class).
    """
    if known is None and classes is not None:
        labels = inputs.classes_of(inputs.plain_labels(classes))
        return _make(task, y, kind, _Known(tuple(check_label(label, task) for label in labels), NO_SCALING))
    return _make(task, y, kind, None if known is None else _Known(known.classes, known.info.target_scaling))


def _make(task: str, y: Any, kind: Kind, known: _Known | None) -> Targets:
    if kind == "regression":
        return _numbers(task, y, known)
    if kind == "multilabel":
        return _label_sets(task, y, known)
    labels = inputs.plain_labels(y)
    # Labels that a context cannot store are refused before training.
    classes = known.labels if known else tuple(check_label(label, task) for label in inputs.classes_of(labels))
    if known is None and len(classes) == 1:
        raise DataError(
            f'all {len(labels):,} rows of task "{task}" have the label {classes[0]!r}: '
            "a task needs at least two classes; add rows of another one"
        )
    return Targets(kind, classes, inputs.indices(labels, classes, task))


def _numbers(task: str, y: Any, known: _Known | None) -> Targets:
    try:
        array = np.asarray(y.detach().cpu() if isinstance(y, Tensor) else y)
        array = array.astype(np.float64) if array.dtype.kind in "biufOU" else array
    except (TypeError, ValueError) as error:
        raise DataError(f'task "{task}" is a regression: its targets must be numbers, one per row ({error})') from None
    if array.dtype.kind != "f" or array.ndim not in (1, 2):
        raise DataError(
            f'task "{task}" is a regression: its targets must be numbers, got {array.dtype} of shape {array.shape}'
        )
    bad = ~np.isfinite(array.reshape(len(array), -1)).all(axis=1)
    if bad.any():
        raise DataError(
            f'the target of row {int(bad.argmax())} of task "{task}" is NaN or infinite: clean the data first'
        )
    values = torch.from_numpy(array.reshape(len(array), -1))
    if known is not None:
        names, scaling = known.labels, known.scaling
        if len(names) != values.shape[1]:
            raise DataError(f'task "{task}" predicts {len(names)} numbers per row, got {values.shape[1]}')
    else:
        names = ("value",) if values.shape[1] == 1 else tuple(f"value {i}" for i in range(values.shape[1]))
        scaling = column_scaling(values) if len(values) else NO_SCALING
    mean, std = (torch.tensor(part, dtype=torch.float64) for part in scaling)
    return Targets("regression", names, ((values - mean) / std).float(), scaling)


def _label_sets(task: str, y: Any, known: _Known | None) -> Targets:
    matrix = y.detach().cpu().numpy() if isinstance(y, Tensor) else y
    if isinstance(matrix, np.ndarray) and matrix.ndim == 2 and matrix.dtype.kind in "biuf":
        if not np.isin(matrix, (0, 1)).all():
            raise DataError(f'multilabel targets of task "{task}" as an array must be 0 and 1, [rows, labels]')
        labels: tuple[Hashable, ...] = known.labels if known else tuple(range(matrix.shape[1]))
        if len(labels) != matrix.shape[1]:
            raise DataError(f'task "{task}" has {len(labels)} labels, the array {matrix.shape[1]} columns')
        found = torch.from_numpy(matrix.astype(np.float32))
    else:
        if isinstance(y, np.ndarray) and y.ndim == 1 and y.dtype.kind != "O":
            y = [split_labels(text) for text in y]  # a column of a table
        sets = [_collection(entry, at, task) for at, entry in enumerate(y)]
        every = [label for entry in sets for label in entry]
        labels = known.labels if known else tuple(check_label(label, task) for label in inputs.classes_of(every))
        found = torch.zeros(len(sets), len(labels))
        for at, entry in enumerate(sets):
            found[at, inputs.indices(entry, labels, task)] = 1.0
    if not labels:
        raise DataError(f'no row of task "{task}" has a label: a multilabel task needs at least one')
    constant = [
        label for label, column in zip(labels, found.T, strict=True) if len(found) and column.min() == column.max()
    ]
    if known is None and len(constant) == len(labels):
        raise DataError(f'every label of task "{task}" is the same in all rows: there is nothing to learn')
    return Targets("multilabel", labels, found)


def _collection(entry: Any, at: int, task: str) -> Sequence[Hashable]:
    if isinstance(entry, str) or not isinstance(entry, list | tuple | set | frozenset | np.ndarray):
        raise DataError(
            f'row {at} of the multilabel task "{task}" has {str(entry)[:40]!r}: give a list of labels for every row, '
            "or an array of 0 and 1"
        )
    return inputs.plain_labels(list(entry))
