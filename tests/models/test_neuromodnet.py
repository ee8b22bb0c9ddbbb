"""NeuroModNet: the paper's counts, its formula, and the options of the ablation."""

import numpy as np
import pytest
import torch
from torch.func import functional_call

from crwn import NeuroModNet
from crwn.errors import ConfigError, DataError
from crwn.layers import ModulatedLinear, context_tensors, learned_parameters
from crwn.models import build, describe


def layers_of(model: NeuroModNet) -> list[ModulatedLinear]:
    return [layer for layer in model.layers if isinstance(layer, ModulatedLinear)]


@pytest.mark.parametrize(("width", "learned"), [(256, 1299), (512, 1811), (1024, 2835), (2048, 4883), (4096, 8979)])
def test_learned_numbers_are_the_papers(width: int, learned: int) -> None:
    model = NeuroModNet(784, (width, width), 10, seed=0, weights="hadamard")
    assert learned_parameters(model) == learned
    assert sum(tensor.numel() for tensor in context_tensors(model).values()) == learned


@pytest.mark.parametrize("weights", ["gaussian", "hadamard"])
@pytest.mark.parametrize("hidden", [(), (16,), (16, 8, 24)])
@pytest.mark.parametrize("constant", [True, False])
def test_forward_is_the_formula(weights: str, hidden: tuple[int, ...], constant: bool) -> None:
    model = NeuroModNet(12, hidden, 4, seed=3, weights=weights, constant=constant)
    x = np.random.default_rng(0).normal(size=(5, 12)).astype(np.float32)
    h = np.column_stack([x, np.ones(5)]).astype(np.float32) if constant else x
    layers = layers_of(model)
    for i, layer in enumerate(layers):
        r, v = layer.frozen.dense().numpy(), layer.v.detach().numpy()
        h = h @ (layer.alpha.item() * r * v).T
        if i < len(layers) - 1:
            h = np.maximum(h, 0)
    assert np.allclose(model(torch.from_numpy(x)).detach().numpy(), h, atol=1e-4)


def test_layers_differ_and_the_output_layer_is_dense() -> None:
    model = NeuroModNet(16, (16, 16), 16, seed=0)
    prints = {layer.frozen.fingerprint for layer in layers_of(model)}
    assert len(prints) == 3
    structured = NeuroModNet(16, (16, 16), 10, seed=0, weights="hadamard")
    assert [type(layer.frozen).__name__ for layer in layers_of(structured)] == ["Hadamard", "Hadamard", "Gaussian"]


def test_activations_and_modulation() -> None:
    x = torch.ones(2, 6)
    outputs = [NeuroModNet(6, (8,), 3, seed=0, activation=name)(x) for name in ("relu", "gelu", "abs", "cos")]
    assert len({float(out.detach().sum()) for out in outputs}) == 4
    assert learned_parameters(NeuroModNet(6, (8,), 3, seed=0, modulation="global")) == 2
    assert learned_parameters(NeuroModNet(6, (8,), 3, seed=0, modulation="local")) == 15
    assert learned_parameters(NeuroModNet(6, (8,), 3, seed=0, modulation="local", constant=False)) == 14


def test_a_wrong_word_or_size_is_refused() -> None:
    with pytest.raises(ConfigError, match='unknown activation "tanh"'):
        NeuroModNet(6, (8,), 3, seed=0, activation="tanh")
    with pytest.raises(ConfigError, match='frozen weights "dense"'):
        NeuroModNet(6, (), 3, seed=0, weights="dense")
    with pytest.raises(ConfigError, match="must be at least 1, got 0"):
        NeuroModNet(6, (0,), 3, seed=0)
    with pytest.raises(DataError, match="rows have 5 features, this network takes 6"):
        NeuroModNet(6, (8,), 3, seed=0)(torch.zeros(1, 5))
    with pytest.raises(DataError, match="rows have 5 features, this layer takes 6"):
        NeuroModNet(6, (8,), 3, seed=0, constant=False)(torch.zeros(1, 5))
    with pytest.raises(ConfigError, match="square images, which have no constant input"):
        NeuroModNet(49, (8,), 3, seed=0, weights="patches", constant=True)


@pytest.mark.parametrize(("features", "has"), [(784, False), (64, False), (49, True), (30, True), (1, True)])
def test_rows_that_cannot_be_images_get_a_constant_input(features: int, has: bool) -> None:
    model = NeuroModNet(features, (8,), 3, seed=0)
    assert model.constant is has
    assert model.input_shape == (features,)
    assert layers_of(model)[0].v.shape == (features + has,)
    assert NeuroModNet(49, (8,), 3, seed=0, weights="patches").constant is False


def test_print_ends_with_the_table_of_numbers() -> None:
    last = repr(NeuroModNet(784, (256, 256), 10, seed=0)).splitlines()[-1]
    assert last.split() == ["total", "268,800", "1,299"]


def test_layer_norm_is_between_hidden_layers_and_learns_nothing() -> None:
    model = NeuroModNet(49, (12, 20), 3, seed=1, weights="patches", norm="layer")
    x = torch.randn(5, 49, generator=torch.Generator().manual_seed(0))
    rows = x
    *hidden, last = layers_of(model)
    for layer in hidden:
        rows = (rows @ (layer.frozen.dense() * layer.gain).T).relu()
        rows = (rows - rows.mean(1, keepdim=True)) / (rows.var(1, correction=0, keepdim=True) + 1e-5).sqrt()
    torch.testing.assert_close(model(x), rows @ (last.frozen.dense() * last.gain).T)
    assert [type(layer.frozen).__name__ for layer in layers_of(model)] == ["Patches", "Hadamard", "Gaussian"]
    assert sum(parameter.numel() for parameter in model.parameters()) == 49 + 12 + 20 + 3
    assert build(describe(model)).config == model.config


def test_models_without_a_norm_keep_the_fingerprint_they_had() -> None:
    model = NeuroModNet(8, (16,), 3, seed=0)
    assert "norm" not in model.config
    with pytest.raises(ConfigError, match='unknown norm "batch": choose one of none, layer'):
        NeuroModNet(8, (16,), 3, seed=0, norm="batch")


@pytest.mark.parametrize("weights", ["gaussian", "hadamard"])
def test_a_context_in_the_place_of_its_own_whatever_it_holds(weights: str) -> None:
    model, x = NeuroModNet(6, (5, 4), 3, seed=0, weights=weights), torch.randn(7, 6)
    names = dict(model.named_parameters()) | dict(model.named_buffers())
    some = {name: value * 1.5 for name, value in names.items() if name.endswith((".v", "weight"))}
    for tensors in (some, {name: value for name, value in some.items() if name.endswith(".v")}, {}):
        torch.testing.assert_close(model.call_with_context(tensors, x), functional_call(model, tensors, (x,)))
