"""Modulated layers: two forms of one formula, what is learned and what is fixed, the same start for every task."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.func import functional_call, vmap

from crwn.errors import ConfigError, DataError
from crwn.layers import ModulatedLinear, context_names, learned_parameters


@settings(max_examples=40)
@given(
    in_features=st.integers(1, 40),
    out_features=st.integers(1, 40),
    batch=st.integers(1, 200),
    weights=st.sampled_from(["gaussian", "hadamard"]),
    alpha=st.floats(-3, 3),
)
def test_superposition_equals_the_modulated_matrix(
    in_features: int, out_features: int, batch: int, weights: str, alpha: float
) -> None:
    layer = ModulatedLinear(in_features, out_features, seed=0, weights=weights)
    random = torch.Generator().manual_seed(in_features)
    with torch.no_grad():
        layer.v.copy_(torch.randn(in_features, generator=random))
        layer.alpha.fill_(alpha)
    x = torch.randn(batch, in_features, generator=random)
    materialised = alpha * (layer.frozen.dense() * layer.v)
    assert torch.allclose(layer(x), x @ materialised.T, rtol=1e-3, atol=1e-3)


def test_gradients_of_the_two_forms_agree() -> None:
    layer = ModulatedLinear(10, 6, seed=0)
    x = torch.randn(5, 10, generator=torch.Generator().manual_seed(0))
    v, alpha = layer.v.detach().clone().requires_grad_(), layer.alpha.detach().clone().requires_grad_()
    layer(x).square().sum().backward()
    (x @ (alpha * (layer.frozen.dense() * v)).T).square().sum().backward()
    assert v.grad is not None
    torch.testing.assert_close(layer.v.grad, v.grad, rtol=1e-4, atol=1e-7)
    torch.testing.assert_close(layer.alpha.grad, alpha.grad, rtol=1e-4, atol=1e-7)


def test_contexts_stacked_and_one_per_row() -> None:
    layer = ModulatedLinear(8, 5, seed=0, weights="hadamard")
    random = torch.Generator().manual_seed(0)
    stack = {"v": torch.randn(4, 8, generator=random), "alpha": torch.randn(4, generator=random)}
    x = torch.randn(4, 3, 8, generator=random)
    together = vmap(lambda tensors, rows: functional_call(layer, tensors, (rows,)))(stack, x)
    for k in range(4):
        alone = functional_call(layer, {name: value[k] for name, value in stack.items()}, (x[k],))
        assert torch.allclose(together[k], alone, atol=1e-5)


def test_v_and_alpha_are_all_that_is_learned_and_saved() -> None:
    layer = ModulatedLinear(7, 3, seed=0)
    assert sorted(context_names(layer)) == ["alpha", "v"]
    assert sorted(layer.state_dict()) == ["alpha", "v"]
    assert learned_parameters(layer) == 8
    assert layer.alpha.item() == 1.0
    assert layer.frozen_parameters == 21


@pytest.mark.parametrize(
    ("modulation", "learned", "numbers"), [("both", {"v", "alpha"}, 8), ("local", {"v"}, 7), ("global", {"alpha"}, 1)]
)
def test_switches_of_the_ablation(modulation: str, learned: set[str], numbers: int) -> None:
    layer = ModulatedLinear(7, 3, seed=0, modulation=modulation)
    both = ModulatedLinear(7, 3, seed=0)
    assert {name for name, _ in layer.named_parameters()} == learned == set(context_names(layer))
    assert learned_parameters(layer) == numbers
    before = {"v": layer.v.detach().clone(), "alpha": layer.alpha.detach().clone()}
    x = torch.ones(2, 7)
    assert torch.equal(layer(x), both(x))
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    layer(x).sum().backward()
    optimizer.step()
    assert {name for name in before if not torch.equal(before[name], getattr(layer, name))} == learned


def test_the_start_comes_from_seed_and_place_and_is_uniform() -> None:
    one = ModulatedLinear(400, 3, seed=0, name="layers.0")
    assert torch.equal(one.v, ModulatedLinear(400, 9, seed=0, name="layers.0", weights="hadamard").v)
    assert not torch.equal(one.v, ModulatedLinear(400, 3, seed=1, name="layers.0").v)
    assert not torch.equal(one.v, ModulatedLinear(400, 3, seed=0, name="layers.1").v)
    assert float(one.v.detach().abs().max()) <= 1 / 20
    assert float(one.v.detach().std()) == pytest.approx(1 / 20 / math.sqrt(3), rel=0.1)
    assert torch.allclose(ModulatedLinear(400, 3, seed=0, name="layers.0", start_scale=3.0).v, 3 * one.v)
    assert ModulatedLinear(4, 3, seed=0, start="ones", start_scale=2.0).v.tolist() == [2.0] * 4


def test_wrong_shapes_and_words_are_refused_with_both_numbers() -> None:
    with pytest.raises(DataError, match="rows have 6 features, this layer takes 7"):
        ModulatedLinear(7, 3, seed=0)(torch.zeros(2, 6))
    with pytest.raises(ConfigError, match='unknown modulation "none": choose one of both, local, global'):
        ModulatedLinear(7, 3, seed=0, modulation="none")
    with pytest.raises(ConfigError, match='unknown start "zeros"'):
        ModulatedLinear(7, 3, seed=0, start="zeros")
    with pytest.raises(ConfigError, match="unknown kind of frozen weights"):
        ModulatedLinear(7, 3, seed=0, weights="sparse")
