"""Columns of text: few values as one input each, many by the hashes of their words, sentences by a text backbone."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crwn.data.image_set import Array
from crwn.data.tables.cells import as_text, is_blank
from crwn.data.tables.columns import BooleanColumn, Column, DateColumn, NumberColumn, Place
from crwn.data.tables.table import Cells
from crwn.models.backbones.text import text_backbone

_WORDS = re.compile(r"\w+")


@dataclass(frozen=True)
class _TextColumn(Column):
    """Text: only an empty cell has no value."""

    @property
    def what(self) -> str:
        return "text"

    def lacks(self, cell: Any) -> bool:
        return is_blank(cell)


@dataclass(frozen=True)
class OneHotColumn(_TextColumn):
    """Text with few different values: one input each, 1 for the cell's own; a value not seen in training is all 0."""

    kind = "one-hot"
    categories: tuple[str, ...] = ()

    @property
    def values(self) -> int:
        return len(self.categories)

    def encode(self, cells: Cells, place: Place) -> Array:
        at = {category: i for i, category in enumerate(self.categories)}
        out = np.zeros((len(cells), self.width), dtype=np.float32)
        for row, cell in enumerate(cells):
            if not self.lacks(cell):
                found = at.get(as_text(cell))
                if found is not None:
                    out[row, found] = 1.0
            elif self.flag:
                out[row, -1] = 1.0
        return out


@dataclass(frozen=True)
class HashedColumn(_TextColumn):
    """Text with many different values: every word adds 1 or -1 to one of `buckets` inputs, both chosen by its hash."""

    kind = "hashed"
    buckets: int = 32

    @property
    def values(self) -> int:
        return self.buckets

    def encode(self, cells: Cells, place: Place) -> Array:
        out = np.zeros((len(cells), self.width), dtype=np.float32)
        for row, cell in enumerate(cells):
            if self.lacks(cell):
                if self.flag:
                    out[row, -1] = 1.0
                continue
            for word in _WORDS.findall(as_text(cell).lower()):
                # CRC-32 is the same on every machine and in every version, unlike Python's hash.
                code = zlib.crc32(word.encode())
                out[row, code % self.buckets] += 1.0 if code & 2**31 else -1.0
        return out


@dataclass(frozen=True)
class EmbeddedColumn(_TextColumn):
    """Text in sentences: the features of a text backbone.

    Args:
        backbone: its name.
        weights: the checksum of its weights.
        features: how many inputs a text becomes.
    """

    kind = "embedded"
    backbone: str = "wordllama"
    weights: str = ""
    features: int = 256

    @property
    def values(self) -> int:
        return self.features

    def encode(self, cells: Cells, place: Place) -> Array:
        blank = np.fromiter((self.lacks(cell) for cell in cells), dtype=bool, count=len(cells))
        out = np.zeros((len(cells), self.width), dtype=np.float32)
        texts = ["" if lacks else as_text(cell) for cell, lacks in zip(cells, blank, strict=True)]
        out[:, : self.features] = text_backbone(self.backbone, self.weights)(texts)
        if self.flag:
            out[:, -1] = blank
        return out


KINDS: dict[str, type[Column]] = {
    kind.kind: kind for kind in (NumberColumn, BooleanColumn, DateColumn, OneHotColumn, HashedColumn, EmbeddedColumn)
}


def read_column(record: Any) -> Column:
    """The column of a stored record.

    Raises:
        ValueError, TypeError, KeyError: it is not what `Column.record` returns.
    """
    if isinstance(record, str):
        return NumberColumn(record)
    given = dict(record)
    kind = KINDS[given.pop("kind")]
    if "categories" in given:
        given["categories"] = tuple(str(one) for one in given["categories"])
    column = kind(**given)
    if not isinstance(column.name, str) or not isinstance(column.flag, bool) or not 0 < column.width < 2**16:
        raise ValueError(f"column {column.name!r} is damaged")
    return column


def texts(columns: Sequence[Column]) -> list[OneHotColumn | HashedColumn]:
    """The columns of text."""
    return [column for column in columns if isinstance(column, OneHotColumn | HashedColumn)]
