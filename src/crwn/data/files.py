"""Read the data files of `crwn learn` and `crwn predict`: rows, and labels if the file has any."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from crwn.data.arrays import read_arrays
from crwn.data.folders import read_class_folders
from crwn.data.image_set import Array
from crwn.data.progress import Progress, silent
from crwn.errors import DataError


def holds_arrays(path: Path) -> bool:
    """Whether a path holds arrays (True) or class folders of images (False); DataError for anything else."""
    if not path.exists():
        raise DataError(f"{path} does not exist")
    if path.is_dir():
        return (path / "x.npy").is_file()
    if path.suffix.lower() in (".npz", ".npy", ".csv"):
        return True
    if path.suffix.lower() == ".zip":
        return False
    raise DataError(f"{path} has an unknown format: give .npz, .npy, .csv, a folder or zip of class folders of images")


def read_labelled(path: str | Path, *, progress: Progress = silent) -> tuple[Array, Array | None]:
    """Read rows `[n, ...]` and label values `[n]` (None if the file has none).

    Values are not scaled: `.npz` and `.npy` keep their dtype, CSV is read as float32, images as uint8 `[n, H, W]` or
    `[n, 3, H, W]`. Of class folders with a test split, the training images are read.
    """
    x, y, _ = read_table(path, progress=progress)
    return x, y


def read_table(path: str | Path, *, progress: Progress = silent) -> tuple[Array, Array | None, tuple[str, ...] | None]:
    """Like `read_labelled`, with the column names as a third value (None if the file has none)."""
    path = Path(path)
    if holds_arrays(path):
        arrays = read_arrays(path)
        return arrays.x, arrays.y, arrays.columns
    folders = read_class_folders(path, progress)
    images, labels = folders.train
    return images, np.array(folders.classes)[labels], None
