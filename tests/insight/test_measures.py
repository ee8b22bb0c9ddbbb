"""How alike tasks are."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from crwn.errors import ConfigError
from crwn.insight.measures import MEASURES, layers, nearest_tasks, similarity


def contexts(count: int = 6, seed: int = 0) -> list[dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    return [
        {
            "layers.0.v": torch.randn(40, generator=generator),
            "layers.0.alpha": torch.randn((), generator=generator),
            "layers.1.v": torch.randn(20, generator=generator),
            "norm.running_mean": 1e6 * torch.randn(4, generator=generator),
        }
        for _ in range(count)
    ]


@pytest.mark.parametrize("measure", MEASURES)
@given(seed=st.integers(0, 1000))
def test_every_measure_is_symmetric_and_one_with_itself(measure: str, seed: int) -> None:
    alike = similarity(contexts(seed=seed), measure)
    np.testing.assert_allclose(alike, alike.T, atol=1e-6)
    np.testing.assert_allclose(np.diag(alike), 1.0, atol=1e-5)
    assert alike.max() <= 1 + 1e-6


@pytest.mark.parametrize("measure", MEASURES)
def test_a_small_change_stays_nearest(measure: str) -> None:
    given = contexts(8)
    given.append({name: tensor + 0.01 * torch.randn(tensor.shape) for name, tensor in given[3].items()})
    names = [f"task {i}" for i in range(9)]
    near = nearest_tasks(names, similarity(given, measure), count=2)
    assert near["task 3"][0][0] == "task 8"
    assert near["task 8"][0][0] == "task 3"
    assert len(near["task 0"]) == 2


def test_cosine_takes_off_what_all_share() -> None:
    given = contexts(5)
    moved = [{name: tensor + 100.0 for name, tensor in one.items()} for one in given]
    np.testing.assert_allclose(similarity(given), similarity(moved), atol=1e-3)


def test_one_layer_alone_is_deaf_to_the_others() -> None:
    given = contexts(5)
    alike = similarity(given, layer="layers.1")
    for one in given:
        one["layers.0.v"] = torch.randn(40)
    np.testing.assert_allclose(alike, similarity(given, layer="layers.1"))
    assert layers(given[0]) == ["layers.0", "layers.1"]


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ConfigError, match="cosine, euclidean, rank"):
        similarity(contexts(), "manhattan")
    with pytest.raises(ConfigError, match=r"layers\.0, layers\.1"):
        similarity(contexts(), layer="layers.7")
