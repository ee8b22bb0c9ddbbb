"""Find the encoding of a table from its training rows: kinds of columns, and values to encode them with."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

from crwn.data.tables.cells import as_boolean, as_days, as_number, as_text, date_form, is_blank, is_missing
from crwn.data.tables.columns import BooleanColumn, Column, DateColumn, NumberColumn
from crwn.data.tables.encoding import TableEncoding
from crwn.data.tables.table import Cells, Table, listed
from crwn.data.tables.text_columns import EmbeddedColumn, HashedColumn, OneHotColumn, texts
from crwn.errors import DataError, MissingExtraError
from crwn.models.backbones.text import text_backbone

CATEGORIES = 32  # a column of text with more different values is hashed
BUCKETS = 64
WORDS = 3  # that a cell has at least in a column of sentences, in the median


def learn_encoding(table: Table, most: int | None = None) -> TableEncoding:
    """The encoding of a table's columns, by what their cells are.

    Numbers and booleans are one input, dates several, text one per value up to `CATEGORIES` values and `BUCKETS`
    hashed ones beyond; columns of sentences among those that the table names as text are embedded by a text backbone
    where its package is installed. A column with missing cells gets one more input that is 1 where a cell is missing.

    Args:
        most: inputs of the model; columns of text are hashed into fewer inputs to fit.

    Raises:
        DataError: a column is neither numbers nor text, or the table does not fit.
    """
    text, unused = table.text, {table.label, *table.ignored}
    chosen = [at for at, name in enumerate(table.names) if name not in unused]
    if not chosen:
        raise DataError(f"{table.source} has no columns beside {listed(sorted(unused))}: nothing to learn from")
    if not len(table):
        raise DataError(f"{table.source} has no rows")
    names = [table.names[at] for at in chosen]
    if not set(names) & set(text) and table.block(chosen) is not None:
        columns: tuple[Column, ...] = tuple(NumberColumn(name) for name in names)
    else:
        columns = tuple(
            _named_text(name, table.column(at), table.backbone)
            if name in text
            else _learn_column(name, table.column(at), table)
            for name, at in zip(names, chosen, strict=True)
        )
    found = TableEncoding(columns, table.label, tuple(name for name in table.ignored if name != table.label))
    return found if most is None or found.plain else _narrowed(found, most, table.source)


def identifiers(table: Table, encoding: TableEncoding) -> list[str]:
    """Names of columns that look like identifiers: a different text in every row, or numbers that count the rows."""
    found = []
    for column in encoding.columns:
        if len(table) < 20 or table.names.count(column.name) > 1:
            continue
        if isinstance(column, HashedColumn) and not column.flag:
            cells = table.column(table.find(column.name))
            if len({as_text(cell) for cell in cells}) == len(table) and " " not in as_text(cells[0]):
                found.append(column.name)
        elif column == NumberColumn(column.name):
            numbers = table.block([table.find(column.name)])
            if numbers is not None and bool((np.diff(numbers[:, 0]) == 1).all()):
                found.append(column.name)
    return found


def _learn_column(name: str, cells: Cells, table: Table) -> Column:
    present = [cell for cell in cells if not is_missing(cell)]
    flag = len(present) < len(cells)
    if not present:
        raise DataError(f"column {name!r} of {table.source} has no values: leave it out (--ignore {name})")
    if all(_parses(as_boolean, cell) for cell in present) and not all(_parses(as_number, cell) for cell in present):
        return BooleanColumn(name, flag)
    comma = table.separator != "," and not all(_parses(as_number, cell) for cell in present)
    numbers = [cell for cell in present if _parses(as_number, cell, comma)]
    if len(numbers) == len(present):
        median = float(f"{np.median([as_number(cell, comma) for cell in present]):.6g}") if flag else 0.0
        return NumberColumn(name, flag, median, comma)
    if (form := date_form(present)) is not None:
        days = [as_days(cell, form) for cell in present]
        times = any(day % 1 for day in days)
        return DateColumn(name, flag, form, times, round(float(np.median(days)), 3) if flag else 0.0)
    if 2 * len(numbers) > len(present):
        row = next(at for at, cell in enumerate(cells) if not is_missing(cell) and not _parses(as_number, cell, comma))
        raise DataError(
            f"{str(cells[row]).strip()[:60]!r} is not a number in column {name!r} of {table.source}, "
            f"{table.place(row)}, where most cells are numbers: correct it, or read the column as text (--text {name})"
        )
    return _text_column(name, cells)


def _named_text(name: str, cells: Cells, given: str | None) -> Column:
    """A column that the user calls text: embedded where it has sentences and the text backbone is installed.

    Args:
        given: the backbone that the user chose, which embeds texts of any length.
    """
    if given is None and not is_prose(cells):
        return _text_column(name, cells)
    try:
        backbone = text_backbone(given or EmbeddedColumn.backbone)
    except MissingExtraError:
        if given is not None:
            raise
        return _text_column(name, cells)
    flag = any(is_blank(cell) for cell in cells)
    return EmbeddedColumn(name, flag, backbone.name, backbone.weights, backbone.features)


def is_prose(cells: Cells) -> bool:
    """Whether half of the cells or more have several words.

    >>> is_prose(["call me now please", "SW1A 1AA", "see you at nine"]), is_prose(["8001", "SW1A 1AA"])
    (True, False)
    """
    present = [as_text(cell) for cell in cells if not is_blank(cell)]
    return bool(present) and float(np.median([len(text.split()) for text in present])) >= WORDS


def _text_column(name: str, cells: Cells) -> Column:
    counts = Counter(as_text(cell) for cell in cells if not is_blank(cell))
    flag = counts.total() < len(cells)
    if len(counts) <= CATEGORIES:
        return OneHotColumn(name, flag, tuple(sorted(counts)))
    return HashedColumn(name, flag, BUCKETS)


def _parses(parse: Any, *given: Any) -> bool:
    try:
        parse(*given)
    except (ValueError, OverflowError):
        return False
    return True


def _narrowed(encoding: TableEncoding, most: int, source: str) -> TableEncoding:
    """The encoding with its columns of text hashed into as few inputs as fit: narrow ones stay as they are."""
    wide = sorted(texts(encoding.columns), key=lambda column: column.width)
    room = most - (encoding.width - sum(column.width for column in wide))
    narrow: dict[str, Column] = {}
    for left, column in zip(range(len(wide), 0, -1), wide, strict=True):
        share = max(0, room) // left
        if column.width > share:
            if share < 2 + column.flag:
                raise DataError(
                    f"{source} needs {encoding.width} inputs, this model has {most}: learn it in a model of its own, "
                    "or leave columns out (--ignore)"
                )
            narrow[column.name] = HashedColumn(column.name, column.flag, share - column.flag)
        room -= min(column.width, share)
    if room < 0:
        raise DataError(
            f"{source} needs {encoding.width} inputs, this model has {most}: learn it in a model of its own, "
            "or leave columns out (--ignore)"
        )
    return replace(encoding, columns=tuple(narrow.get(column.name, column) for column in encoding.columns))
