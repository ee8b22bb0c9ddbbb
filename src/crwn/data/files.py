"""Read the data files of `crwn learn` and `crwn predict`: arrays, tables by column name, images."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from crwn.data.arrays import is_idx, read_arrays
from crwn.data.folders import list_class_folders
from crwn.data.image_set import Array
from crwn.data.images import ImageFiles, is_image, list_images
from crwn.data.progress import Progress, silent
from crwn.data.tables import Table, labels_of, learn_encoding, read_csv
from crwn.data.tables.frames import read_parquet
from crwn.errors import DataError

ARRAYS = (".npz", ".npy")
TABLES = (".csv", ".tsv", ".tab", ".txt", ".parquet", ".pq")
LABEL = "label"


@dataclass(frozen=True)
class DataFile:
    """What a file holds.

    Args:
        x: an array `[n, ...]`, or a table or images, which become arrays when the task's encoding or image size is
            known.
        y: label values `[n]` of arrays and class folders; None where there are none. The labels of a table are one of
            its columns.
    """

    x: Array | Table | ImageFiles
    y: Array | None = None

    @property
    def names(self) -> list[str] | None:
        """The name of every row: an image's file. None for other data."""
        return list(self.x.files) if isinstance(self.x, ImageFiles) else None


def kind_of(path: Path) -> str:
    """What a path holds by its name: "arrays", "table" or "images"; DataError for anything else."""
    if not path.exists():
        raise DataError(f"{path} does not exist")
    if path.is_dir():
        return "arrays" if (path / "x.npy").is_file() else "images"
    ending = Path(path.name.lower().removesuffix(".gz")).suffix
    if ending in ARRAYS or is_idx(path):
        return "arrays"
    if ending in TABLES:
        return "table"
    if ending == ".zip" or is_image(path.name):
        return "images"
    raise DataError(
        f"{path} has an unknown format: give .npz, .npy, idx, .csv, .tsv, .parquet, an image, or a folder or zip of "
        "images"
    )


def read_file(path: str | Path, *, progress: Progress = silent) -> DataFile:
    """Read a file or folder; images are only listed.

    Values are not scaled: `.npz` and `.npy` keep their dtype. Of class folders with a test split, the training images
    are taken; images that are in no class folder have no labels.
    """
    path = Path(path)
    kind = kind_of(path)
    if kind == "arrays":
        arrays = read_arrays(path)
        return DataFile(arrays.x, arrays.y)
    if kind == "table":
        return DataFile(read_any_table(path))
    images = replace(list_images(path), progress=progress)
    if any("/" not in name for name in images.files):
        return DataFile(images)
    folders = list_class_folders(path)
    labels = np.array(folders.classes)[folders.labels["train"]]
    return DataFile(replace(images, path=path, files=tuple(folders.files["train"])), labels)


def read_any_table(path: Path) -> Table:
    """The table of a CSV or Parquet file."""
    return read_parquet(path) if path.suffix.lower() in (".parquet", ".pq") else read_csv(path)


def read_labelled(path: str | Path, *, progress: Progress = silent) -> tuple[Array, Array | None]:
    """Read rows `[n, ...]` and label values `[n]` (None if the file has none), without a task.

    The columns of a table are encoded by what they hold, those of numbers as float32; labels are its column `label`.
    Images are uint8 `[n, H, W]` or `[n, 3, H, W]`.
    """
    found = read_file(path, progress=progress)
    if isinstance(found.x, Table):
        y = labels_of(found.x, LABEL) if LABEL in found.x.names else None
        return learn_encoding(found.x).apply(found.x), y
    if isinstance(found.x, ImageFiles):
        return found.x.decode(), found.y
    return found.x, found.y
