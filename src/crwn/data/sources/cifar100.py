"""CIFAR-100, read from the official binary archive (the other official archive is a pickle, which is never read)."""

from __future__ import annotations

import gzip
import tarfile
import zlib
from pathlib import Path

import numpy as np

from crwn.data.bounded import check_memory
from crwn.data.cache import temporary_folder
from crwn.data.image_set import Array, Arrays
from crwn.data.progress import Progress
from crwn.data.sources.download import download
from crwn.errors import DataError

MEAN, STD = (0.491, 0.482, 0.447), (0.247, 0.243, 0.262)

ARCHIVE = "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz"
ARCHIVE_MD5 = "03b5dce01913d631647c71ecec9e9cb8"
ROW = 2 + 3 * 32 * 32  # superclass, class, then red, green and blue planes


def fetch_cifar100(progress: Progress) -> Arrays:
    """Download and read the official archive."""
    try:
        with temporary_folder("cifar100-download") as folder:
            archive = folder / "cifar-100-binary.tar.gz"
            download(ARCHIVE, archive, progress, md5=ARCHIVE_MD5)
            return read_archive(archive, source=ARCHIVE)
    except DataError as error:
        raise DataError(f"{error}; with class folders in a zip, use `crwn data import cifar100 ZIP`") from None


def read_archive(path: Path, *, source: str | None = None) -> Arrays:
    """Read the official `cifar-100-binary.tar.gz`."""
    try:
        with tarfile.open(path, "r:gz") as archive:
            names = _member(archive, "fine_label_names.txt").decode("ascii").split()
            x_train, y_train = _rows(_member(archive, "train.bin"), "train.bin")
            x_test, y_test = _rows(_member(archive, "test.bin"), "test.bin")
        with gzip.open(path) as whole:  # reads to the end, where gzip compares the checksum
            while whole.read(2**22):
                pass
    except (tarfile.TarError, EOFError, OSError, KeyError, ValueError, zlib.error) as error:
        raise DataError(f"{path} is not a whole cifar-100-binary.tar.gz ({error})") from None
    if y_train.max() >= len(names) or y_test.max() >= len(names):
        raise DataError(f"{path} has class {max(y_train.max(), y_test.max())} but only {len(names)} class names")
    return Arrays(x_train, y_train, x_test, y_test, tuple(names), source or str(path), MEAN, STD)


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    check_memory(archive.getmember(f"cifar-100-binary/{name}").size, f"{name} in the archive")
    file = archive.extractfile(f"cifar-100-binary/{name}")
    if file is None:
        raise KeyError(name)
    return file.read()


def _rows(data: bytes, name: str) -> tuple[Array, Array]:
    if not data or len(data) % ROW:
        raise DataError(f"{name} has {len(data)} bytes, which is no whole number of images of {ROW} bytes")
    table = np.frombuffer(data, dtype=np.uint8).reshape(-1, ROW)
    return np.ascontiguousarray(table[:, 2:]).reshape(-1, 3, 32, 32), table[:, 1].astype(np.int64)
