"""Request bodies: read up to a limit, then parsed as JSON, npy, npz, CSV or raw numbers; nothing is unpickled.

Parsing yields arrays; their shapes and values are checked once, where the learner prepares them.
"""

from __future__ import annotations

import asyncio
import io
import math
import zipfile
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import orjson
from pydantic import BaseModel, ValidationError
from starlette.types import Receive

from crwn.data.arrays import check_labels
from crwn.data.bounded import read_npy_header
from crwn.data.tables import Table, read_csv
from crwn.errors import DataError
from crwn.serve.errors import ServeError, describe_invalid
from crwn.serve.held import HeldBodies

Array = npt.NDArray[Any]
Labelled = tuple[Array, list[Hashable]]  # rows and their labels
Model = TypeVar("Model", bound=BaseModel)

JSON = "application/json"
NPY = "application/x-npy"
NPZ = "application/x-npz"
CSV = "text/csv"
CONTEXT = "application/vnd.safetensors"
DEEPEST = 16  # lists in lists of one label
SIDES = 32  # of the shape of raw rows
COUNTED = 2**18  # bytes of a body that are counted together; fewer count for nothing
UNPACKED, CELLS = 2**28, 20_000_000  # bytes that a gzipped CSV may unpack to, and cells of any CSV
RAW = "application/octet-stream"
RAW_DTYPES: dict[str, np.dtype[Any]] = {"float32": np.dtype("<f4"), "uint8": np.dtype("u1")}
_ALIASES = {"application/zip": NPZ, RAW: CONTEXT, "application/csv": CSV}


async def read_body(
    receive: Receive, headers: Mapping[str, str], limit: int, seconds: float, bodies: HeldBodies
) -> bytes:
    """Reads the whole body; raises ServeError as soon as it is too large or takes too long, or all together are."""
    declared = headers.get("content-length", "0")
    if not declared.isdigit() or int(declared) > limit:
        raise too_large(limit)
    if declared == "0" and "transfer-encoding" not in headers:
        return b""
    try:
        async with asyncio.timeout(seconds):
            return await _read_parts(receive, limit, bodies)
    except TimeoutError:
        raise ServeError(408, "body_too_slow", f"the body did not arrive within {seconds:g} s: send it again") from None


def too_large(limit: int) -> ServeError:
    return ServeError(413, "body_too_large", f"the body is larger than {limit:,} bytes: send less at once")


async def _read_parts(receive: Receive, limit: int, bodies: HeldBodies) -> bytes:
    parts, size, counted = [], 0, 0
    try:
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ServeError(400, "disconnected", "the connection was closed before the whole body arrived")
            part: bytes = message.get("body", b"")
            size += len(part)
            if size > limit:
                raise too_large(limit)
            parts.append(part)
            if size - counted > COUNTED:
                bodies.add(size - counted)
                bodies.reading += counted == 0
                counted = size
            if not message.get("more_body", False):
                return part if len(parts) == 1 else b"".join(parts)
            if counted:
                await bodies.turn()
    finally:
        bodies.reading -= counted > 0


def content_type(headers: Mapping[str, str], *allowed: str) -> str:
    """The content type of the body, one of those allowed; JSON where the request has none."""
    given = headers.get("content-type", JSON)
    if given in allowed:
        return given
    given = given.partition(";")[0].strip().lower()
    meant = given if given in allowed else _ALIASES.get(given, given)
    if meant in allowed:
        return meant
    if given not in allowed:
        raise ServeError(415, "unknown_content_type", f"content type {given[:60]!r} is not one of {', '.join(allowed)}")
    return given


def parse_json(model: type[Model], data: bytes) -> Model:
    """Parses a JSON body as this pydantic model."""
    try:
        return checked(model, orjson.loads(data))
    except orjson.JSONDecodeError:  # the slower parser also takes NaN, and names the place of an error
        pass
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        raise ServeError(422, "invalid_request", describe_invalid(error)) from None
    except RecursionError:
        raise ServeError(422, "invalid_request", "the JSON is nested too deeply") from None


