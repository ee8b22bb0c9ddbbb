"""FlyNet: the paper's counts and its formula written out in NumPy."""

import numpy as np
import pytest
import torch
from torch.func import functional_call, vmap

from crwn import FlyNet
from crwn.errors import ConfigError
from crwn.layers import context_tensors, learned_parameters


@pytest.mark.parametrize(("times", "learned"), [(10, 7841), (20, 15681), (30, 23521), (40, 31361)])
def test_learned_numbers_are_the_papers(times: int, learned: int) -> None:
    assert learned_parameters(FlyNet(784, 784 * times, 10, seed=0)) == learned


@pytest.mark.parametrize("gamma", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("constant", [True, False])
def test_forward_is_the_formula(gamma: float, constant: bool) -> None:
    model = FlyNet(20, 60, 4, seed=2, inputs_per_node=5, gamma=gamma, constant=constant)
    x = np.random.default_rng(0).normal(size=(6, 20)).astype(np.float32)
    given = np.column_stack([x, np.ones(6, dtype=np.float32)]) if constant else x
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
        FlyNet(4, 60, 4, seed=0, constant=False)
    assert repr(FlyNet(20, 60, 4, seed=0)).splitlines()[-1].split() == ["total", "660", "61"]
