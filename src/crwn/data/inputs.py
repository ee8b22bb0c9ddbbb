"""What people hand over, as rows a model takes: arrays, tensors, datasets, loaders; labels of any hashable kind."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset

from crwn.errors import DataError
from crwn.rows import Rows
from crwn.scaling import NO_SCALING, Scaling, Standardise


def as_tensor(x: Any, what: str = "inputs") -> Tensor:
    """Numbers as a tensor without a copy where possible: uint8 stays, everything else becomes float32."""
    if isinstance(x, Tensor):
        tensor = x.detach().cpu()
    else:
        try:
            array = np.asarray(x)
        except ValueError:
            raise DataError(f"{what} must be rows of equally many numbers: some are longer than others") from None
        if array.dtype == object or array.dtype.kind not in "biuf":
            raise DataError(f"{what} must be numbers, got {array.dtype} of shape {array.shape}")
        if array.dtype != np.uint8:  # also other byte orders and kinds that torch does not have
            with np.errstate(over="ignore"):  # infinite values are refused later, with their row
                array = array.astype(np.float32, copy=False)
        tensor = torch.from_numpy(np.ascontiguousarray(array) if array.flags.writeable else array.copy())
    return tensor if tensor.dtype == torch.uint8 else tensor.to(torch.float32)


def shaped(x: Tensor, shape: Sequence[int] | None) -> Tensor:
    """Rows in the shape a model takes: `[n, 28, 28]` becomes `[n, 784]`, and `[n, 32, 32, 3]` `[n, 3, 32, 32]`."""
    if x.ndim == 0:
        raise DataError("inputs must be rows, got a single number")
    if shape is None or tuple(x.shape[1:]) == tuple(shape):
        return x
    wanted = int(np.prod(shape))
    if x.ndim < 2 or int(np.prod(x.shape[1:])) != wanted:
        raise DataError(
            f"rows have shape {tuple(x.shape[1:])}, this model takes {tuple(shape)} ({wanted} numbers a row)"
        )
    if len(shape) == 3 and x.ndim == 4:  # images: the same numbers in another order are other pictures
        channels, height, width = shape
        if tuple(x.shape[1:]) == (height, width, channels):
            return x.movedim(-1, 1)
        raise DataError(f"images have shape {tuple(x.shape[1:])}, this model takes {tuple(shape)}")
    return x.reshape(len(x), *shape)


def check_finite(x: Tensor) -> None:
    """Refuse NaN and infinite values, saying where the first one is."""
    if x.dtype == torch.uint8:
        return
    for start in range(0, len(x), 4096):
        bad = ~torch.isfinite(x[start : start + 4096]).flatten(1).all(dim=1) if x.ndim > 1 else ~torch.isfinite(x)
        if bool(bad.any()):
            raise DataError(f"row {start + int(bad.nonzero()[0, 0])} has NaN or infinite values: clean the data first")


def collect(data: Any) -> tuple[Tensor, list[Hashable]]:
    """All rows and labels of a Dataset or DataLoader."""
    rows: list[Tensor] = []
    labels: list[Hashable] = []
    batched = isinstance(data, DataLoader)
    # Every Dataset has __getitem__, but that of an iterable one only raises.
    in_order = batched or isinstance(data, IterableDataset) or not hasattr(data, "__getitem__")
    items = data if in_order else (data[i] for i in range(len(data)))
    for item in items:
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise DataError(f"a data set must give pairs of row and label, got {type(item).__name__}")
        x, y = item
        x = as_tensor(x)
        rows.append(x if batched else x[None])
        labels.extend(plain_labels(y) if batched else [_plain(y)])
    if not rows:
        raise DataError("the data set is empty: learning needs at least one row")
    shapes = {tuple(part.shape[1:]) for part in rows}
    if len(shapes) > 1:
        raise DataError(f"rows of a data set must have one shape, got {' and '.join(map(str, sorted(shapes)[:2]))}")
    return torch.cat(rows), labels


def plain_labels(y: Any) -> list[Hashable]:
    """Labels as plain Python values."""
    if isinstance(y, Tensor):
        y = y.detach().cpu().numpy()
    if isinstance(y, np.ndarray):
        if y.ndim != 1:
            raise DataError(f"labels must be one value a row, got shape {y.shape}")
        return [_plain(label) for label in y.tolist()] if y.dtype == object else list(y.tolist())
    if hasattr(y, "tolist") and not isinstance(y, list | tuple):
        y = y.tolist()
    if not isinstance(y, Iterable):
        raise DataError(f"labels must be one value a row, got {str(y)[:60]}")
    return [_plain(label) for label in y]


def _plain(label: Any) -> Hashable:
    if isinstance(label, np.generic) or (isinstance(label, Tensor) and label.ndim == 0):
        label = label.item()
    try:
        hash(label)
    except TypeError:
        raise DataError(f"labels must be hashable, got {type(label).__name__}: {str(label)[:60]}") from None
    found: Hashable = label
    return found


def classes_of(labels: Sequence[Hashable]) -> tuple[Hashable, ...]:
    """The different labels: sorted where they can be, otherwise in order of first appearance."""
    if any(isinstance(label, float) and label != label for label in labels):
        raise DataError("labels contain NaN: give every row a label")
    different = list(dict.fromkeys(labels))
    try:
        return tuple(sorted(different))  # type: ignore[type-var]
    except TypeError:
        return tuple(different)


def indices(labels: Sequence[Hashable], classes: Sequence[Hashable], task: str) -> Tensor:
    """Positions of the labels among the task's classes."""
    at = {label: i for i, label in enumerate(classes)}
    try:
        return torch.tensor([at[label] for label in labels], dtype=torch.int64)
    except KeyError as error:
        known = ", ".join(repr(label) for label in classes[:12]) + (", ..." if len(classes) > 12 else "")
        raise DataError(f'label {error.args[0]!r} is not a class of task "{task}": it has {known}') from None


def label_array(classes: Sequence[Hashable], at: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """Labels at these positions, in the narrowest NumPy kind that holds them unchanged."""
    alike = {type(label) for label in classes}
    if len(alike) == 1 and alike <= {int, float, str, bool}:
        return np.asarray(list(classes))[at]
    values = np.empty(len(classes), dtype=object)
    values[:] = list(classes)
    chosen: npt.NDArray[Any] = values[at]
    return chosen


def rows_of(x: Any, *, shape: Sequence[int] | None, scaling: Scaling | None = None) -> Rows:
    """Rows without labels, checked and shaped; a `Rows` passes as it is."""
    if isinstance(x, Rows):
        return x
    if isinstance(x, Dataset | DataLoader):
        x, _ = collect(x)
    tensor = shaped(as_tensor(x), shape)
    check_finite(tensor)
    return Rows(tensor, prepare=Standardise(scaling or NO_SCALING))


def scaled(rows: Rows, scaling: Scaling) -> Rows:
    """Rows as a task scales them, on top of what prepares them (nothing, for rows handed over as arrays)."""
    if scaling == NO_SCALING:
        return rows
    prepare, standardise = rows.prepare, Standardise(scaling)
    if not (isinstance(prepare, Standardise) and prepare.scaling == NO_SCALING):
        return Rows(rows.x, rows.y, rows.index, lambda batch: standardise(prepare(batch)), None, rows.weight)
    return Rows(rows.x, rows.y, rows.index, standardise, None, rows.weight)
