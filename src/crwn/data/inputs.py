"""Convert the caller's data to rows for a model: arrays, tensors, datasets or loaders, with any hashable labels."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset

from crwn.data.dataset import Rows
from crwn.data.standardize import NO_SCALING, Scaling, Standardize
from crwn.errors import DataError

REPEATED_ROWS = 16


def as_tensor(x: Any, what: str = "inputs") -> Tensor:
    """Convert to a tensor, without a copy where possible: uint8 stays uint8, everything else becomes float32."""
    if isinstance(x, Tensor):
        tensor = x.detach().cpu()
    else:
        try:
            array = np.asarray(x)
        except ValueError:
            raise DataError(f"{what} must be rows of equal length: some are longer than others") from None
        if array.dtype == object or array.dtype.kind not in "biuf":
            raise DataError(f"{what} must be numbers, got {array.dtype} of shape {array.shape}")
        if array.dtype != np.uint8:  # also other byte orders and dtypes that torch does not have
            with np.errstate(over="ignore"):  # infinite values are refused later, with their row
                array = array.astype(np.float32, copy=False)
        tensor = torch.from_numpy(np.ascontiguousarray(array) if array.flags.writeable else array.copy())
    return tensor if tensor.dtype == torch.uint8 else tensor.to(torch.float32)


def shaped(x: Tensor, shape: Sequence[int] | None) -> Tensor:
    """Reshape rows to a model's input shape: `[n, 28, 28]` to `[n, 784]`, and `[n, 32, 32, 3]` to `[n, 3, 32, 32]`."""
    if x.ndim == 0:
        raise DataError("inputs must be rows, got a single number")
    if shape is None or tuple(x.shape[1:]) == tuple(shape):
        return x
    wanted = int(np.prod(shape))
    if x.ndim < 2 or int(np.prod(x.shape[1:])) != wanted:
        raise DataError(
            f"rows have shape {tuple(x.shape[1:])}, this model takes {tuple(shape)} ({wanted} values per row)"
        )
    if len(shape) == 3 and x.ndim == 4:  # images with as many values in another order are different images
        channels, height, width = shape
        if tuple(x.shape[1:]) == (height, width, channels):
            return x.movedim(-1, 1)
        raise DataError(f"images have shape {tuple(x.shape[1:])}, this model takes {tuple(shape)}")
    return x.reshape(len(x), *shape)


def check_finite(x: Tensor) -> None:
    """Raise DataError with the first row that has NaN or infinite values."""
    if x.dtype == torch.uint8:
        return
    for start in range(0, len(x), 4096):
        bad = ~torch.isfinite(x[start : start + 4096]).flatten(1).all(dim=1) if x.ndim > 1 else ~torch.isfinite(x)
        if bool(bad.any()):
            raise DataError(f"row {start + int(bad.nonzero()[0, 0])} has NaN or infinite values: clean the data first")


def check_unit(x: Tensor) -> None:
    """Raise DataError for images of numbers that are not from 0 to 1; bytes are from 0 to 255 by themselves."""
    if x.dtype == torch.uint8 or not len(x):
        return
    low, high = float(x.min()), float(x.max())
    if low < 0 or high > 1:
        raise DataError(
            f"images of numbers go from {low:g} to {high:g}, a backbone takes 0 to 1: divide them by 255, "
            "or give bytes (uint8)"
        )


def collect(data: Any) -> tuple[Tensor, list[Hashable]]:
    """Read all rows and labels of a Dataset or DataLoader."""
    if isinstance(data, Rows):
        raise DataError("labels are missing: pass them as y")
    _check_repeatable(data.dataset if isinstance(data, DataLoader) else data)
    rows: list[Tensor] = []
    labels: list[Hashable] = []
    batched = isinstance(data, DataLoader)
    # Every Dataset has __getitem__, but that of an IterableDataset raises.
    in_order = batched or isinstance(data, IterableDataset) or not hasattr(data, "__getitem__")
    items = data if in_order else (data[i] for i in range(len(data)))
    for item in items:
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise DataError(f"a dataset must yield pairs of row and label, got {type(item).__name__}")
        x, y = item
        x = as_tensor(x)
        rows.append(x if batched else x[None])
        labels.extend(plain_labels(y) if batched else [_plain(y)])
    if not rows:
        raise DataError("the dataset is empty: learning needs at least one row")
    shapes = {tuple(part.shape[1:]) for part in rows}
    if len(shapes) > 1:
        raise DataError(f"rows of a dataset must have one shape, got {' and '.join(map(str, sorted(shapes)[:2]))}")
    return torch.cat(rows), labels


def _check_repeatable(data: Any) -> None:
    """Raise DataError for a dataset whose rows differ each time they are read: they are read once, and would be frozen.

    A random flip leaves half of the rows as they are, so several rows are read twice.
    """
    if isinstance(data, IterableDataset) or not hasattr(data, "__getitem__") or not hasattr(data, "__len__"):
        return
    for at in range(min(REPEATED_ROWS, len(data))):
        first, again = data[at], data[at]
        if not isinstance(first, tuple | list) or len(first) != 2:
            return  # `collect` raises for it
        if not torch.equal(as_tensor(first[0]), as_tensor(again[0])):
            raise DataError(
                f"row {at} of this dataset is another one each time it is read (random augmentation?), and rows are "
                "read only once: leave the augmentation out, or pass crwn.data.dataset.Rows(x, y, augment=...)"
            )


def plain_labels(y: Any) -> list[Hashable]:
    """Convert labels to plain Python values."""
    if isinstance(y, Tensor):
        y = y.detach().cpu().numpy()
    if isinstance(y, np.ndarray):
        if y.ndim != 1:
            raise DataError(f"labels must be one value per row, got shape {y.shape}")
        return [_plain(label) for label in y.tolist()] if y.dtype == object else list(y.tolist())
    if hasattr(y, "tolist") and not isinstance(y, list | tuple):
        y = y.tolist()
    if not isinstance(y, Iterable):
        raise DataError(f"labels must be one value per row, got {str(y)[:60]}")
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
    """The distinct labels: sorted if they can be compared, otherwise in order of first appearance."""
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
    """Labels at these positions, in a NumPy dtype that holds them unchanged."""
    alike = {type(label) for label in classes}
    if len(alike) == 1 and alike <= {int, float, str, bool}:
        return np.asarray(list(classes))[at]
    values = np.empty(len(classes), dtype=object)
    values[:] = list(classes)
    chosen: npt.NDArray[Any] = values[at]
    return chosen


def rows_of(x: Any, *, shape: Sequence[int] | None, scaling: Scaling | None = None) -> Rows:
    """Convert to `Rows` without labels, checked and reshaped; a `Rows` is returned unchanged."""
    if isinstance(x, Rows):
        return x
    if isinstance(x, Dataset | DataLoader):
        x, _ = collect(x)
    tensor = shaped(as_tensor(x), shape)
    check_finite(tensor)
    return Rows(tensor, prepare=Standardize(scaling or NO_SCALING))


def standardize_rows(rows: Rows, scaling: Scaling) -> Rows:
    """Apply a task's scaling after `rows.prepare`; rows that are standardized already are returned unchanged."""
    if scaling == NO_SCALING or rows.standardized:
        return rows
    prepare, standardize = rows.prepare, Standardize(scaling)
    if not (isinstance(prepare, Standardize) and prepare.scaling == NO_SCALING):
        return Rows(rows.x, rows.y, rows.index, lambda batch: standardize(prepare(batch)), None, rows.weight)
    return Rows(rows.x, rows.y, rows.index, standardize, None, rows.weight)
