"""Outputs of a model as answers, by the kind of each row's task: a label, several labels, or numbers."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from crwn.contexts import ContextInfo
from crwn.contexts.kinds import split_labels
from crwn.data.inputs import label_array, plain_labels
from crwn.errors import ConfigError, DataError
from crwn.learner.predict import Labels, Outputs

Probabilities = npt.NDArray[np.float32]


def predicted(outputs: Outputs) -> npt.NDArray[Any]:
    """The answer for every row: the label of the largest logit, a tuple of labels, or numbers."""
    logits, tasks, classes = outputs
    if isinstance(tasks, str) and classes[tasks].info.kind == "classification":
        return label_array(classes[tasks], logits.argmax(dim=1).numpy())
    if isinstance(tasks, str) and classes[tasks].info.kind == "regression":
        numbers: npt.NDArray[Any] = in_units(logits, classes[tasks].info).numpy()
        return numbers[:, 0] if numbers.shape[1] == 1 else numbers
    names = [tasks] * len(logits) if isinstance(tasks, str) else tasks
    answers = [answer(row, classes[name]) for name, row in zip(names, logits, strict=True)]
    if not any(isinstance(one, tuple) for one in answers):
        return label_array(answers, np.arange(len(answers)))
    found = np.empty(len(answers), dtype=object)
    found[:] = answers
    return found


def answer(logits: Tensor, labels: Labels) -> Any:
    """The answer for one row, from its logits; outputs beyond those of its task are left out."""
    logits = logits[: len(labels)]
    if labels.info.kind == "multilabel":
        return tuple(label for label, logit in zip(labels, logits.tolist(), strict=True) if logit > 0)
    if labels.info.kind == "regression":
        numbers = in_units(logits[None], labels.info)[0].tolist()
        return numbers[0] if len(numbers) == 1 else tuple(numbers)
    return labels[int(logits.argmax())]


def in_units(outputs: Tensor, info: ContextInfo) -> Tensor:
    """Outputs `[rows, numbers]` of a regression in the units of its targets."""
    mean, std = (torch.tensor(part, dtype=torch.float64) for part in info.target_scaling)
    return outputs.double() * std + mean


def row_probabilities(logits: Tensor, task: str, info: ContextInfo) -> Tensor:
    """Probabilities from logits `[..., classes]`: they add up to one, or each label has its own (multilabel).

    Raises:
        ConfigError: the task is a regression.
    """
    if info.kind == "regression":
        raise ConfigError(f'task "{task}" is a regression: it predicts numbers and has no probabilities')
    return logits.sigmoid() if info.kind == "multilabel" else logits.softmax(dim=-1)


def probabilities(outputs: Outputs) -> Probabilities | list[Probabilities]:
    """Probabilities `[rows, classes]`; for mixed tasks a list, each row over the classes of its task."""
    logits, tasks, classes = outputs
    if isinstance(tasks, str):
        return row_probabilities(logits, tasks, classes[tasks].info).numpy()
    return [
        row_probabilities(row[: len(classes[name])], name, classes[name].info).numpy()
        for name, row in zip(tasks, logits, strict=True)
    ]


def score(outputs: Outputs, y: Any) -> float:
    """The share of answers that are right, or R2 where the task is a regression."""
    _, tasks, classes = outputs
    found = predicted(outputs)
    kinds = {labels.info.kind for labels in classes.values()}
    if kinds == {"classification"}:
        return share_right(found, y)
    if not isinstance(tasks, str):
        raise ConfigError(f"rows of {' and '.join(sorted(kinds))} tasks are scored one task at a time: give one task")
    if kinds == {"regression"}:
        return r2(found, np.asarray(y, dtype=np.float64))
    return _share([set(one) for one in found], [set(one) for one in _label_tuples(y, classes[tasks])])


def share_right(found: npt.NDArray[Any], y: Any) -> float:
    """The share of predictions that equal their label."""
    return _share(found.tolist(), plain_labels(y))


def _share(found: Sequence[Any], labels: Sequence[Any]) -> float:
    if len(labels) != len(found):
        raise DataError(f"{len(found)} rows but {len(labels)} labels: there must be one for each row")
    if not labels:
        raise DataError("there are no rows to score")
    return sum(bool(a == b) for a, b in zip(found, labels, strict=True)) / len(labels)


def _label_tuples(y: Any, classes: Sequence[Hashable]) -> Sequence[Any]:
    array = y.detach().cpu().numpy() if isinstance(y, Tensor) else y
    if isinstance(array, np.ndarray) and array.ndim == 2 and array.dtype.kind in "biuf":
        return [tuple(label for label, has in zip(classes, row, strict=True) if has) for row in array]
    if isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype.kind != "O":
        return [split_labels(text) for text in array]  # a column of a table
    return list(y)


def r2(found: npt.NDArray[Any], y: npt.NDArray[np.float64]) -> float:
    """The share of the variance of `y` that the predictions explain, the mean over its columns."""
    if found.shape != y.shape:
        raise DataError(f"{found.shape} predictions but {y.shape} targets: there must be one for each row")
    if not len(y):
        raise DataError("there are no rows to score")
    spread = np.maximum(((y - y.mean(axis=0)) ** 2).sum(axis=0), 1e-12)
    return float(np.mean(1 - ((y - found) ** 2).sum(axis=0) / spread))
