"""Read CSV as programs write it: separated by commas, semicolons, tabs or bars, in UTF-8 or UTF-16, gzipped or not."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import zlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from crwn._utils import free_memory
from crwn.data.bounded import LARGEST, check_memory, unpackable
from crwn.data.image_set import Array
from crwn.data.tables.cells import as_number
from crwn.data.tables.table import Table
from crwn.errors import DataError

SEPARATORS = ",;\t|"
GZIP = b"\x1f\x8b"
CELL_BYTES = 120  # of memory that a short cell needs while a table is read
# Text is split into lines, and lines into numbers, in parts: a single call of the library for all of it would hold
# Python's lock for seconds, and a service could not answer anybody meanwhile.
PART_CHARACTERS, PART_CELLS = 2**18, 2**15


def read_csv(
    data: Path | bytes,
    source: str | None = None,
    most: int | None = None,
    *,
    cells: int | None = None,
    header: bool = True,
) -> Table:
    """A CSV whose first line names the columns; the separator and the encoding of the text are detected.

    Args:
        data: the file, or its content.
        source: its name in messages.
        most: refuse gzipped content that unpacks to more bytes; by default a share of the memory that is free.
        cells: refuse text with more of them, before it is split; by default what fits into the memory that is free.
        header: whether the first line names the columns; else it is a row, and they are `column 1` and so on.
    """
    source = source or str(data if isinstance(data, Path) else "the CSV")
    lines = _lines(data, source, most, cells)
    start = next((at for at, line in enumerate(lines) if line.strip()), 0)
    first = lines[start].strip() if lines else ""
    separator = None
    if first.lower().startswith("sep=") and len(first) == 5:  # a line that spreadsheets write
        separator, start = first[4], start + 1
    separator = separator or _separator(lines[start : start + 2], source)
    parsed = _CSVLines(lines, start, separator, source, header=header)
    _check_header(parsed.header, source)
    return Table(
        source, tuple(parsed.header), len(parsed), parsed.column, parsed.numbers, lambda: parsed.records()[1], separator
    )


class _CSVLines:
    """The lines of a CSV, parsed when they are asked for: all numbers at once by NumPy, or cell by cell."""

    def __init__(self, lines: list[str], start: int, separator: str, source: str, *, header: bool) -> None:
        self.separator, self.source = separator, source
        self._lines, self._start = lines, start + header  # of the first row
        self._quoted = any('"' in line for line in lines)
        header_line = next(csv.reader(lines[start : start + 1], delimiter=separator), []) if lines else []
        self.header = [name.strip() if header else f"column {at}" for at, name in enumerate(header_line, start=1)]
        self._body = [line for line in lines[self._start :] if line.strip()] if not self._quoted else []
        self.column = cache(self._column)
        self.records = cache(self._records)

    def __len__(self) -> int:
        return len(self.records()[0]) if self._quoted else len(self._body)

    def numbers(self, at: Sequence[int]) -> Array | None:
        """These columns as float32, or None where a cell is not a finite number."""
        if self._quoted or not self._body:
            return None
        wanted = len(self.header) - 1
        if any(line.count(self.separator) != wanted for line in self._body):
            self.records()  # raises with the line
        found: Array = np.empty((len(self._body), len(at)), dtype=np.float32)
        size = max(1, PART_CELLS // (wanted + 1))
        for first in range(0, len(self._body), size):
            part = self._body[first : first + size]
            try:
                found[first : first + size] = np.loadtxt(
                    part, dtype=np.float32, delimiter=self.separator, comments=None, usecols=list(at), ndmin=2
                )
            except ValueError:
                return None
        return found if np.isfinite(found).all() else None

    def _column(self, at: int) -> list[str]:
        return [row[at] for row in self.records()[0]]

    def _records(self) -> tuple[list[list[str]], list[int]]:
        """The cells of every row, and the line that each row begins in."""
        rows, starts = [], []
        reader = csv.reader(self._lines[self._start :], delimiter=self.separator, strict=True)
        above = self._start + 1  # lines count from 1
        begin = 0
        try:
            for row in reader:
                if row and (len(row) > 1 or row[0].strip()):
                    if len(row) != len(self.header):
                        raise DataError(
                            f"{self.source}: line {above + begin} has {len(row)} fields, the header names "
                            f"{len(self.header)} columns"
                        )
                    rows.append(row)
                    starts.append(above + begin)
                begin = reader.line_num
        except csv.Error as error:
            raise DataError(
                f"{self.source} cannot be read as CSV ({error}): look at line {above + begin} for a quote that is "
                "not closed"
            ) from None
        return rows, starts


def _lines(data: Path | bytes, source: str, most: int | None, cells: int | None) -> list[str]:
    try:
        most = unpackable() if most is None else most
        cells = (free_memory() or LARGEST) // CELL_BYTES if cells is None else cells
        if isinstance(data, Path):
            check_memory(data.stat().st_size, source)
        raw = data if isinstance(data, bytes) else data.read_bytes()
        if raw[:2] == GZIP:
            with gzip.open(io.BytesIO(raw)) as file:
                raw = file.read(most + 1)
            if len(raw) > most:
                raise DataError(f"{source} unpacks to more than {most:,} bytes: send less at once")
        text = _decoded(raw)
    except UnicodeError:
        raise DataError(f"{source} cannot be read as CSV: it is no text in UTF-8, UTF-16 or Windows-1252") from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{source} cannot be read as CSV ({error})") from None
    if "\0" in text:
        raise DataError(f"{source} cannot be read as CSV: it has zero bytes, as files that are no text do")
    found = sum(text.count(sign) for sign in SEPARATORS + "\r\n")
    if found > cells:
        raise DataError(f"{source} has about {found:,} cells, the most is {cells:,}: send or read less at once")
    lines: list[str] = []
    whole = io.StringIO(text, newline=None)
    while part := whole.readlines(PART_CHARACTERS):
        lines += part
    return lines


def _decoded(raw: bytes) -> str:
    """The text of a file: UTF-16 where it begins with its mark, else UTF-8, else the Western code page of Windows."""
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return raw.decode("utf-16")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("cp1252")


def _separator(lines: Sequence[str], source: str) -> str:
    """The sign that separates the columns: of those in the header, one that splits the first row into as many."""
    if not lines:
        return ","
    found = sorted((sign for sign in SEPARATORS if sign in lines[0]), key=lambda sign: -lines[0].count(sign))
    for sign in found:
        try:
            counts = {len(row) for row in csv.reader(lines, delimiter=sign)}
        except csv.Error as error:
            raise DataError(f"{source} cannot be read as CSV ({error})") from None
        if len(counts) == 1:
            return sign
    return found[0] if found else ","


def _check_header(header: Sequence[str], source: str) -> None:
    if not any(header):
        raise DataError(f"{source} has no columns: its first line must name them")
    # Distinct whole numbers may be column names: years, wavelengths, or the default names of pandas.
    named = len(set(header)) == len(header) and all(column.isdecimal() for column in header)
    if not named and all(_is_number(column) for column in header):
        raise DataError(f"{source} has numbers in its first line: it must name the columns, labels as 'label'")


def _is_number(text: str) -> bool:
    try:
        as_number(text)
    except ValueError:
        return False
    return True
