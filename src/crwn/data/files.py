"""Reading what people hand to `crwn learn` and `crwn predict`: rows, and labels where the file has them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from crwn.data.arrays import read_arrays
from crwn.data.folders import read_class_folders
from crwn.data.image_set import Array
from crwn.data.progress import Progress, silent
from crwn.errors import DataError


def holds_arrays(path: Path) -> bool:
    """Whether a path is read as arrays; otherwise it is class folders of images, or nothing we know."""
    if not path.exists():
        raise DataError(f"{path} is not there")
    if path.is_dir():
        return (path / "x.npy").is_file()
    if path.suffix.lower() in (".npz", ".npy", ".csv"):
        return True
    if path.suffix.lower() == ".zip":
        return False
    raise DataError(f"{path} is of no known kind: give .npz, .npy, .csv, a folder or zip of class folders of images")


def read_labelled(path: str | Path, *, progress: Progress = silent) -> tuple[Array, Array | None]:
    """Rows `[n, ...]` and label values `[n]` (None where the file has none).

    Values are as they stand in the file, so that rows learned from one file and predicted from another mean the same:
    `.npz` and `.npy` keep their kind, CSV gives float32, images uint8 `[n, H, W]` or `[n, 3, H, W]`.
    Class folders with a test split give their training images.
    """
    x, y, _ = read_table(path, progress=progress)
    return x, y


def read_table(path: str | Path, *, progress: Progress = silent) -> tuple[Array, Array | None, tuple[str, ...] | None]:
    """The same, and the names of the columns where the file has them."""
    path = Path(path)
    if holds_arrays(path):
        arrays = read_arrays(path)
        return arrays.x, arrays.y, arrays.columns
    folders = read_class_folders(path, progress)
    images, labels = folders.train
    return images, np.array(folders.classes)[labels], None
