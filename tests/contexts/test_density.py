"""Densities: the tree that made the rows is found again, rows of it are usual, damaged records are refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from crwn.contexts.density import (
    FEWEST_ROWS,
    MOST_INPUTS,
    _spanning_tree,
    described,
    make_density,
    read_density,
    stacked,
)
from crwn.data.dataset import Rows


def chain(count: int, *, inputs: int = 12, seed: int = 0) -> Tensor:
    """Rows in which every input is the one before it, with a little noise."""
    random = np.random.default_rng(seed)
    x = np.zeros((count, inputs))
    x[:, 0] = random.normal(size=count)
    for at in range(1, inputs):
        x[:, at] = 0.9 * x[:, at - 1] + 0.436 * random.normal(size=count)
    return torch.from_numpy(x)


def rows(count: int, *, order: Tensor | None = None) -> Rows:
    """The same as a task's rows, with the inputs in this order."""
    x = chain(count)
    return Rows(x if order is None else x[:, order])


def test_the_tree_of_a_chain_joins_neighbours() -> None:
    density = read_density(make_density(rows(2000)))
    assert density is not None
    steps = (density.parent - torch.arange(12)).abs()
    assert sorted(steps.tolist()) == [0] + [1] * 11
    child = steps == 1
    assert torch.allclose(density.slope[child], torch.full((11,), 0.9), atol=0.15)


def test_rows_of_the_task_are_likelier_and_less_surprising_than_moved_ones() -> None:
    own = read_density(make_density(rows(2000)))
    moved = read_density(make_density(rows(2000, order=torch.randperm(12, generator=torch.manual_seed(1)))))
    assert own is not None
    assert moved is not None
    likelihood, surprise = stacked([own, moved]).score(chain(200, seed=5).float())
    assert float(likelihood[:, 0].mean()) > float(likelihood[:, 1].mean()) + 2
    assert float((likelihood[:, 0] > likelihood[:, 1]).double().mean()) > 0.75  # of 12 inputs
    mean, deviation = own.surprise
    assert abs(float(surprise[:, 0].mean()) - mean) < 3 * deviation / 200**0.5 + 0.1 * deviation
    assert float(surprise[:, 1].mean()) > mean + deviation


def test_few_rows_have_no_density_and_long_rows_a_part() -> None:
    assert make_density(rows(FEWEST_ROWS - 1)) is None
    assert len(described(5000)) == MOST_INPUTS
    assert torch.equal(described(5000), described(5000))
    record = make_density(Rows(torch.randn(80, MOST_INPUTS + 100)))
    density = read_density(record)
    assert density is not None
    assert density.mean.shape == (MOST_INPUTS,)


@pytest.mark.parametrize(
    "change", [{"tree": "AAAA"}, {"tree": 3}, {"scale": 0}, {"inputs": 13}, {"surprise": [1.0]}, {"rows": "many"}]
)
def test_a_damaged_record_is_no_density(change: dict[str, object]) -> None:
    record = make_density(rows(200))
    assert record is not None
    assert read_density(record) is not None
    assert read_density(record | change) is None


def test_rows_sorted_by_class_have_the_density_of_the_same_rows_in_any_order() -> None:
    far = chain(3000)
    far[2000:] += 8  # the last third, which the first 2,048 rows have hardly any of
    density = read_density(make_density(Rows(far)))
    assert density is not None
    assert abs(float(density.mean.mean()) - 8 / 3) < 0.4


def test_the_tree_has_the_largest_sum_of_information() -> None:
    from scipy.sparse.csgraph import minimum_spanning_tree

    random = np.random.default_rng(0)
    weights = random.random((40, 40))
    weights = weights + weights.T
    parent = _spanning_tree(weights, 7)
    assert parent[7] == 7
    total = sum(weights[node, parent[node]] for node in range(40) if node != 7)
    assert total == pytest.approx(3 * 39 - minimum_spanning_tree(3 - weights).sum())
