"""Rows of several tasks as one."""

from __future__ import annotations

import torch

from crwn.data.dataset import Rows
from crwn.methods.joined_rows import JoinedRows
from reference_network import random_rows


def test_rows_are_in_the_order_of_the_positions() -> None:
    parts = [random_rows(1, 5), random_rows(2, 7), random_rows(3, 4)]
    joined = JoinedRows.of(parts)
    x = torch.cat([part.x for part in parts])
    y = torch.cat([part.labels(slice(None)) for part in parts])
    at = torch.tensor([15, 0, 6, 6, 4, 5, 11, 12])
    assert len(joined) == 16
    assert torch.equal(joined.inputs(at), x[at])
    assert torch.equal(joined.labels(at), y[at])
    assert torch.equal(joined.inputs(slice(3, 9)), x[3:9])


def test_each_part_is_prepared_in_its_own_way() -> None:
    x = torch.arange(3.0)[:, None]
    double, negative = Rows(x, prepare=lambda batch: 2 * batch), Rows(x, prepare=lambda batch: -batch)
    joined = JoinedRows.of([double, negative])
    assert joined.inputs(torch.tensor([4, 1, 5, 2])).flatten().tolist() == [-1, 2, -2, 4]


def test_rows_without_sample_weights_weigh_one() -> None:
    plain, weighted = random_rows(1, 2), Rows(torch.zeros(2, 6), weight=torch.tensor([0.5, 3.0]))
    joined = JoinedRows.of([plain, weighted])
    assert joined.weight is not None
    assert joined.weight.tolist() == [1, 1, 0.5, 3]
    assert JoinedRows.of([plain, plain]).weight is None
