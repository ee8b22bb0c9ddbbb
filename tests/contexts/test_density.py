"""Densities: the tree that made the rows is found again, rows of it are usual, damaged records are refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from crwn.contexts.density import FEWEST_ROWS, MOST_INPUTS, described, make_density, read_density, stacked


def chain(count: int, *, inputs: int = 12, seed: int = 0) -> Tensor:
    """Rows in which every input is the one before it, with a little noise."""
    random = np.random.default_rng(seed)
    x = np.zeros((count, inputs))
    x[:, 0] = random.normal(size=count)
    for at in range(1, inputs):
        x[:, at] = 0.9 * x[:, at - 1] + 0.436 * random.normal(size=count)
    return torch.from_numpy(x)


def test_the_tree_of_a_chain_joins_neighbours() -> None:
    density = read_density(make_density(chain(2000)))
    assert density is not None
    steps = (density.parent - torch.arange(12)).abs()
    assert sorted(steps.tolist()) == [0] + [1] * 11
    child = steps == 1
    assert torch.allclose(density.slope[child], torch.full((11,), 0.9), atol=0.15)


def test_rows_of_the_task_are_likelier_and_less_surprising_than_moved_ones() -> None:
    own = read_density(make_density(chain(2000)))
    moved = read_density(make_density(chain(2000).flip(0)[:, torch.randperm(12, generator=torch.manual_seed(1))]))
    assert own is not None
    assert moved is not None
    likelihood, surprise = stacked([own, moved]).score(chain(200, seed=5).float())
    assert float(likelihood[:, 0].mean()) > float(likelihood[:, 1].mean()) + 2
    assert float((likelihood[:, 0] > likelihood[:, 1]).double().mean()) > 0.75  # of 12 inputs
    mean, deviation = own.unexplained
    assert abs(float(surprise[:, 0].mean()) - mean) < 3 * deviation / 200**0.5 + 0.1 * deviation
    assert float(surprise[:, 1].mean()) > mean + deviation


def test_few_rows_have_no_density_and_long_rows_a_part() -> None:
    assert make_density(chain(FEWEST_ROWS - 1)) is None
    assert len(described(5000)) == MOST_INPUTS
    assert torch.equal(described(5000), described(5000))
    record = make_density(torch.randn(80, MOST_INPUTS + 100))
    density = read_density(record)
    assert density is not None
    assert density.mean.shape == (MOST_INPUTS,)


@pytest.mark.parametrize(
    "change", [{"tree": "AAAA"}, {"tree": 3}, {"scale": 0}, {"inputs": 13}, {"unexplained": [1.0]}, {"rows": "many"}]
)
def test_a_damaged_record_is_no_density(change: dict[str, object]) -> None:
    record = make_density(chain(200))
    assert record is not None
    assert read_density(record) is not None
    assert read_density(record | change) is None
