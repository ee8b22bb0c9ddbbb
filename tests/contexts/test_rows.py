"""The memory of stacked contexts: what a bank stored is copied into a row as it is, and read as its tensors."""

from __future__ import annotations

import pytest
import torch

from crwn.contexts import STORES, Context, Store
from crwn.contexts.record import read_record
from crwn.contexts.rows import ContextRows
from small_contexts import SHAPES, make


@pytest.mark.parametrize("store", STORES)
def test_rows_hold_the_bytes_of_stored_contexts(store: Store) -> None:
    rows = ContextRows({key: tuple(shape) for key, shape in SHAPES.items()}, store, 2)
    stored = [read_record(make(f"task {i}", i).to_bytes(store), source="here") for i in range(3)]
    assert all(rows.fits(one) for one in stored)
    rows.write(0, stored[0])
    rows.write(1, stored[1])
    rows.grow()
    rows.write(2, stored[2])
    rows.move(2, 0)
    assert len(rows) == 4
    for at, one in ((0, stored[2]), (1, stored[1])):
        for key, array in one.arrays().items():
            assert torch.equal(rows.tensors[key][at], torch.from_numpy(array.copy()))


def test_other_shapes_and_dtypes_do_not_fit() -> None:
    rows = ContextRows({key: tuple(shape) for key, shape in SHAPES.items()}, "float32", 1)
    other = Context("other", {"v": torch.ones(3)}, ("a",), "ab" * 32)
    assert not rows.fits(read_record(other.to_bytes(), source="here"))
    assert not rows.fits(read_record(make("left").to_bytes("float16"), source="here"))
