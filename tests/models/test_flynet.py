"""FlyNet: the paper's counts and its formula written out in NumPy."""

import numpy as np
import pytest
import torch
from sklearn.datasets import make_circles
from torch.func import functional_call, vmap

from crwn import FlyNet, Learner
from crwn.errors import ConfigError
from crwn.layers import context_tensors, learned_parameters
from crwn.models import build, describe, fingerprint


@pytest.mark.parametrize(("times", "learned"), [(10, 7841), (20, 15681), (30, 23521), (40, 31361)])
def test_learned_numbers_are_the_papers(times: int, learned: int) -> None:
    assert learned_parameters(FlyNet(784, 784 * times, 10, seed=0)) == learned


@pytest.mark.parametrize("gamma", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("mirrored", [True, False])
def test_forward_is_the_formula(gamma: float, constant: bool, mirrored: bool) -> None:
    model = FlyNet(20, 60, 4, seed=2, inputs_per_node=5, gamma=gamma, constant=constant, mirrored=mirrored)
    x = np.random.default_rng(0).normal(size=(6, 20)).astype(np.float32)
    given = np.column_stack([x, -x]) if mirrored else x
    given = np.column_stack([given, np.ones(6, dtype=np.float32)]) if constant else given
    sums = np.stack([given[:, node].sum(axis=1) for node in model.encoder.chosen.numpy()], axis=1)
    hidden = np.maximum(sums - gamma * sums.mean(axis=1, keepdims=True), 0)
    decoder = model.decoder
    matrix = decoder.alpha.item() * decoder.frozen.dense().numpy() * decoder.v.detach().numpy()
    assert np.allclose(model.encode(torch.from_numpy(x)).numpy(), hidden, atol=1e-5)
    assert np.allclose(model(torch.from_numpy(x)).detach().numpy(), hidden @ matrix.T, atol=1e-4)


def test_predictions_do_not_change_the_rows() -> None:
    x = torch.randn(6, 20, generator=torch.Generator().manual_seed(0))
    before = x.clone()
    FlyNet(20, 20, 4, seed=2, inputs_per_node=1)(x)
    assert torch.equal(x, before)


def test_stacked_contexts_and_stacked_rows() -> None:
    model = FlyNet(20, 60, 4, seed=0)
    random = torch.Generator().manual_seed(0)
    stack = {k: torch.randn(3, *t.shape, generator=random) for k, t in context_tensors(model).items()}
    x = torch.randn(3, 5, 20, generator=random)
    together = vmap(lambda tensors, rows: functional_call(model, tensors, (rows,)))(stack, x)
    shared = vmap(lambda tensors: functional_call(model, tensors, (x[0],)))(stack)
    for k in range(3):
        own = {name: value[k] for name, value in stack.items()}
        assert torch.allclose(together[k], functional_call(model, own, (x[k],)), atol=1e-4)
        assert torch.allclose(shared[k], functional_call(model, own, (x[0],)), atol=1e-4)


def test_only_the_decoder_learns_and_sparsity_follows_gamma() -> None:
    model = FlyNet(20, 400, 4, seed=0)
    assert [name for name, _ in model.named_parameters()] == ["decoder.v", "decoder.alpha"]
    x = torch.rand(50, 20, generator=torch.Generator().manual_seed(0))
    shares = [float((FlyNet(20, 400, 4, seed=0, gamma=g).encode(x) > 0).float().mean()) for g in (0.5, 1.0, 1.5)]
    assert shares[0] > shares[1] > shares[2]


def test_a_node_needs_that_many_inputs() -> None:
    with pytest.raises(ConfigError, match=r"inputs \(4\), got 7"):
        FlyNet(4, 60, 4, seed=0, inputs_per_node=7, constant=False)
    assert repr(FlyNet(20, 60, 4, seed=0)).splitlines()[-1].split() == ["total", "660", "61"]


@pytest.mark.parametrize(("columns", "per_node"), [(1, 1), (2, 2), (4, 4), (30, 7)])
def test_rows_of_a_table_are_mirrored_and_few_columns_need_no_number_of_inputs(columns: int, per_node: int) -> None:
    model = FlyNet(columns, 256, 3, seed=0)
    assert (model.constant, model.mirrored) == (True, True)
    assert model.config["inputs_per_node"] == per_node
    assert model.encoder.in_features == 2 * columns + 1


def test_images_are_not_mirrored() -> None:
    assert "mirrored" not in FlyNet(784, 7840, 10, seed=0).config


@pytest.mark.parametrize("mirrored", [True, False])
def test_circles_are_told_apart_only_with_mirrored_inputs(mirrored: bool) -> None:
    """Of two columns and a 1 the encoder makes three different sums of two, which is too few."""
    x, y = make_circles(600, factor=0.5, noise=0.05, random_state=3)
    learner = Learner(FlyNet(2, 256, 2, seed=0, mirrored=mirrored))
    learner.learn("ring", x[:400].astype("float32"), y[:400], progress=False)
    right = learner.score(x[400:].astype("float32"), y[400:], task="ring")
    assert right >= 0.95 if mirrored else right < 0.7


def test_a_description_without_mirrored_inputs_is_of_a_network_without() -> None:
    made = FlyNet(3, 40, 2, seed=1, inputs_per_node=2, mirrored=False)
    again = build(describe(made))
    assert isinstance(again, FlyNet)
    assert not again.mirrored
    assert fingerprint(again) == fingerprint(made)
    mirrored = FlyNet(3, 40, 2, seed=1, inputs_per_node=2)
    assert fingerprint(build(describe(mirrored))) == fingerprint(mirrored) != fingerprint(made)
