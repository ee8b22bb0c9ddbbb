"""Data made ready for training: rows checked and standardized, targets converted, validation rows held out."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypedDict

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from crwn.contexts import Context, ContextInfo, check_name
from crwn.contexts.kinds import Kind, check_kind
from crwn.data import inputs
from crwn.data.dataset import Rows
from crwn.data.standardize import (
    NO_SCALING,
    Scaling,
    Standardize,
    as_large_as_full,
    check_scaling,
    measure_scaling,
)
from crwn.errors import ConfigError, DataError
from crwn.layers.weights import named_generator
from crwn.learner.encode import encodable, encode_to_learn, encode_validation, encoding_of
from crwn.learner.targets import Targets, convert, make_targets
from crwn.training.task import PreparedTask


class DataArgs(TypedDict, total=False):
    """Options of `prepare_task` that callers pass through, as `Learner.learn` describes them."""

    sample_weight: Any
    class_weight: str | Mapping[Hashable, float] | None
    validation: Any
    info: Mapping[str, Any] | None
    kind: Kind | None
    refit: bool


def prepare_task(
    task: str,
    x: Any,
    y: Any,
    *,
    shape: Sequence[int] | None,
    outputs: int,
    sample_weight: Any = None,
    class_weight: str | Mapping[Hashable, float] | None = None,
    validation: Any = None,
    seed: int = 0,
    known: Context | None = None,
    info: Mapping[str, Any] | None = None,
    byte_scaling: Scaling | None = None,
    float_scaling: Scaling | None = None,
    kind: Kind | None = None,
    refit: bool = False,
    classes: Sequence[Hashable] | None = None,
    scaling: Scaling | None = None,
) -> PreparedTask:
    """Check one task's data and make it ready to be trained.

    Args:
        x, y: rows and targets, as `Learner.learn` takes them.
        shape: of one model input; None where the model takes any.
        outputs: number of outputs of the model, the most classes a task can have.
        class_weight: "balanced" gives all classes the same weight, however many rows they have.
        validation: a share of the rows, or data; see `Learner.learn`.
        known: the context of a task that is resumed: its classes, scaling and the user's facts are taken from it.
        info: the user's facts for the context; with `columns` the rows are a table.
        byte_scaling: the scaling of uint8 rows; None to measure it.
        float_scaling: the scaling of other rows, which are from 0 to 1 then; None to measure it.
        kind: of the task; classification by default, or that of the context that is resumed.
        refit: learn from all rows in the end; the share held out only measures what learning reaches.
        classes: all classes of a new task; those of its rows by default.
        scaling: of a new task; by default measured, or that of bytes.
    """
    check_name(task)
    chosen = _kind(task, kind, known)
    if (given := encodable(x)) is not None:
        x, y, encoding = encode_to_learn(given, y, shape=shape, known=known.info if known else None, kind=chosen)
        info = {**encoding, **(info or {})}
        validation = encode_validation(validation, encoding, shape, kind=chosen)
    rows, labels = _rows_and_labels(x, y, chosen)
    targets = make_targets(task, labels, chosen, known=known, classes=classes)
    if len(targets.labels) > outputs:
        what = {"classification": "classes", "multilabel": "labels", "regression": "numbers per row"}[chosen]
        raise DataError(
            f'task "{task}" has {len(targets.labels)} {what}, this model has {outputs} outputs: make a wider one'
        )
    facts = ContextInfo.from_user(info, known.info if known else None)
    if isinstance(rows, Rows):
        scaling = NO_SCALING  # rows prepare themselves
        if sample_weight is not None:
            raise ConfigError("sample_weight is not used with Rows: pass the weights as Rows(weight=...)")
        ready = rows.labelled(targets.y)
    else:
        tensor = inputs.shaped(rows, shape)
        inputs.check_finite(tensor)
        if len(tensor) != len(targets.y):
            raise DataError(f"{len(tensor)} rows but {len(targets.y)} labels: there must be one for each row")
        if not len(tensor):
            raise DataError(f'task "{task}" has no rows: learning needs at least one')
        usual = byte_scaling if tensor.dtype == torch.uint8 else float_scaling
        if float_scaling is not None:
            inputs.check_unit(tensor)
        table = True if facts.columns is not None and tensor.ndim == 2 else None
        if known or scaling is None:
            scaling = known.info.scaling if known else usual or measure_scaling(tensor, table=table)
            if table and not known and (named := encoding_of(facts)) is not None:
                scaling = as_large_as_full(scaling, named.width)
        check_scaling(scaling, task)
        weight = None if sample_weight is None else _weights(sample_weight, len(tensor))
        ready = Rows(tensor, targets.y, prepare=Standardize(scaling), weight=weight)
    ready = _balanced(ready, class_weight, chosen)
    everything = ready
    ready, held = _hold_out(ready, validation, task, targets, shape, scaling, seed)
    again = everything if refit and isinstance(validation, int | float) else None
    return PreparedTask(task, ready, targets.labels, held, scaling, facts, chosen, targets.scaling, again)


def _kind(task: str, kind: Kind | None, known: Context | None) -> Kind:
    if kind is None:
        return "classification" if known is None else known.info.kind
    if known is not None and known.info.kind != check_kind(kind):
        raise ConfigError(
            f'task "{task}" was learned as {known.info.kind}, not {kind}: leave the kind out to resume it'
        )
    return check_kind(kind)


def _balanced(rows: Rows, class_weight: str | Mapping[Hashable, float] | None, kind: Kind) -> Rows:
    """The rows with weights under which every class counts the same, where that is asked for."""
    if class_weight is None:
        return rows
    if class_weight != "balanced":
        raise ConfigError(f'unknown class_weight "{str(class_weight)[:60]}": "balanced", or leave it out')
    if kind != "classification":
        raise ConfigError(f"class_weight is for classification: a {kind} task takes sample_weight")
    y = rows.labels(slice(None))
    own = torch.ones(len(y)) if rows.weight is None else rows.weight
    totals = torch.zeros(int(y.max()) + 1).index_add_(0, y, own).clamp_min(1e-12)
    return replace(rows, weight=own * own.sum() / (len(totals) * totals[y]))


def rows_and_labels(data: Any, what: str) -> tuple[Any, Any]:
    """The two parts of `(x, y)`; data that holds both (a Dataset, a DataLoader, Rows) with None."""
    if not isinstance(data, tuple | list):
        return data, None
    if len(data) != 2:
        raise DataError(f"{what} must be (x, y), got {len(data)} parts")
    return data[0], data[1]


def _rows_and_labels(x: Any, y: Any, kind: Kind) -> tuple[Rows | Tensor, Any]:
    if isinstance(x, Rows):
        return x, x.labels(slice(None)) if y is None else y
    if y is None:
        if not isinstance(x, Dataset | DataLoader) and not hasattr(x, "__iter__"):
            raise DataError("labels are missing: pass them as y, or a Dataset or DataLoader of pairs as x")
        if not isinstance(x, Dataset | DataLoader):
            raise DataError("labels are missing: pass them as y")
        if kind == "multilabel":
            raise DataError("a dataset of pairs holds one label per row: pass rows as x and the label sets as y")
        return inputs.collect(x)
    return inputs.as_tensor(x), y


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
    targets: Targets,
    shape: Sequence[int] | None,
    scaling: Scaling,
    seed: int,
) -> tuple[Rows, Rows | None]:
    if validation is None:
        return rows, None
    if isinstance(validation, tuple | list | Rows | Dataset | DataLoader):
        return rows, _given(validation, task, targets, shape, scaling)
    if isinstance(validation, bool) or not isinstance(validation, int | float) or not 0 < validation < 1:
        what = validation if isinstance(validation, int | float | str) else type(validation).__name__
        raise ConfigError(f"validation must be a share between 0 and 1, or data like (x, y), got {what!r}")
    order = torch.from_numpy(named_generator("validation", seed, task).permutation(len(rows)))
    count = round(len(rows) * validation)
    if not 0 < count < len(rows):
        raise DataError(f"a share of {validation} of {len(rows)} rows leaves nothing to learn from or to check with")
    if targets.kind == "classification":
        order = _classes_spread(order, targets.y[order], count)
    return rows.select(order[count:]), rows.select(order[:count]).without_augmentation()


def _classes_spread(order: Tensor, y: Tensor, count: int) -> Tensor:
    """The order with its first `count` rows taken evenly from all classes: a rare class is in both parts then.

    A row that is the only one of its class stays behind them, to be learned.
    """
    common = torch.bincount(y)[y] > 1
    pool, alone = order[common], order[~common]
    if len(pool) <= count:
        return order
    by_class = pool[torch.argsort(y[common], stable=True)]
    picked = ((torch.arange(count) + 0.5) * len(by_class) / count).long()
    left = torch.ones(len(by_class), dtype=torch.bool)
    left[picked] = False
    return torch.cat([by_class[picked], by_class[left], alone])


def _given(validation: Any, task: str, targets: Targets, shape: Sequence[int] | None, scaling: Scaling) -> Rows:
    """Separate validation data as rows, with the scaling and the labels of the task."""
    found, labels = _rows_and_labels(*rows_and_labels(validation, "validation data"), targets.kind)
    rows = inputs.rows_of(found, shape=shape, scaling=scaling)
    if not len(rows):
        raise DataError(f'the validation data of task "{task}" has no rows')
    return rows.labelled(convert(targets, task, labels)).without_augmentation()
