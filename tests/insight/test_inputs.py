"""Which inputs matter, effects, and angles read off input contexts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.ndimage import rotate

import crwn
from crwn.insight.collection import Collection
from crwn.insight.effect import effect_similarity, probe_rows
from crwn.insight.inputs import alphas, image_shape, input_weights
from crwn.insight.turning import read_angles
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


def test_flynet_is_mapped_back_through_its_encoder() -> None:
    model = crwn.FlyNet(in_features=16, hidden=160, classes=2, seed=0, inputs_per_node=2)
    readers = [int(node) for node in (model.encoder.chosen == 9).any(dim=1).nonzero()[:, 0]]
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


def test_angles_are_read_off_images_that_turn_and_not_off_others() -> None:
    generator = np.random.default_rng(0)
    upright = np.zeros((28, 28))
    upright[5:12, 16:20] = 1.0
    angles = [float(a) for a in range(0, 360, 20)]
    turned = np.stack([rotate(upright, a, reshape=False, order=1) for a in angles])
    found = read_angles(turned + generator.normal(0, 0.3, turned.shape), angles)
    assert found.correlation > 0.95
    assert found.median_error == 0
    assert found.common.shape == (28, 28)
    nothing = read_angles(generator.normal(0, 1, turned.shape), angles)
    assert abs(nothing.correlation) < 0.6
    assert nothing.median_error > 20


def test_effects_ignore_what_the_outputs_cannot_see() -> None:
    model = crwn.NeuroModNet(in_features=64, hidden=(32,), classes=3, seed=0)
    generator = torch.Generator().manual_seed(0)
    start = context_tensors(model)
    contexts = [{k: v + 0.3 * torch.randn(v.shape, generator=generator) for k, v in start.items()} for _ in range(5)]
    # The sizes of two layers' alphas can trade places without changing any output.
    twin = {name: tensor.clone() for name, tensor in contexts[2].items()}
    twin["layers.0.alpha"], twin["layers.1.alpha"] = twin["layers.0.alpha"] * 4, twin["layers.1.alpha"] / 4
    alike = effect_similarity(model, [*contexts, twin])
    assert alike[2, 5] == pytest.approx(1.0, abs=1e-4)
    assert alike[2, 3] < 0.9


def test_probes_are_smooth_where_they_may_be_images() -> None:
    def neighbours(rows: torch.Tensor) -> float:
        return float((rows[..., 1:] * rows[..., :-1]).mean())

    assert neighbours(probe_rows((784,), 64).view(64, 28, 28)) > 0.8
    assert neighbours(probe_rows((3, 32, 32), 8)) > 0.8
    assert abs(neighbours(probe_rows((50,), 64))) < 0.1
    assert float(probe_rows((784,), 64).std()) == pytest.approx(1.0, abs=0.02)
    assert torch.equal(probe_rows((784,), 4, seed=1), probe_rows((784,), 4, seed=1))
