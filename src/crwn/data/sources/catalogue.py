"""The catalogue of datasets: load, fetch and import them by name."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from crwn.data.cache import cached_names, check_name, description, is_cached, read_set, write_set
from crwn.data.custom import read_custom
from crwn.data.image_set import Arrays, ImageSet
from crwn.data.progress import Progress, silent
from crwn.data.sources import cifar100
from crwn.data.sources.digits import digits
from crwn.data.sources.mnist import fetch_mnist, import_mnist
from crwn.errors import DataError

FETCH: dict[str, Callable[[Progress], Arrays]] = {
    "digits": digits,
    "mnist": fetch_mnist,
    "cifar100": cifar100.fetch_cifar100,
}
HOW_TO_GET = {name: f"crwn data fetch {name}" for name in FETCH} | {
    "mini_imagenet": "crwn data import mini_imagenet PATH"
}
# mini-ImageNet is standardized like CIFAR-100, also where only some of its classes were imported.
STANDARDIZED_AS_CIFAR = ("cifar100", "mini_imagenet")


def load(name: str, *, progress: Progress = silent) -> ImageSet:
    """Open a dataset by name from the cache; one that can be fetched is fetched first if it is missing."""
    if not is_cached(name):
        # replace=False: of several processes that fetch it at once, the first to finish writes the dataset.
        _fetch(name, progress, replace=False)
    return read_set(name)


def fetch(name: str, *, progress: Progress = silent) -> dict[str, Any]:
    """Download a known dataset into the cache, replacing a cached copy, and return its `summary`."""
    _fetch(name, progress, replace=True)
    return summary(name)


def import_data(name: str, path: str | Path, *, progress: Progress = silent) -> dict[str, Any]:
    """Read a file or folder into the cache under `name`, replacing a cached copy, and return its `summary`.

    Args:
        name: `mnist` (a folder of its idx files), `cifar100`, `mini_imagenet`, or any new name.
        path: `.npz` with x, y and perhaps x_test, y_test; `.npy` pairs; CSV with a `label` column; class folders or a
            zip of images, `class/image` or `train/class/image` and `test/class/image`.
    """
    path = Path(path).expanduser()
    check_name(name)
    if not path.exists():
        raise DataError(f"{path} does not exist")
    if name == "digits":
        raise DataError("'digits' comes with crwn and cannot be replaced: choose another name")
    if name == "mnist":
        arrays = import_mnist(path, progress)
    elif name == "cifar100" and path.name.endswith(".tar.gz"):
        arrays = cifar100.read_archive(path)
    else:
        arrays = read_custom(path, progress)
    if name in STANDARDIZED_AS_CIFAR:
        if arrays.x_train.ndim != 4:
            raise DataError(f"{name} has colour images, but {path} has rows of shape {arrays.x_train.shape[1:]}")
        arrays = dataclasses.replace(arrays, mean=cifar100.MEAN, std=cifar100.STD)
    write_set(name, arrays)
    return summary(name)


def available() -> list[dict[str, Any]]:
    """Every known or cached dataset: its name, whether it is cached, how to get it, and its `summary`."""
    sets: list[dict[str, Any]] = []
    for name in sorted({*HOW_TO_GET, *cached_names()}):
        entry: dict[str, Any] = {"name": name, "cached": is_cached(name), "get": HOW_TO_GET.get(name)}
        if entry["cached"]:
            try:
                entry |= summary(name)
            except DataError as error:
                entry |= {"cached": False, "problem": str(error)}
        sets.append(entry)
    return sets


def summary(name: str) -> dict[str, Any]:
    """Classes, rows, shape, dtype, source and date of a cached dataset."""
    facts = description(name)
    return {
        "name": name,
        "classes": len(facts["classes"]),
        "train_rows": facts["rows"]["train"],
        "test_rows": facts["rows"]["test"],
        "shape": facts["shape"],
        "dtype": facts["dtype"],
        "source": facts["source"],
        "created": facts["created"],
    }


def _fetch(name: str, progress: Progress, *, replace: bool) -> None:
    if name not in FETCH:
        raise _cannot_fetch(check_name(name))
    write_set(name, FETCH[name](progress), replace=replace)


def _cannot_fetch(name: str) -> DataError:
    if name in HOW_TO_GET:
        return DataError(f"dataset {name!r} cannot be fetched: import it with `{HOW_TO_GET[name]}`")
    choices = sorted({*HOW_TO_GET, *cached_names()})
    near = difflib.get_close_matches(name, choices, n=1)
    hint = f", did you mean {near[0]!r}?" if near else ""
    return DataError(
        f"there is no dataset {name!r}{hint} (there are: {', '.join(choices)}); "
        f"import your files with `crwn data import {name} PATH`"
    )
