"""Which inputs matter, effects, and angles read off input contexts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import crwn
from crwn.insight.collection import Collection
from crwn.insight.inputs import alphas, image_shape, input_weights
from crwn.layers import context_tensors


def collection_of(model: torch.nn.Module, contexts: list[dict[str, torch.Tensor]]) -> Collection:
    names = [f"task {i}" for i in range(len(contexts))]
    start = {name: tensor.clone() for name, tensor in context_tensors(model).items()}
    return Collection("test", names, contexts, start, [{}] * len(names), [()] * len(names), model)


def changed(model: torch.nn.Module, name: str, places: list[int]) -> dict[str, torch.Tensor]:
    context = {key: tensor.clone() for key, tensor in context_tensors(model).items()}
    context[name][places] += 1.0
    return context


def test_the_input_context_shows_which_inputs_a_task_moved() -> None:
    model = crwn.NeuroModNet(in_features=16, hidden=(8,), classes=2, seed=0)
    made = collection_of(model, [changed(model, "layers.0.v", [3]), changed(model, "layers.0.v", [5, 6])])
    weights = input_weights(made)
    assert weights is not None
    assert weights[0].argmax() == 3
    assert set(np.flatnonzero(weights[1])) == {5, 6}
    assert image_shape(made) == (4, 4)


@pytest.mark.parametrize("mirrored", [True, False])
def test_flynet_is_mapped_back_through_its_encoder(mirrored: bool) -> None:
    model = crwn.FlyNet(in_features=16, hidden=160, classes=2, seed=0, inputs_per_node=2, mirrored=mirrored)
    reads = torch.isin(model.encoder.chosen, torch.tensor([9, 16 + 9] if mirrored else [9]))
    readers = [int(node) for node in reads.any(dim=1).nonzero()[:, 0]]
    weights = input_weights(collection_of(model, [changed(model, "decoder.v", readers)]))
    assert weights is not None
    assert weights.shape == (1, 16)
    assert weights[0].argmax() == 9
    assert weights[0, 9] == pytest.approx(1.0)


def test_a_network_without_v_has_no_input_context() -> None:
    made = Collection("test", ["a"], [{"fc.weight": torch.ones(3, 3)}], None, [{}], [()])
    assert input_weights(made) is None
    assert image_shape(made) is None


def test_alphas_by_layer() -> None:
    model = crwn.NeuroModNet(in_features=4, hidden=(8,), classes=2, seed=0)
    assert alphas([context_tensors(model)] * 3) == {"layers.0": [1.0] * 3, "layers.1": [1.0] * 3}
