"""A context for every row of a batch."""

from __future__ import annotations

import torch

from crwn.layers import ModulatedLinear
from crwn.models.row_contexts import RowContexts, row_contexts


def test_gains_are_those_of_the_rows_or_of_the_layer() -> None:
    layer = ModulatedLinear(4, 3, seed=0)
    with torch.no_grad():
        layer.alpha.fill_(2.0)
    v, alpha = torch.randn(5, 4), torch.randn(5)
    both = RowContexts({"a.v": v, "a.alpha": alpha})
    torch.testing.assert_close(both.gain(layer, "a"), alpha[:, None] * v)
    torch.testing.assert_close(RowContexts({"a.v": v}).gain(layer, "a"), 2.0 * v)
    torch.testing.assert_close(RowContexts({"a.alpha": alpha}).gain(layer, "a"), alpha[:, None] * layer.v)
    torch.testing.assert_close(both.gain(layer, "b"), 2.0 * layer.v)


def test_a_gain_may_be_overwritten() -> None:
    layer = ModulatedLinear(4, 3, seed=0)
    v = torch.ones(5, 4)
    with torch.no_grad():
        RowContexts({"a.v": v}).gain(layer, "a").zero_()
        assert RowContexts({}).gain(layer, "a").data_ptr() != layer.v.data_ptr()
    assert torch.equal(v, torch.ones(5, 4))


def test_single_values_broadcast_against_rows() -> None:
    tensors = {"a.v": torch.ones(5, 4), "a.alpha": torch.ones(5)}
    made = row_contexts(tensors)
    assert row_contexts(made) is made
    assert {name: tuple(value.shape) for name, value in made.broadcastable().items()} == {
        "a.v": (5, 4),
        "a.alpha": (5, 1),
    }
    assert dict(made) == tensors
    assert len(made) == 2
