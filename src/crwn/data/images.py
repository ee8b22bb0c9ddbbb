"""Image files of a folder, a zip or by themselves: decoded into one uint8 array, resized where their sizes differ."""

from __future__ import annotations

import io
import math
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from crwn.data.bounded import check_memory
from crwn.data.image_set import Array
from crwn.data.progress import Progress, silent
from crwn.errors import DataError

SUFFIXES = {".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"}
GREY = {"1", "L", "LA"}
CHUNK = 64  # images a thread decodes before it reports
LONGEST = 64  # pixels that images of different sizes are at most resized to
LARGEST_FILE = 2**28  # bytes of one image in a zip
PIXELS = 50_000_000  # of one image of a request
ORIENTATION = 0x0112  # the EXIF tag

ReadBytes = Callable[[str], bytes]


class _SizesDifferError(Exception):
    """An image has another size than the first."""


@dataclass(frozen=True)
class ImageFiles:
    """Images that are decoded when their size is known.

    Args:
        path: a folder, a zip, or the folder of a single file.
        files: names of the images below `path`.
        size: width and height to resize to where a task has no image size yet; None leaves it to the images.
        progress: called while images are decoded.
    """

    path: Path
    files: tuple[str, ...]
    size: tuple[int, int] | None = None
    progress: Progress = silent

    def __len__(self) -> int:
        return len(self.files)

    def decode(self, shape: Sequence[int] | None = None) -> Array:
        """All images as uint8 `[n, H, W]` (grey) or `[n, 3, H, W]`.

        Args:
            shape: of one image, `(H, W)` or `(3, H, W)`: images are converted and resized to it. By default images of
                one size keep it, and others are resized to the median height and width, at most 64 pixels on the longer
                side; they have colour if any image has.
        """
        with opened(self.path) as (_, _, read):
            return _decode(self, read, shape)

    def select(self, at: Sequence[int]) -> ImageFiles:
        """The images at these positions."""
        return replace(self, files=tuple(self.files[place] for place in at))


def is_image(name: str) -> bool:
    """Whether a file's ending is that of an image."""
    return PurePosixPath(name).suffix.lower() in SUFFIXES


def decode_image(data: bytes, what: str, shape: Sequence[int]) -> Array:
    """The pixels of one image file as uint8 of this shape, `(H, W)` or `(channels, H, W)`: converted and resized.

    Args:
        what: the image in messages.

    Raises:
        DataError: it is no image, is damaged, or has more than `PIXELS` pixels.
    """
    try:
        with Image.open(io.BytesIO(data)) as found:
            width, height = found.size
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError, ValueError, SyntaxError) as error:
        raise DataError(f"{what} cannot be read as an image ({_reason(error)})") from None
    if width * height > PIXELS:
        raise DataError(f"{what} has {width} x {height} pixels: at most {PIXELS:,} are read, make it smaller")
    pixels: Array = _decode(ImageFiles(Path(), (what,)), lambda _: data, shape)[0]
    return pixels


def is_hidden(name: str) -> bool:
    """Whether a file or a folder around it is hidden."""
    return any(part.startswith((".", "__MACOSX")) for part in PurePosixPath(name).parts)


def list_images(path: Path) -> ImageFiles:
    """All images in a folder or a zip at any depth, or the one image that `path` is."""
    if path.is_file() and is_image(path.name):
        return ImageFiles(path.parent, (path.name,))
    with opened(path) as (files, _, _):
        found = sorted(name for name in files if is_image(name) and not is_hidden(name))
    if not found:
        raise DataError(f"{path} has no images ({', '.join(sorted(SUFFIXES))})")
    return ImageFiles(path, tuple(found))


@contextmanager
def opened(path: Path) -> Iterator[tuple[list[str], list[str], ReadBytes]]:
    """Names of the files and folders under a folder or in a zip, and a function that reads a file."""
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
            lambda name: _read_member(archive, name, path),
        )


def _read_member(archive: zipfile.ZipFile, name: str, path: Path) -> bytes:
    """An image in a zip; no more bytes are unpacked than it declares, and it may declare `LARGEST_FILE`."""
    declared = archive.getinfo(name).file_size
    if declared > LARGEST_FILE:
        raise DataError(f"{name} in {path} has {declared:,} bytes when unpacked, an image has at most {LARGEST_FILE:,}")
    return archive.read(name)


def _decode(images: ImageFiles, read: ReadBytes, shape: Sequence[int] | None) -> Array:
    path, files, progress = images.path, images.files, images.progress

    def image(name: str) -> Image.Image:
        try:
            found = Image.open(io.BytesIO(read(name)))
            turned = found.format == "JPEG" and found.getexif().get(ORIENTATION, 1) != 1
            return ImageOps.exif_transpose(found) if turned else found
        except (zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError, EOFError) as error:
            raise DataError(f"{name} in {path} cannot be unpacked ({error}): the file is damaged") from None
        except (UnidentifiedImageError, Image.DecompressionBombError, OSError, ValueError, SyntaxError) as error:
            raise DataError(f"{name} in {path} cannot be read as an image ({_reason(error)})") from None

    if shape is not None:
        if len(shape) not in (2, 3) or (len(shape) == 3 and shape[0] not in (1, 3)):
            raise DataError(f"rows of shape {tuple(shape)} are no images: they have 1 or 3 channels, height and width")
        grey = len(shape) == 2 or shape[0] == 1
        found = _pixels(path, files, image, progress, (shape[-1], shape[-2]), grey=grey, resize=True)
        return found[:, None] if len(shape) == 3 and grey else found
    first = image(files[0])
    grey = first.mode in GREY and all(image(name).mode in GREY for name in files)
    if images.size is not None:
        return _pixels(path, files, image, progress, images.size, grey=grey, resize=True)
    try:
        return _pixels(path, files, image, progress, first.size, grey=grey, resize=False)
    except _SizesDifferError:
        size = usual_size([image(name).size for name in files])
        return _pixels(path, files, image, progress, size, grey=grey, resize=True)


def usual_size(sizes: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """The median width and height, scaled down to at most `LONGEST` pixels on the longer side.

    >>> usual_size([(8, 8), (8, 8), (9, 7)]), usual_size([(640, 480), (1280, 960), (1280, 960)])
    ((8, 8), (64, 48))
    """
    width, height = (float(side) for side in np.median(np.array(sizes), axis=0))
    scale = min(1.0, LONGEST / max(width, height))
    return max(1, round(width * scale)), max(1, round(height * scale))


def _pixels(
    path: Path,
    files: Sequence[str],
    image: Callable[[str], Image.Image],
    progress: Progress,
    size: tuple[int, int],
    *,
    grey: bool,
    resize: bool,
) -> Array:
    """The pixels of all images of one size (width, height), or resized to it."""
    width, height = size
    shape = (len(files), height, width) if grey else (len(files), 3, height, width)
    check_memory(math.prod(shape), f"{path} with {len(files):,} images of {width} x {height}")
    out = np.empty(shape, dtype=np.uint8)

    def decode(start: int) -> int:
        stop = min(start + CHUNK, len(files))
        for at in range(start, stop):
            found = image(files[at])
            if found.size != size and not resize:
                raise _SizesDifferError
            if found.mode[0] in "IF":
                raise DataError(f"{files[at]} in {path} has more than 8 bits a pixel (mode {found.mode}): make it 8")
            try:
                found = found.convert("L" if grey else "RGB")
                pixels = np.asarray(found.resize(size, Image.Resampling.BILINEAR) if found.size != size else found)
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
