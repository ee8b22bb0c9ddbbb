"""The dataset cache: a folder per dataset with memory-mapped arrays, written atomically."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crwn._utils import atomic_file, sync_folder, write_whole
from crwn.data.image_set import Arrays, ImageSet
from crwn.errors import DataError

FORMAT = 1
ABANDONED_AFTER = 24 * 3600.0  # seconds; a temporary folder this old belongs to a process that was killed


def cache_folder() -> Path:
    """Path of the cache: `$CRWN_DATA`, or `crwn` in the user's cache folder."""
    if chosen := os.environ.get("CRWN_DATA"):
        return Path(chosen).expanduser()
    if usual := os.environ.get("XDG_CACHE_HOME"):
        return Path(usual) / "crwn"
    return Path.home() / ".cache" / "crwn"


def check_name(name: str) -> str:
    """Return the name if it can name a dataset's folder (letters, digits, `_`, `-`, `.`), else raise DataError."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", name):
        raise DataError(f"{name!r} cannot be the name of a dataset: use letters, digits, '_', '-' and '.'")
    return name


def is_cached(name: str) -> bool:
    return (cache_folder() / check_name(name) / "set.json").is_file()


def cached_names() -> list[str]:
    folder = cache_folder()
    if not folder.is_dir():
        return []
    return sorted(entry.parent.name for entry in folder.glob("*/set.json") if not entry.parent.name.startswith("."))


def description(name: str) -> dict[str, Any]:
    """The metadata of a cached dataset, without reading its arrays."""
    path = cache_folder() / name / "set.json"
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        if missing := {"classes", "shape", "rows", "dtype", "mean", "std", "source", "created"} - set(facts):
            raise KeyError(*sorted(missing))
        if facts["format"] != FORMAT:
            raise DataError(
                f"dataset {name!r} was cached in format {facts['format']}, this crwn reads {FORMAT}: "
                "fetch or import it again"
            )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _damaged(name, error) from None
    return dict(facts)


def read_set(name: str) -> ImageSet:
    """Open a cached dataset; its rows are memory-mapped and read from disk when they are used."""
    facts = description(name)
    folder = cache_folder() / name
    shape = tuple(int(size) for size in facts["shape"])
    try:
        arrays = {part: _mapped(folder / f"{part}.npy") for part in ("x_train", "x_test")}
        labels = {
            part: torch.from_numpy(np.load(folder / f"{part}.npy", allow_pickle=False).astype(np.int64))
            for part in ("y_train", "y_test")
        }
    except (OSError, ValueError, EOFError) as error:
        raise _damaged(name, error) from None
    for part in ("train", "test"):
        rows, wanted = arrays[f"x_{part}"], (facts["rows"][part], *shape)
        if tuple(rows.shape) != wanted or len(labels[f"y_{part}"]) != wanted[0]:
            raise _damaged(name, f"{part} images are {tuple(rows.shape)} where {wanted} were written")
    classes = tuple(tuple(label) if isinstance(label, list) else label for label in facts["classes"])
    return ImageSet(
        name, classes, shape, arrays["x_train"], labels["y_train"], arrays["x_test"], labels["y_test"],
        tuple(facts["mean"]), tuple(facts["std"]),
    )  # fmt: skip


def write_set(name: str, arrays: Arrays, *, replace: bool = True) -> None:
    """Write a dataset into the cache atomically.

    Args:
        replace: overwrite a dataset of the same name; False leaves an existing one unchanged.
    """
    facts = {
        "format": FORMAT,
        "name": check_name(name),
        "classes": list(arrays.classes),
        "shape": list(arrays.x_train.shape[1:]),
        "rows": {"train": len(arrays.x_train), "test": len(arrays.x_test)},
        "dtype": str(arrays.x_train.dtype),
        "mean": list(arrays.mean),
        "std": list(arrays.std),
        "source": arrays.source,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    with temporary_folder(name) as folder:
        for part in ("x_train", "y_train", "x_test", "y_test"):
            with atomic_file(folder / f"{part}.npy") as file:
                np.save(file, np.ascontiguousarray(getattr(arrays, part)), allow_pickle=False)
        write_whole(folder / "set.json", json.dumps(facts).encode())
        folder.chmod(0o755)  # temporary folders are private, a cache may be shared
        _move_in(folder, cache_folder() / name, replace=replace)


@contextmanager
def temporary_folder(name: str) -> Iterator[Path]:
    """A temporary folder in the cache, removed at the end of the `with` block.

    Raises:
        DataError: the cache cannot be written, or writing inside the block fails.
    """
    home = cache_folder()
    try:
        home.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(home)
        folder = Path(tempfile.mkdtemp(prefix=f".{name}-", suffix=".tmp", dir=home))
    except OSError as error:
        raise DataError(
            f"the data cache {home} cannot be written ({error.strerror}): set CRWN_DATA to another folder"
        ) from None
    try:
        yield folder
    except OSError as error:
        # NumPy reports a short write ("requested and ... written") without an error number.
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) or "requested and" in str(error)
        why = "no space left" if full else error.strerror or str(error)
        raise DataError(
            f"{name!r} cannot be stored in {home} ({why}): free some space, or set CRWN_DATA to another folder"
        ) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _move_in(folder: Path, target: Path, *, replace: bool) -> None:
    """Rename a finished folder to its final name; an existing dataset is renamed first and removed afterwards."""
    aside = folder.with_name(f"{folder.name}.old.tmp")
    if replace or not (target / "set.json").is_file():
        with suppress(FileNotFoundError):
            target.rename(aside)
    try:
        folder.rename(target)
    except OSError as error:
        # Another process has written the same dataset in the meantime.
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    sync_folder(target.parent)


def _remove_abandoned(home: Path) -> None:
    for entry in home.glob(".*.tmp"):
        with suppress(FileNotFoundError):  # another process may remove its own folder at this moment
            if time.time() - entry.stat().st_mtime > ABANDONED_AFTER:
                shutil.rmtree(entry, ignore_errors=True)


def _mapped(path: Path) -> Tensor:
    # Copy on write: torch warns about read-only arrays, and the file is never changed.
    return torch.from_numpy(np.load(path, mmap_mode="c", allow_pickle=False))


def _damaged(name: str, why: object) -> DataError:
    return DataError(f"dataset {name!r} in {cache_folder()} is damaged ({why}): fetch or import it again")
