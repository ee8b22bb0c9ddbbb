"""Datasets from the user's files: arrays, CSV or class folders of images, converted to the form of the cache."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from crwn.data.arrays import LabelledArrays, read_arrays
from crwn.data.files import LABEL, kind_of, read_any_table
from crwn.data.folders import read_class_folders
from crwn.data.image_set import Array, Arrays, ImageSet, hold_out, index_labels, statistics
from crwn.data.progress import Progress, silent
from crwn.data.tables import TableEncoding, labels_of, learn_encoding
from crwn.errors import DataError


def read_custom(path: Path, progress: Progress, *, test: Path | None = None) -> Arrays:
    """Read a dataset from arrays, CSV or class folders.

    Test rows come from `test`, from the test split in `path`, or are a fifth of every class, held out.
    """
    given, encoding = _read(path, progress)
    x, x_test, labels_test = given.x, given.x_test, given.y_test
    if test is not None:
        later, _ = _read(test, progress, encoding)
        if later.x.shape[1:] != x.shape[1:]:
            raise DataError(f"rows of {path} are {x.shape[1:]}, those of {test} {later.x.shape[1:]}: make them equal")
        x_test, labels_test = later.x, later.y
    assert given.y is not None
    y, classes = index_labels(given.y)
    if len(classes) < 2:
        raise DataError(f"{path} has only the class {classes[0]!r}: there must be at least 2")
    if x_test is None or labels_test is None:
        # A constant key: the same file gives the same split under any name and path.
        kept, held = hold_out(y, key="own")
        if len(held) == 0:
            raise DataError(f"{path} has {len(y)} rows in {len(classes)} classes: too few to hold any out for tests")
        x, y, x_test, y_test = x[kept], y[kept], x[held], y[held]
    else:
        y_test, _ = index_labels(labels_test, classes)
    x, x_test = _as_images(x, path), _as_images(x_test, path)
    if _fits_bytes(x) and _fits_bytes(x_test):
        x, x_test = x.astype(np.uint8, copy=False), x_test.astype(np.uint8, copy=False)
    else:
        x, x_test = _as_float(x, path), _as_float(x_test, path)
    mean, std = statistics(x)
    return Arrays(x, y, x_test, y_test, classes, str(path), mean, std)


def read_image_set(path: str | Path, *, test: str | Path | None = None, progress: Progress = silent) -> ImageSet:
    """Read a file or folder into a dataset in memory, without the cache."""
    path = Path(path)
    made = read_custom(path, progress, test=None if test is None else Path(test))
    return ImageSet(
        path.stem,
        made.classes,
        tuple(made.x_train.shape[1:]),
        x_train=_tensor(made.x_train),
        y_train=_tensor(made.y_train),
        x_test=_tensor(made.x_test),
        y_test=_tensor(made.y_test),
        mean=made.mean,
        std=made.std,
    )


def _tensor(array: Array) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))


def _read(
    path: Path, progress: Progress, encoding: TableEncoding | None = None
) -> tuple[LabelledArrays, TableEncoding | None]:
    """Rows and label values of an array file, a table or class folders; a table's encoding if it was not given."""
    kind = kind_of(path)
    if kind == "table":
        table = read_any_table(path)
        y = labels_of(table, LABEL)
        encoding = encoding or learn_encoding(table)
        return LabelledArrays(encoding.apply(table), y), encoding
    if kind == "arrays":
        arrays = read_arrays(path)
        if arrays.y is None:
            raise DataError(f"{path} has no labels: add y to .npz or .npy, or a column 'label' to CSV")
        return arrays, None
    folders = read_class_folders(path, progress)
    names = np.array(folders.classes)
    (x, y), test = folders.train, folders.test
    return LabelledArrays(x, names[y], *((test[0], names[test[1]]) if test else (None, None))), None


def _as_images(x: Array, path: Path) -> Array:
    """Images with channels first, and without a channel axis where they are grey."""
    if x.ndim > 4:
        raise DataError(f"x in {path} has shape {x.shape}: rows can be tables, grey images or colour images")
    if x.ndim == 4:
        if x.shape[1] not in (1, 3) and x.shape[3] in (1, 3):
            x = x.transpose(0, 3, 1, 2)
        if x.shape[1] == 1:
            x = x[:, 0]
        elif x.shape[1] != 3:
            raise DataError(f"images in {path} have shape {x.shape[1:]}: they must have 1 or 3 channels")
    return x


def _fits_bytes(x: Array) -> bool:
    """Whether all values are whole numbers from 0 to 255, so that they can be stored as uint8."""
    if x.dtype in (np.uint8, np.bool_):
        return True
    return bool(x.min() >= 0 and x.max() <= 255 and (x.dtype.kind in "ui" or (x == np.rint(x)).all()))


def _as_float(x: Array, path: Path) -> Array:
    if max(abs(float(x.min())), abs(float(x.max()))) > float(np.finfo(np.float32).max):
        raise DataError(f"x in {path} has values from {x.min()} to {x.max()}: they do not fit into float32")
    return x.astype(np.float32)
