"""Reading within limits: what a file declares is compared with what it has and what is free before memory is taken."""

from __future__ import annotations

import gzip
import math
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from crwn._utils import free_memory
from crwn.errors import DataError

Header = tuple[tuple[int, ...], bool, np.dtype[Any]]  # shape, whether it is in Fortran's order, dtype
BLOCK = 2**22
LARGEST = 2**40  # bytes that are read at most where the system does not say how much memory is free


def check_memory(size: int, what: str) -> None:
    """Raise DataError where so many bytes do not fit into the memory that is free."""
    free = free_memory() or LARGEST
    if size > free:
        raise DataError(f"{what} has {size:,} bytes when unpacked, {free:,} are free: use less data, or more memory")


def read_npy_header(file: IO[bytes]) -> Header:
    """Shape, order and dtype of an array in NumPy's `.npy` format; ValueError for other values than numbers or text."""
    try:
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
        elif version == (2, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_2_0(file)
        else:
            raise ValueError(f"version {version} of the format is not supported")
        if dtype.hasobject or dtype.kind not in "biufUS":
            raise ValueError(f"it has {dtype} values")
        if min(shape, default=0) < 0:
            raise ValueError(f"shape {shape} is negative")
    except Exception as error:  # NumPy evaluates the header as Python, which fails in any way
        raise ValueError(" ".join(str(error).split())[:200]) from None
    return shape, fortran, dtype


def read_npy(file: IO[bytes], size: int, what: str) -> npt.NDArray[Any]:
    """The array in a file of `size` bytes, whose header must describe just these bytes.

    Raises:
        ValueError: it is no array of numbers or text, or has other bytes than it declares.
        DataError: it does not fit into memory.
    """
    start = file.tell()
    shape, fortran, dtype = read_npy_header(file)
    declared, there = math.prod(shape, start=dtype.itemsize), size - (file.tell() - start)
    if declared != there:
        raise ValueError(f"shape {shape} of {dtype} needs {declared:,} bytes, it has {there:,}")
    check_memory(declared, what)
    flat = np.empty(declared, dtype=np.uint8)
    read, view = 0, flat.data
    while part := file.read(min(BLOCK, declared - read) or 1):  # one byte more makes a zip compare its checksum
        if read + len(part) > declared:
            raise ValueError(f"it goes on after {declared:,} bytes")
        view[read : read + len(part)] = part
        read += len(part)
    if read != declared:
        raise ValueError(f"it ends after {read:,} of {declared:,} bytes")
    return flat.view(dtype).reshape(shape, order="F" if fortran else "C") if declared else np.zeros(shape, dtype)


def read_gzip(path: Path, most: int, what: str) -> bytes:
    """The content of a gzipped file; DataError as soon as it is more than `most` bytes."""
    with gzip.open(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise DataError(f"{what} unpacks to more than {most:,} bytes: use less data, or more memory")
    return data


def unpackable() -> int:
    """Bytes of text that fit into memory together with what is made of them."""
    return (free_memory() or LARGEST) // 8
