"""Columns of sentences: embedded where they are named as text, records, gaps, and without the package."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import numpy as np
import pytest

from crwn.data.tables import Table, is_texts, learn_encoding, table_of_objects, table_of_texts
from crwn.data.tables.encoding import read_encoding
from crwn.data.tables.text_columns import EmbeddedColumn, HashedColumn, OneHotColumn
from crwn.models.backbones.text import text_backbone, wordllama

MAILS = ["please pay the invoice", "lunch at noon today?", "you have won a prize", "minutes of the meeting"]


def mails(*text: str) -> Table:
    table = table_of_objects([{"body": body, "urgent": at % 2, "label": at} for at, body in enumerate(MAILS)])
    return replace(table, text=text)


def test_a_named_column_of_sentences_is_embedded_beside_the_others() -> None:
    encoding = learn_encoding(mails("body"))
    assert isinstance(encoding.columns[0], EmbeddedColumn)
    assert encoding.width == 257
    found = encoding.apply(mails())
    assert np.allclose(found[:, :256], text_backbone("wordllama")(MAILS))
    assert found[:, 256].tolist() == [0, 1, 0, 1]
    assert read_encoding(encoding.record()) == encoding


def test_a_column_that_is_not_named_stays_as_it_was() -> None:
    assert isinstance(learn_encoding(mails()).columns[0], OneHotColumn)


def test_codes_that_are_read_as_text_are_not_embedded() -> None:
    codes = replace(table_of_objects([{"zip": 8000 + at, "label": at % 2} for at in range(40)]), text=("zip",))
    assert isinstance(learn_encoding(codes).columns[0], HashedColumn)


def test_missing_texts_have_a_flag() -> None:
    table = replace(table_of_objects([{"body": body, "label": 0} for body in [*MAILS, ""]]), text=("body",))
    encoding = learn_encoding(table)
    found = encoding.apply(table)
    assert found[:, -1].tolist() == [0, 0, 0, 0, 1]
    assert not found[-1, :256].any()


def test_without_the_package_words_are_hashed_or_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    wordllama.cache_clear()
    assert isinstance(learn_encoding(mails("body")).columns[0], OneHotColumn)


def test_texts_alone_are_a_table_of_one_column() -> None:
    assert is_texts(MAILS)
    assert is_texts(np.array(MAILS))
    assert not is_texts([1, 2])
    assert not is_texts([])
    assert learn_encoding(table_of_texts(MAILS)).width == 256