def checked(model: type[Model], values: Any) -> Model:
    """Parsed JSON as this pydantic model."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise ServeError(422, "invalid_request", describe_invalid(error)) from None


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
    return [_label(value, DEEPEST) for value in values]


def _label(value: Any, depth: int) -> Hashable:
    if isinstance(value, list):
        if depth == 0:
            raise DataError(f"a label is nested more than {DEEPEST} deep: use text or a number")
        return tuple(_label(part, depth - 1) for part in value)
    if isinstance(value, dict):
        raise DataError("a label is an object: labels are text, numbers, true, false, null, or lists of these")
    label: Hashable = value
    return label


def parse_npy(data: bytes, limit: int, what: str = "the body") -> Array:
    """One array in NumPy's `.npy` format, without a copy; its declared size is compared with the bytes there are."""
    file = io.BytesIO(data)
    try:
        shape, fortran, dtype = read_npy_header(file)
        size = math.prod(shape, start=dtype.itemsize)
        if size != len(data) - file.tell():
            raise ValueError(f"shape {shape} does not match its {len(data):,} bytes")
        if size > limit:
            raise ValueError(f"it has {size:,} bytes, the limit is {limit:,}")
        flat = np.frombuffer(data, dtype, offset=file.tell()) if size else np.zeros(0, dtype)
        array: Array = flat.reshape(shape, order="F" if fortran else "C")
    except ValueError as error:
        problem = " ".join(str(error).split())[:200]
        raise DataError(f"{what} is not an array in .npy format: {problem}") from None
    return array


def parse_raw(data: bytes, headers: Mapping[str, str]) -> tuple[Array, list[str] | None]:
    """Raw numbers in the order of their rows, without a copy, and the names of their tasks where the body has them.

    The headers describe them: `X-Shape: 256,784`, `X-Dtype: float32` (the default) or `uint8`, little endian, and
    `X-Tasks-Bytes: N` where the first N bytes of the body are a JSON list with one task name per row.
    """
    dtype = RAW_DTYPES.get(headers.get("x-dtype", "float32"))
    names = headers.get("x-tasks-bytes", "0")
    sides = headers.get("x-shape", "").split(",")
    if dtype is None or not _is_count(names) or not all(_is_count(side.strip()) for side in sides):
        raise DataError(
            f"raw rows need headers such as X-Shape: 256,784 and X-Dtype: {' or '.join(RAW_DTYPES)}; with "
            "X-Tasks-Bytes, the body begins with so many bytes of task names"
        )
    if len(sides) > SIDES:
        raise DataError(f"X-Shape has {len(sides)} numbers: give at most {SIDES}")
    shape, start = [int(side) for side in sides], int(names)
    if start > len(data):
        raise DataError(f"X-Tasks-Bytes {start:,} is more than the {len(data):,} bytes sent")
    if math.prod(shape, start=dtype.itemsize) != len(data) - start or not len(data) > start:
        given = ",".join(sides)[:60]
        raise DataError(f"X-Shape {given} of {dtype} does not match the {len(data) - start:,} bytes sent")
    array = np.frombuffer(data, dtype, offset=start).reshape(shape)
    return array, _task_names(data[:start]) if start else None


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 12


def _task_names(data: bytes) -> list[str]:
    try:
        names = orjson.loads(data)
    except orjson.JSONDecodeError:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise DataError("the first X-Tasks-Bytes of the body are not a JSON list of task names")
    return names


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


def parse_csv(
    data: bytes,
    label: str = "label",
    ignore: Sequence[str] = (),
    text: Sequence[str] = (),
    most: int = UNPACKED,
    cells: int = CELLS,
) -> Table:
    """A CSV whose first line names the columns, one of them that of the labels."""
    table = read_csv(data, "the CSV", most=most, cells=cells)
    table.find(label)
    return table.using(label=label, ignore=ignore, text=text)
