"""Read labelled arrays from files: `.npz`, pairs of `.npy`, idx files. Nothing is unpickled."""

from __future__ import annotations

import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from crwn.data.bounded import check_memory, read_gzip, read_npy, unpackable
from crwn.data.image_set import Array
from crwn.errors import DataError


@dataclass(frozen=True)
class LabelledArrays:
    """Rows and labels as stored in a file; parts that the file does not have are None."""

    x: Array
    y: Array | None
    x_test: Array | None = None
    y_test: Array | None = None


def read_arrays(path: Path) -> LabelledArrays:
    """Read and check the arrays in a file, or in a folder with `x.npy` and `y.npy`."""
    if path.is_dir():
        parts = {part: _load_npy(file) for part in _PARTS if (file := path / f"{part}.npy").is_file()}
    elif path.suffix.lower() == ".npz":
        parts = _load_npz(path)
    elif path.suffix.lower() == ".npy":
        labels = path.with_name(path.stem[:-1] + "y.npy")
        if path.stem != "x" and not path.stem.endswith("_x"):
            raise DataError(f"{path} must be named x.npy or NAME_x.npy, with its labels beside it in {labels.name}")
        parts = {"x": _load_npy(path)} | ({"y": _load_npy(labels)} if labels.is_file() else {})
    else:
        parts = _load_idx(path)
    if "x" not in parts:
        raise DataError(f"{path} has no array 'x': it has {', '.join(sorted(parts)) or 'no arrays'}")
    if ("x_test" in parts) != ("y_test" in parts):
        raise DataError(f"{path} has only one of x_test and y_test: give both or neither")
    for test in ("", "_test"):
        if f"x{test}" in parts:
            check_rows(parts[f"x{test}"], f"x{test} in {path}")
            if f"y{test}" in parts:
                parts[f"y{test}"] = check_labels(parts[f"y{test}"], len(parts[f"x{test}"]), f"y{test} in {path}")
    if "x_test" in parts and parts["x_test"].shape[1:] != parts["x"].shape[1:]:
        raise DataError(
            f"{path}: rows of x are {parts['x'].shape[1:]}, those of x_test {parts['x_test'].shape[1:]}: they differ"
        )
    return LabelledArrays(parts["x"], parts.get("y"), parts.get("x_test"), parts.get("y_test"))


_PARTS = ("x", "y", "x_test", "y_test")


def check_rows(x: Array, where: str) -> None:
    """Raise DataError unless x is `[rows, ...]` of finite numbers with at least one row."""
    if x.dtype.kind not in "buif":
        raise DataError(f"{where} holds {x.dtype} values: it must hold numbers")
    if x.ndim < 2 or x.size == 0:
        raise DataError(f"{where} has shape {x.shape}: it must be [rows, ...] with at least one row")
    if x.dtype.kind == "f":
        bad = ~np.isfinite(x)
        if bad.any():
            place = tuple(int(at) for at in np.argwhere(bad)[0])
            raise DataError(f"{where} has {int(bad.sum())} NaN or infinite values, the first at {place}: remove them")


def check_labels(y: Array, rows: int, where: str) -> Array:
    """Check that there is one label per row and return the labels; whole floats become integers."""
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1 or len(y) != rows:
        raise DataError(f"{where} has shape {y.shape} for {rows} rows of x: there must be one label for each row")
    if y.dtype.kind == "f":
        if not np.isfinite(y).all():
            raise DataError(f"{where} has {int((~np.isfinite(y)).sum())} NaN or infinite labels: remove them")
        whole = (y == np.rint(y)).all() and (np.abs(y) < 2**53).all()  # beyond, floats skip integers
        return y.astype(np.int64) if whole else y
    if y.dtype.kind == "S":
        try:
            return np.char.decode(y, "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"{where} has labels that are not UTF-8 text ({error.reason}): decode them first") from None
    if y.dtype.kind not in "buiU":
        raise DataError(f"{where} holds {y.dtype} labels: use integers or text")
    if y.dtype.kind == "U" and y.size:
        codes = np.ascontiguousarray(y).view(np.dtype(np.uint32).newbyteorder(y.dtype.byteorder))
        if int(codes.max()) > 0x10FFFF:  # Python fails to make text of it
            raise DataError(f"{where} has labels with character {int(codes.max()):#x}, which is beyond Unicode")
    return y


def _load_npy(path: Path) -> Array:
    try:
        with path.open("rb") as file:
            return read_npy(file, path.stat().st_size, str(path))
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} cannot be read as an array ({error}); Python objects are never unpickled") from None


def _load_npz(path: Path) -> dict[str, Array]:
    try:
        with zipfile.ZipFile(path) as archive:
            members = {one.filename.removesuffix(".npy"): one for one in archive.infolist()}
            if "x" not in members:
                held = ", ".join(members) or "no arrays"
                raise DataError(f"{path} has no array 'x': it has {held}; save rows as x and labels as y")
            wanted = {part: members[part] for part in _PARTS if part in members}
            check_memory(sum(one.file_size for one in wanted.values()), str(path))
            parts = {}
            for part, member in wanted.items():
                with archive.open(member) as file:
                    parts[part] = read_npy(file, member.file_size, f"{part} in {path}")
            return parts
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError) as error:
        raise DataError(f"{path} cannot be read as .npz ({error}); Python objects are never unpickled") from None


def is_idx(path: Path) -> bool:
    """Whether a file is named like the idx files of MNIST: `NAME-images-idx3-ubyte`, gzipped or not."""
    return path.name.removesuffix(".gz").endswith(("-ubyte", ".ubyte")) or ".idx" in path.name.removesuffix(".gz")


def read_idx(path: Path) -> Array:
    """Read the uint8 array of an idx file: two zero bytes, type 8, number of axes, big-endian sizes, then the bytes."""
    try:
        check_memory(path.stat().st_size, str(path))
        data = read_gzip(path, unpackable(), str(path)) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read ({error}): it is damaged, get it again") from None
    if len(data) < 4 or data[:3] != b"\x00\x00\x08":
        raise DataError(f"{path} is no idx file of bytes (it starts with {data[:4].hex()!r})")
    start = 4 + 4 * data[3]
    shape = tuple(np.frombuffer(data[4:start], dtype=">u4").astype(int).tolist())
    if len(data) - start != int(np.prod(shape)):
        raise DataError(f"{path} holds {len(data) - start} bytes, but its header has shape {shape}: it is cut short")
    return np.frombuffer(data, dtype=np.uint8, offset=start).reshape(shape)


def _load_idx(path: Path) -> dict[str, Array]:
    """The images of an idx file, and the labels of the file beside it (`...-labels-idx1-ubyte`) where there is one."""
    parts = {"x": read_idx(path)}
    name = path.name.replace("images", "labels").replace("idx3", "idx1")
    for beside in {name.removesuffix(".gz"), name.removesuffix(".gz") + ".gz"}:
        labels = path.with_name(beside)
        if labels != path and labels.is_file():
            parts["y"] = read_idx(labels)
    return parts
