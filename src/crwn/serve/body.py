"""Request bodies: read up to a limit, then parsed as JSON, npy, npz or CSV; nothing is unpickled.

Parsing yields arrays; their shapes and values are checked once, where the learner prepares them.
"""

from __future__ import annotations

import asyncio
import io
import zipfile
from collections.abc import Hashable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect

from crwn.data.arrays import check_labels
from crwn.data.tables import labels_of, learn_encoding, read_csv
from crwn.errors import DataError
from crwn.serve.errors import ServeError, describe_invalid

Array = npt.NDArray[Any]
Labelled = tuple[Array, list[Hashable]]  # rows and their labels
Model = TypeVar("Model", bound=BaseModel)

JSON = "application/json"
NPY = "application/x-npy"
NPZ = "application/x-npz"
CSV = "text/csv"
CONTEXT = "application/vnd.safetensors"
UNPACKED = 2**28  # bytes that a gzipped CSV may unpack to
_ALIASES = {"application/zip": NPZ, "application/octet-stream": CONTEXT, "application/csv": CSV}


async def read_body(request: Request, limit: int, seconds: float) -> bytes:
    """Reads the whole body; raises ServeError as soon as it is too large or takes too long."""
    too_large = ServeError(413, "body_too_large", f"the body is larger than {limit:,} bytes: send less at once")
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > limit:
        raise too_large
    parts, size = [], 0
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                size += len(part)
                if size > limit:
                    raise too_large
                parts.append(part)
    except TimeoutError:
        raise ServeError(408, "body_too_slow", f"the body did not arrive within {seconds:g} s: send it again") from None
    except ClientDisconnect:
        raise ServeError(400, "disconnected", "the connection was closed before the whole body arrived") from None
    return b"".join(parts)


def content_type(request: Request, *allowed: str) -> str:
    """The content type of the body, one of those allowed; JSON where the request has none."""
    given = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    given = _ALIASES.get(given, given)
    if given not in allowed:
        raise ServeError(415, "unknown_content_type", f"content type {given[:60]!r} is not one of {', '.join(allowed)}")
    return given


def parse_json(model: type[Model], data: bytes) -> Model:
    """Parses a JSON body as this pydantic model."""
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        raise ServeError(422, "invalid_request", describe_invalid(error)) from None
    except RecursionError:
        raise ServeError(422, "invalid_request", "the JSON is nested too deeply") from None


def numbers(rows: list[Any], what: str = "rows") -> Array:
    """Nested lists of numbers as an array."""
    problem = DataError(f"{what} must be lists of numbers, all of the same length")
    try:
        array = np.asarray(rows)
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise problem from None
    if array.dtype.kind not in "biuf":
        raise problem
    return array


def labels(values: list[Any]) -> list[Hashable]:
    """Labels from JSON: text, numbers, true, false, null, or lists of these, which become tuples."""
    return [_label(value) for value in values]


def _label(value: Any) -> Hashable:
    if isinstance(value, list):
        return tuple(_label(part) for part in value)
    if isinstance(value, dict):
        raise DataError("a label is an object: labels are text, numbers, true, false, null, or lists of these")
    label: Hashable = value
    return label


def parse_npy(data: bytes, limit: int, what: str = "the body") -> Array:
    """One array in NumPy's `.npy` format; its declared size is checked before memory is allocated for it."""
    file = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        elif version == (2, 0):
            shape, _, dtype = np.lib.format.read_array_header_2_0(file)
        else:
            raise ValueError(f"version {version} of the format is not supported")
        size = dtype.itemsize
        for side in shape:
            size *= side
        if dtype.hasobject or dtype.kind not in "biufUS":
            raise ValueError(f"it has {dtype} values")
        if size != len(data) - file.tell():
            raise ValueError(f"shape {shape} does not match its {len(data):,} bytes")
        if size > limit:
            raise ValueError(f"it has {size:,} bytes, the limit is {limit:,}")
        file.seek(0)
        array: Array = np.load(file, allow_pickle=False)
    except (ValueError, TypeError, OverflowError, EOFError, SyntaxError, MemoryError, RecursionError) as error:
        problem = " ".join(str(error).split())[:200]
        raise DataError(f"{what} is not an array in .npy format: {problem}") from None
    return array


def parse_npz(data: bytes, limit: int) -> Labelled:
    """The arrays `x` and `y` of an `.npz`; their sizes are checked before they are unpacked."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {info.filename: info for info in archive.infolist()}
            wanted = {key: members[f"{key}.npy"] for key in ("x", "y") if f"{key}.npy" in members}
            missing = {"x", "y"} - wanted.keys()
            if missing:
                raise DataError(f"the .npz has no array {' and no '.join(sorted(missing))}: save it with x= and y=")
            if sum(info.file_size for info in wanted.values()) > limit:
                raise ServeError(413, "body_too_large", f"the .npz unpacks to more than {limit:,} bytes")
            # Reading a member returns no more bytes than it declares.
            packed = {key: archive.read(info) for key, info in wanted.items()}
    except (zipfile.BadZipFile, ValueError, EOFError, NotImplementedError, RuntimeError, OSError) as error:
        raise DataError(f"the body is not an .npz archive: {' '.join(str(error).split())[:200]}") from None
    except Exception as error:
        if type(error).__module__ in ("zlib", "lzma", "_lzma"):
            raise DataError(f"the .npz is damaged: {error}") from None
        raise
    x, y = (parse_npy(packed[key], limit, f"{key} of the .npz") for key in ("x", "y"))
    return x, list(check_labels(y, len(y) if y.ndim else 0, "y").tolist())


def parse_csv(data: bytes) -> Labelled:
    """The rows and the column `label` of a CSV whose first line names the columns."""
    table = read_csv(data, "the CSV", most=UNPACKED)
    y = labels_of(table, "label")
    encoding = learn_encoding(table)
    if not encoding.plain:
        raise DataError("the CSV has columns that are not numbers without gaps: encode them first")
    return encoding.apply(table), list(y.tolist())
