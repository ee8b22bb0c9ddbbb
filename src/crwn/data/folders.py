"""Read class folders of images, in a folder or a zip: `class/image`, or `train/class/image` and `test/class/image`."""

from __future__ import annotations

import io
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
from PIL import Image, UnidentifiedImageError

from crwn.data.image_set import Array
from crwn.data.progress import Progress
from crwn.errors import DataError

SUFFIXES = {".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"}
TRAIN, TEST = ("train", "training"), ("test", "testing", "val", "valid", "validation", "dev", "eval")
SPLITS = dict.fromkeys(TRAIN, "train") | dict.fromkeys(TEST, "test")
GREY = {"1", "L", "LA"}
CHUNK = 64  # images a thread decodes before it reports

ReadBytes = Callable[[str], bytes]


@dataclass(frozen=True)
class ClassFolders:
    """Decoded images with class indices; `test` is None where the folders have no test split."""

    classes: tuple[str, ...]
    train: tuple[Array, Array]  # [N, H, W] or [N, 3, H, W] uint8; [N] int64
    test: tuple[Array, Array] | None


def read_class_folders(path: Path, progress: Progress) -> ClassFolders:
    """Read all images under `path` (a folder or a zip), classes in alphabetical order."""
    with _opened(path) as (files, folders, read):
        splits = _by_split(path, files, folders)
        classes = tuple(sorted(splits["train"]))
        listed = {
            split: [(file, label) for label, name in enumerate(classes) for file in sorted(splits[split][name])]
            for split in ("train", "test")
            if split in splits
        }
        everything = [file for rows in listed.values() for file, _ in rows]
        images = _decode(path, everything, read, progress)
    count = len(listed["train"])
    labels = {split: np.array([label for _, label in rows], dtype=np.int64) for split, rows in listed.items()}
    test = (images[count:], labels["test"]) if "test" in labels else None
    return ClassFolders(classes, (images[:count], labels["train"]), test)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[list[str], list[str], ReadBytes]]:
    """Names of the files and folders under `path`, and a function that reads a file."""
    if path.is_dir():
        entries = sorted(path.rglob("*"))
        files = [entry.relative_to(path).as_posix() for entry in entries if entry.is_file()]
        folders = [entry.relative_to(path).as_posix() for entry in entries if entry.is_dir()]
        yield files, folders, lambda name: (path / name).read_bytes()
        return
    try:
        archive = zipfile.ZipFile(path)
    except zipfile.BadZipFile:
        raise DataError(f"{path} is not a whole zip file: it is cut short or damaged, get it again") from None
    with archive:
        names = archive.namelist()
        yield (
            [name for name in names if name[-1] != "/"],
            [name[:-1] for name in names if name[-1] == "/"],
            archive.read,
        )


def _by_split(path: Path, files: list[str], folders: list[str]) -> dict[str, dict[str, list[str]]]:
    """Image files by split and class; "test" is missing where there is no such split."""
    visible = [name for name in files if not _is_hidden(name)]
    images = [name for name in visible if PurePosixPath(name).suffix.lower() in SUFFIXES]
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
        if not _is_hidden(name) and len(parts := PurePosixPath(name).parts) >= depth:
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


def _is_hidden(name: str) -> bool:
    return any(part.startswith((".", "__MACOSX")) for part in PurePosixPath(name).parts)


def _decode(path: Path, files: list[str], read: ReadBytes, progress: Progress) -> Array:
    """Decode images of equal size into one uint8 array: RGB if any image has colour, else grey."""

    def opened(name: str) -> Image.Image:
        try:
            return Image.open(io.BytesIO(read(name)))
        except (zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError, EOFError) as error:
            raise DataError(f"{name} in {path} cannot be unpacked ({error}): the file is damaged") from None
        except (UnidentifiedImageError, Image.DecompressionBombError, OSError, ValueError, SyntaxError) as error:
            raise DataError(f"{name} in {path} cannot be read as an image ({_reason(error)})") from None

    first = opened(files[0])
    grey = first.mode in GREY and all(opened(name).mode in GREY for name in files)
    width, height = first.size
    out = np.empty((len(files), height, width) if grey else (len(files), 3, height, width), dtype=np.uint8)

    def decode(start: int) -> int:
        stop = min(start + CHUNK, len(files))
        for at in range(start, stop):
            image = opened(files[at])
            if image.size != (width, height):
                raise DataError(
                    f"images in {path} differ in size: {files[0]} is {width} x {height}, "
                    f"{files[at]} is {image.size[0]} x {image.size[1]}: make them equal"
                )
            if image.mode[0] in "IF":
                raise DataError(f"{files[at]} in {path} has more than 8 bits a pixel (mode {image.mode}): make it 8")
            try:
                pixels = np.asarray(image.convert("L" if grey else "RGB"))
            except (OSError, SyntaxError, ValueError) as error:
                raise DataError(f"{files[at]} in {path} is damaged ({_reason(error)})") from None
            out[at] = pixels if grey else pixels.transpose(2, 0, 1)
        return stop - start

    # Pillow releases the interpreter lock while it decodes, so threads run in parallel.
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        done = 0
        try:
            for count in pool.map(decode, range(0, len(files), CHUNK)):
                done += count
                progress("decoding images", done, len(files))
        finally:
            pool.shutdown(cancel_futures=True)
    return out


def _reason(error: BaseException) -> str:
    # Pillow's message names a buffer in memory instead of the file.
    return "unknown format" if isinstance(error, UnidentifiedImageError) else str(error)
