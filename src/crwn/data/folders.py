"""Read class folders of images, in a folder or a zip: `class/image`, or `train/class/image` and `test/class/image`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from crwn.data.image_set import Array
from crwn.data.images import SUFFIXES, ImageFiles, is_hidden, is_image, opened
from crwn.data.progress import Progress
from crwn.errors import DataError

TRAIN, TEST = ("train", "training"), ("test", "testing", "val", "valid", "validation", "dev", "eval")
SPLITS = dict.fromkeys(TRAIN, "train") | dict.fromkeys(TEST, "test")


@dataclass(frozen=True)
class ClassFolders:
    """Decoded images with class indices; `test` is None where the folders have no test split."""

    classes: tuple[str, ...]
    train: tuple[Array, Array]  # [N, H, W] or [N, 3, H, W] uint8; [N] int64
    test: tuple[Array, Array] | None


def read_class_folders(path: Path, progress: Progress) -> ClassFolders:
    """Decode all images under `path` (a folder or a zip), classes in alphabetical order."""
    found = list_class_folders(path)
    every = tuple(file for rows in found.files.values() for file in rows)
    images = ImageFiles(path, every, progress=progress).decode()
    count = len(found.files["train"])
    test = (images[count:], found.labels["test"]) if "test" in found.labels else None
    return ClassFolders(found.classes, (images[:count], found.labels["train"]), test)


@dataclass(frozen=True)
class ListedFolders:
    """Image files and class indices of every split, not decoded yet."""

    classes: tuple[str, ...]
    files: dict[str, list[str]]
    labels: dict[str, Array]


def list_class_folders(path: Path) -> ListedFolders:
    """The image files under `path` by split, classes in alphabetical order.

    Raises:
        DataError: there are no images, or they are not in class folders.
    """
    with opened(path) as (files, folders, _):
        splits = _by_split(path, files, folders)
    classes = tuple(sorted(splits["train"]))
    listed = {
        split: [(file, label) for label, name in enumerate(classes) for file in sorted(splits[split][name])]
        for split in ("train", "test")
        if split in splits
    }
    return ListedFolders(
        classes,
        {split: [file for file, _ in rows] for split, rows in listed.items()},
        {split: np.array([label for _, label in rows], dtype=np.int64) for split, rows in listed.items()},
    )


def _by_split(path: Path, files: list[str], folders: list[str]) -> dict[str, dict[str, list[str]]]:
    """Image files by split and class; "test" is missing where there is no such split."""
    visible = [name for name in files if not is_hidden(name)]
    images = [name for name in visible if is_image(name)]
    if not images:
        raise DataError(f"{path} has no images ({', '.join(sorted(SUFFIXES))}): it must hold one folder per class")
    skip = _common_parents(images)
    tops = {parts[skip] for name in images if len(parts := PurePosixPath(name).parts) > skip + 1}
    has_splits = bool(tops) and all(top.lower() in SPLITS for top in tops)
    if not has_splits:
        _check_tops(path, images, tops, skip)
    depth = skip + 2 if has_splits else skip + 1  # parts of a class folder's path
    splits: dict[str, dict[str, list[str]]] = {}

    def members(parts: tuple[str, ...]) -> list[str]:
        split = SPLITS.get(parts[skip].lower(), "train") if has_splits else "train"
        return splits.setdefault(split, {}).setdefault(parts[depth - 1], [])

    for name in images:
        parts = PurePosixPath(name).parts
        if len(parts) <= depth:
            raise DataError(f"{name} in {path} is in no class folder: put it into a folder named by its class")
        members(parts).append(name)
    for name in folders:
        # An empty class folder becomes a class without images, which `_check_classes` refuses.
        if not is_hidden(name) and len(parts := PurePosixPath(name).parts) >= depth:
            members(parts)
    _check_classes(path, splits)
    return splits


def _check_tops(path: Path, images: list[str], tops: set[str], skip: int) -> None:
    """Raise DataError for a split folder that has unknown folders beside it; a class may be named "train"."""
    splits = {
        parts[skip]
        for name in images
        if len(parts := PurePosixPath(name).parts) > skip + 2 and parts[skip].lower() in SPLITS
    }
    if splits:
        others, known = ", ".join(sorted(tops - splits)), ", ".join(sorted(splits))
        raise DataError(
            f"{path} has {others} beside {known}: leave only train and test, with a folder per class in each"
        )


def _common_parents(images: list[str]) -> int:
    """Number of leading folders that all images share and that are neither a split nor the class."""
    parents = [PurePosixPath(name).parts[:-1] for name in images]
    shortest = min(parents, key=len)
    count = 0
    while count < len(shortest) - 1 and all(parts[count] == shortest[count] for parts in parents):
        if shortest[count].lower() in SPLITS:
            break
        count += 1
    return count


def _check_classes(path: Path, splits: dict[str, dict[str, list[str]]]) -> None:
    if "train" not in splits:
        raise DataError(f"{path} has test images but no train folder")
    for split, members in splits.items():
        for other in splits.values():
            for name in other:
                if not members.get(name):
                    raise DataError(f"class {name!r} in {path} has no {split} images: add some or remove its folder")
