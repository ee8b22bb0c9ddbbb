"""Read labelled arrays from files: `.npz`, pairs of `.npy`, CSV with a `label` column. Nothing is unpickled."""

from __future__ import annotations

import csv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from crwn.data.image_set import Array
from crwn.errors import DataError


@dataclass(frozen=True)
class LabelledArrays:
    """Rows and labels as stored in a file; parts that the file does not have are None."""

    x: Array
    y: Array | None
    x_test: Array | None = None
    y_test: Array | None = None
    columns: tuple[str, ...] | None = None  # column names, if the file has any


def read_arrays(path: Path) -> LabelledArrays:
    """Read and check the arrays in a file, or in a folder with `x.npy` and `y.npy`."""
    columns: tuple[str, ...] | None = None
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
        parts, columns = _load_csv(path)
    if "x" not in parts:
        raise DataError(f"{path} has no array 'x' (it has: {', '.join(sorted(parts)) or 'none'})")
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
    return LabelledArrays(parts["x"], parts.get("y"), parts.get("x_test"), parts.get("y_test"), columns)


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
    return y


def _load_npy(path: Path) -> Array:
    try:
        # Opened here because NumPy does not close a damaged file that it opened.
        with path.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} cannot be read as an array ({error}); Python objects are never unpickled") from None
    if not isinstance(loaded, np.ndarray):
        raise DataError(f"{path} is no .npy file")
    return loaded


def _load_npz(path: Path) -> dict[str, Array]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {part: archive[part] for part in archive.files if part in _PARTS}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, AttributeError, TypeError) as error:
        raise DataError(f"{path} cannot be read as .npz ({error}); Python objects are never unpickled") from None


def _load_csv(path: Path) -> tuple[dict[str, Array], tuple[str, ...]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = [column.strip() for column in next(csv.reader(file), [])]
            if len(header) == 1 and (other := next((sign for sign in ";\t|" if sign in header[0]), None)):
                raise DataError(f"{path} looks separated by {other!r}: columns must have commas between them")
            # Distinct whole numbers may be column names: years, wavelengths, or the default names of pandas.
            named = len(set(header)) == len(header) and all(column.isdecimal() for column in header)
            if header and not named and all(_is_number(column) for column in header):
                raise DataError(f"{path} has numbers in its first line: it must name the columns, labels as 'label'")
            if not any(column != "label" for column in header):
                raise DataError(f"{path} has no columns beside 'label': its first line must name the columns")
            if header.count("label") > 1:
                raise DataError(f"{path} has {header.count('label')} columns named 'label': there can be one")
            # All lines in memory: NumPy parses them twice, once for the values and once for the labels.
            lines = [line for line in file if line.strip()]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read as CSV ({error})") from None
    if not lines:
        raise DataError(f"{path} has no rows below its header")
    _check_widths(lines, len(header), path)
    columns = [at for at, column in enumerate(header) if column != "label"]
    names = tuple(header[at] for at in columns)
    try:
        x = np.loadtxt(lines, dtype=np.float32, delimiter=",", comments=None, usecols=columns, quotechar='"', ndmin=2)
        if len(columns) == len(header):
            return {"x": x}, names
        label = header.index("label")
        y = np.loadtxt(lines, dtype=str, delimiter=",", comments=None, usecols=label, quotechar='"', ndmin=1)
    except ValueError as error:
        raise DataError(f"{path}: {_wrong_cell(lines, header, columns) or str(error).rstrip('.')}") from None
    y = np.char.strip(y)
    if (y == "").any():
        raise DataError(f"{path}: row {int((y == '').argmax())} below the header has no label: give every row one")
    return {"x": x, "y": _as_integers(y)}, names


def _check_widths(lines: list[str], columns: int, path: Path) -> None:
    """Raise DataError for a row with more or fewer fields than the header; `np.loadtxt` does not check this."""
    if any('"' in line for line in lines):
        try:
            counts = [len(row) for row in csv.reader(lines, strict=True)]
        except csv.Error as error:
            raise DataError(f"{path} cannot be read as CSV ({error}): look for a quote that is not closed") from None
    else:
        counts = [line.count(",") + 1 for line in lines]
    for number, fields in enumerate(counts):
        if fields != columns:
            raise DataError(
                f"{path}: row {number} below the header has {fields} fields, the header names {columns} columns "
                "(rows count from 0)"
            )


def _wrong_cell(lines: list[str], header: list[str], columns: list[int]) -> str | None:
    """Describe the first cell that is not a number, and its position."""
    for number, row in enumerate(csv.reader(lines)):
        for at in columns:
            if not _is_number(row[at]):
                what = f"{row[at].strip()!r} is not a number" if row[at].strip() else "there is nothing"
                hint = "" if "label" in header else "; no column is named 'label', so all of them must be numbers"
                return f"{what} in column {header[at]!r}, row {number} below the header (counted from 0){hint}"
    return None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _as_integers(labels: Array) -> Array:
    try:
        return labels.astype(np.int64)
    except (ValueError, OverflowError):
        return labels
