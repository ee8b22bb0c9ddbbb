"""Sparse binary weights: distinct inputs, chosen evenly, and no gradient."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crwn.errors import ConfigError
from crwn.layers.weights import (
    SparseBinary,
)
from draws import normal

sizes = st.integers(1, 70)


@settings(max_examples=30)
@given(in_features=sizes, out_features=sizes, data=st.data())
def test_sparse_nodes_add_distinct_inputs(in_features: int, out_features: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, in_features))
    made = SparseBinary(in_features, out_features, seed=0, inputs_per_node=count)
    assert all(len(set(node)) == count for node in made.chosen.tolist())
    dense = made.dense()
    assert set(dense.unique().tolist()) <= {0.0, 1.0}
    assert dense.sum(dim=1).tolist() == [count] * out_features
    x = normal(4, in_features)
    assert torch.allclose(made(x), x @ dense.T, atol=1e-5)


def test_sparse_inputs_are_chosen_evenly() -> None:
    often = torch.bincount(SparseBinary(50, 10_000, seed=0, inputs_per_node=7).chosen.flatten().long(), minlength=50)
    assert float(often.min()) > 1400 * 0.88
    assert float(often.max()) < 1400 * 1.12


def test_the_encoder_gives_no_gradient() -> None:
    made = SparseBinary(12, 20, seed=0)
    assert not made(normal(2, 12).requires_grad_()).requires_grad


@pytest.mark.parametrize("count", [0, 6])
def test_a_node_cannot_add_more_inputs_than_there_are(count: int) -> None:
    with pytest.raises(ConfigError, match=rf"between 1 and the number of inputs \(5\), got {count}"):
        SparseBinary(5, 3, seed=0, inputs_per_node=count)
