"""Data made ready for training: rows checked and standardized, classes found, validation rows held out."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypedDict

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from crwn.contexts import Context, ContextInfo, check_name, plain_label
from crwn.data import inputs
from crwn.data.dataset import Rows
from crwn.data.standardize import NO_SCALING, Scaling, Standardize, measure_scaling
from crwn.errors import ConfigError, DataError
from crwn.layers.weights import named_generator
from crwn.learner.encode import encodable, encode_to_learn, encode_validation
from crwn.training.task import PreparedTask


class DataArgs(TypedDict, total=False):
    """Options of `prepare_task` that callers pass through, as `Learner.learn` describes them."""

    sample_weight: Any
    validation: Any
    info: Mapping[str, Any] | None


def prepare_task(
    task: str,
    x: Any,
    y: Any,
    *,
    shape: Sequence[int] | None,
    outputs: int,
    sample_weight: Any = None,
    validation: Any = None,
    seed: int = 0,
    known: Context | None = None,
    info: Mapping[str, Any] | None = None,
    byte_scaling: Scaling | None = None,
) -> PreparedTask:
    """Check one task's data and make it ready to be trained.

    Args:
        x, y: rows and labels, as `Learner.learn` takes them.
        shape: of one model input; None where the model takes any.
        outputs: number of outputs of the model, the most classes a task can have.
        validation: a share of the rows, or data; see `Learner.learn`.
        known: the context of a task that is resumed: its classes, scaling and the user's facts are taken from it.
        info: the user's facts for the context.
        byte_scaling: the scaling of uint8 rows; None to measure it.
    """
    check_name(task)
    if (given := encodable(x)) is not None:
        x, y, facts = encode_to_learn(given, y, shape=shape, known=known.info if known else None)
        info = {**facts, **(info or {})}
        validation = encode_validation(validation, facts, shape)
    rows, labels = _rows_and_labels(x, y)
    # Labels that a context cannot store are refused before training.
    classes = known.classes if known else tuple(plain_label(label, task) for label in inputs.classes_of(labels))
    if len(classes) > outputs:
        raise DataError(f'task "{task}" has {len(classes)} classes, this model has {outputs} outputs: make a wider one')
    if isinstance(rows, Rows):
        scaling = NO_SCALING
        if sample_weight is not None:
            raise ConfigError("sample_weight is not used with Rows: pass the weights as Rows(weight=...)")
        ready = rows.labelled(inputs.indices(labels, classes, task))
    else:
        tensor = inputs.shaped(rows, shape)
        inputs.check_finite(tensor)
        if len(tensor) != len(labels):
            raise DataError(f"{len(tensor)} rows but {len(labels)} labels: there must be one for each row")
        if not len(tensor):
            raise DataError(f'task "{task}" has no rows: learning needs at least one')
        usual = byte_scaling if tensor.dtype == torch.uint8 else None
        scaling = known.info.scaling if known else usual or measure_scaling(tensor)
        weight = None if sample_weight is None else _weights(sample_weight, len(tensor))
        prepare = Standardize(scaling)
        ready = Rows(tensor, inputs.indices(labels, classes, task), prepare=prepare, weight=weight)
    ready, held = _hold_out(ready, validation, task, classes, shape, scaling, seed)
    return PreparedTask(task, ready, classes, held, scaling, ContextInfo.from_user(info, known.info if known else None))


def rows_and_labels(data: Any, what: str) -> tuple[Any, Any]:
    """The two parts of `(x, y)`; data that holds both (a Dataset, a DataLoader, Rows) with None."""
    if not isinstance(data, tuple | list):
        return data, None
    if len(data) != 2:
        raise DataError(f"{what} must be (x, y), got {len(data)} parts")
    return data[0], data[1]


def _rows_and_labels(x: Any, y: Any) -> tuple[Rows | Tensor, list[Hashable]]:
    if isinstance(x, Rows):
        labels = x.labels(slice(None)) if y is None else y
        return x, inputs.plain_labels(labels)
    if y is None:
        if not isinstance(x, Dataset | DataLoader) and not hasattr(x, "__iter__"):
            raise DataError("labels are missing: pass them as y, or a Dataset or DataLoader of pairs as x")
        if not isinstance(x, Dataset | DataLoader):
            raise DataError("labels are missing: pass them as y")
        return inputs.collect(x)
    return inputs.as_tensor(x), inputs.plain_labels(y)


def _weights(sample_weight: Any, count: int) -> Tensor:
    weight = inputs.as_tensor(sample_weight, "sample weights").float()
    if weight.shape != (count,):
        raise DataError(f"sample weights have shape {tuple(weight.shape)}, expected ({count},): one for each row")
    if not bool(torch.isfinite(weight).all()) or bool((weight < 0).any()) or float(weight.sum()) == 0:
        raise DataError("sample weights must be finite, not negative, and not all zero")
    return weight


def _hold_out(
    rows: Rows,
    validation: Any,
    task: str,
    classes: tuple[Hashable, ...],
    shape: Sequence[int] | None,
    scaling: Scaling,
    seed: int,
) -> tuple[Rows, Rows | None]:
    if validation is None:
        return rows, None
    if isinstance(validation, tuple | list | Rows | Dataset | DataLoader):
        return rows, _given(validation, task, classes, shape, scaling)
    if isinstance(validation, bool) or not isinstance(validation, int | float) or not 0 < validation < 1:
        what = validation if isinstance(validation, int | float | str) else type(validation).__name__
        raise ConfigError(f"validation must be a share between 0 and 1, or data like (x, y), got {what!r}")
    order = torch.from_numpy(named_generator("validation", seed, task).permutation(len(rows)))
    count = round(len(rows) * validation)
    if not 0 < count < len(rows):
        raise DataError(f"a share of {validation} of {len(rows)} rows leaves nothing to learn from or to check with")
    return rows.select(order[count:]), rows.select(order[:count]).without_augmentation()


def _given(
    validation: Any,
    task: str,
    classes: tuple[Hashable, ...],
    shape: Sequence[int] | None,
    scaling: Scaling,
) -> Rows:
    """Separate validation data as rows, with the scaling of the task."""
    found, labels = _rows_and_labels(*rows_and_labels(validation, "validation data"))
    rows = inputs.rows_of(found, shape=shape, scaling=scaling)
    if not len(rows):
        raise DataError(f'the validation data of task "{task}" has no rows')
    return rows.labelled(inputs.indices(labels, classes, task)).without_augmentation()
