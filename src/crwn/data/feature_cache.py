"""The feature cache: features of images, computed once by an encoder, memory-mapped from files that are checked.

An entry is `KEY.npy` and `KEY.json` in `features/` of the data cache. The key is a digest of the encoder and of the
images, so features of another encoder or of changed images are never found. An entry that is cut short or damaged is
made anew; where an entry cannot be written, features stay in memory and a warning names the reason. The oldest entries
are removed when all of them take more than `$CRWN_FEATURES_GB` (8 by default; 0 turns the cache off).
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from crwn._utils import new_file_beside, write_whole
from crwn.data.cache import cache_folder
from crwn.errors import ConfigError

FORMAT = 1
USUAL_GB = 8.0
SMALL = 2**20  # bytes below which features are not worth a file: those of 200 photos
ABANDONED_AFTER = 24 * 3600.0

Blocks = Callable[[], Iterator[Tensor]]


def cached_features(key: str, shape: tuple[int, int], compute: Blocks, *, dtype: torch.dtype = torch.float32) -> Tensor:
    """Features `[rows, features]`: those stored under this key, else computed, stored and mapped into memory.

    Args:
        key: hexadecimal digest of everything that determines the features.
        compute: yields blocks of rows in order.
        dtype: float32, or float16 for half the space.
    """
    kind = np.dtype(str(dtype).removeprefix("torch."))
    size = shape[0] * shape[1] * kind.itemsize
    limit = _limit()
    if not SMALL <= size <= limit:
        return _filled(torch.empty(shape, dtype=dtype), compute)
    folder = cache_folder() / "features"
    path = folder / f"{key}.npy"
    found = _read(path, shape, kind)
    if found is not None:
        return found
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _make_room(folder, limit - size)
        return _write(path, shape, kind, compute)
    except OSError as error:
        why = f"features cannot be stored in {folder} ({error.strerror or error})"
        warnings.warn(f"{why}: they stay in memory and are computed again next time", stacklevel=3)
        return _filled(torch.empty(shape, dtype=dtype), compute)


def _limit() -> int:
    given = os.environ.get("CRWN_FEATURES_GB", "")
    try:
        limit = float(given) if given else USUAL_GB
    except ValueError:
        limit = -1.0
    if not 0 <= limit < 1e9:
        raise ConfigError(f"CRWN_FEATURES_GB is {given!r}: give a number of gigabytes, 0 for no feature cache")
    return int(limit * 1e9)


def _filled(out: Tensor, compute: Blocks) -> Tensor:
    at = 0
    for block in compute():
        out[at : at + len(block)] = block
        at += len(block)
    return out


def _write(path: Path, shape: tuple[int, int], kind: np.dtype[np.floating], compute: Blocks) -> Tensor:
    """Compute into a temporary file, which gets its name when it is complete and on disk."""
    temporary = new_file_beside(path)
    digest = hashlib.sha256()
    try:
        with temporary.open("wb") as file:
            np.lib.format.write_array_header_1_0(
                file, {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": shape}
            )
            for block in compute():
                data = np.ascontiguousarray(block.numpy().astype(kind, copy=False)).tobytes()
                digest.update(data)
                file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        facts = {"format": FORMAT, "shape": shape, "dtype": str(kind), "sha256": digest.hexdigest()}
        write_whole(path.with_suffix(".json"), json.dumps(facts).encode())
    finally:
        temporary.unlink(missing_ok=True)
    return _mapped(path)


def _read(path: Path, shape: tuple[int, int], kind: np.dtype[np.floating]) -> Tensor | None:
    """The entry, or None where it is missing, cut short, damaged, or of another shape: then it is made anew."""
    try:
        facts = json.loads(path.with_suffix(".json").read_text())
        wanted = {"format": FORMAT, "shape": list(shape), "dtype": str(kind)}
        if not isinstance(facts, dict) or {key: facts.get(key) for key in wanted} != wanted:
            return None
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        if array.shape != shape or array.dtype != kind:
            return None
        if hashlib.sha256(np.ascontiguousarray(array).data).hexdigest() != facts.get("sha256"):
            return None
        os.utime(path)  # when it was last used, for `_make_room`
    except (OSError, ValueError, EOFError):
        return None
    return _mapped(path)


def _mapped(path: Path) -> Tensor:
    # Copy on write: torch warns about read-only arrays, and the file is never changed.
    array: npt.NDArray[np.floating] = np.load(path, mmap_mode="c", allow_pickle=False)
    return torch.from_numpy(array)


def _make_room(folder: Path, left: int) -> None:
    """Remove the entries that were not used for longest until all take at most `left` bytes; also abandoned parts.

    A process that has an entry mapped keeps it until it ends.
    """
    entries = []
    for file in folder.iterdir():
        with suppress(FileNotFoundError):  # another process may remove it at this moment
            facts = file.stat()
            entries.append((facts.st_mtime, facts.st_size, file))
    newest = max((mtime for mtime, _, _ in entries), default=0.0)
    used = sum(size for _, size, _ in entries)
    for mtime, size, file in sorted(entries):
        abandoned = file.suffix == ".part" and newest - mtime > ABANDONED_AFTER
        if abandoned or (used > left and file.suffix == ".npy"):
            file.unlink(missing_ok=True)
            file.with_suffix(".json").unlink(missing_ok=True)
            used -= size
