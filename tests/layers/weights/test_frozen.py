"""Every kind of frozen weights: pinned values, gains, what is saved and counted."""

import pytest
import torch
from torch.func import vmap

from crwn.errors import ConfigError
from crwn.layers.weights import (
    Gaussian,
    Hadamard,
    Patches,
    SparseBinary,
    make,
    uniform,
)
from draws import normal

Kind = type[Gaussian] | type[Hadamard] | type[SparseBinary]

ALL = [Gaussian, Hadamard, SparseBinary]


def test_first_values_and_fingerprints_never_change() -> None:
    gaussian = Gaussian(5, 3, seed=7)
    assert gaussian.weight[0, :3].tolist() == pytest.approx(
        [0.9936453104019165, -0.5365349650382996, -0.06619694828987122], rel=1e-6
    )
    assert gaussian.fingerprint[:16] == "c4f3b3738f32927d"
    hadamard = Hadamard(5, 12, seed=7)
    assert hadamard.signs.int().tolist() == [[1, 1, 1, -1, 1], [1, 1, -1, -1, -1]]
    assert hadamard.fingerprint[:16] == "c1b0886adebc51f9"
    patches = Patches(64, 3, seed=7)
    assert (patches.weight != 0).sum(dim=1).tolist() == [56, 56, 49]
    assert patches.weight[0, :2].tolist() == pytest.approx([0.30529, -0.10217], abs=1e-5)
    assert patches.fingerprint[:16] == "c72b104978fa76af"
    sparse = SparseBinary(20, 2, seed=7, inputs_per_node=4)
    assert sparse.chosen.tolist() == [[1, 7, 11, 12], [3, 7, 17, 19]]
    assert sparse.fingerprint[:16] == "10dcc0d423cab0af"
    assert uniform((3,), seed=7, name="v", bound=2.0).tolist() == pytest.approx(
        [-1.590505599975586, -0.5798717141151428, -0.7313641905784607], rel=1e-6
    )


@pytest.mark.parametrize("kind", ALL)
def test_seed_and_name_make_the_weights(kind: Kind) -> None:
    made = kind(16, 32, seed=0)
    assert torch.equal(made.dense(), kind(16, 32, seed=0).dense())
    prints = {made.fingerprint, kind(16, 32, seed=1).fingerprint, kind(16, 32, seed=0, name="layers.1").fingerprint}
    assert len(prints) == 3


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("outputs", [2, 40])
def test_one_gain_per_task_and_one_per_row(kind: Kind, outputs: int) -> None:
    made = kind(12, outputs, seed=0)
    gains, x = normal(5, 12, seed=1), normal(5, 9, 12)
    expected = torch.stack([(x[k] * gains[k]) @ made.dense().T for k in range(5)])
    assert torch.allclose(vmap(made)(x, gains), expected, atol=1e-5)
    assert torch.allclose(vmap(made, in_dims=(None, 0))(x[0], gains)[0], expected[0], atol=1e-5)
    assert torch.allclose(torch.stack([made(x[k], gains[k]) for k in range(5)]), expected, atol=1e-5)
    per_row = vmap(lambda row, gain: made(row[None], gain)[0])(x[:, 0], gains)
    assert torch.allclose(per_row, expected[:, 0], atol=1e-5)


@pytest.mark.parametrize("kind", ALL)
def test_frozen_things_are_no_parameters_and_are_not_saved(kind: Kind) -> None:
    made = kind(12, 20, seed=0)
    assert list(made.parameters()) == []
    assert made.state_dict() == {}
    assert all(not buffer.requires_grad for buffer in made.buffers())


@pytest.mark.parametrize("kind", [Gaussian, Hadamard])
def test_gradient_reaches_the_gain_and_is_that_of_the_dense_product(kind: Kind) -> None:
    made, x = kind(12, 20, seed=0), normal(6, 12)
    one, two = normal(12, seed=2).requires_grad_(), normal(12, seed=2).requires_grad_()
    made(x, one).square().sum().backward()
    ((x * two) @ made.dense().T).square().sum().backward()
    assert one.grad is not None
    assert two.grad is not None
    assert torch.allclose(one.grad, two.grad, rtol=1e-4, atol=1e-4)


def test_memory_and_multiplications_are_counted() -> None:
    gaussian, hadamard = Gaussian(784, 4096, seed=0), Hadamard(784, 4096, seed=0)
    assert gaussian.memory_bytes == 4 * 784 * 4096
    assert gaussian.multiplications == 784 * 4096
    assert hadamard.memory_bytes == 4 * (4 * 784 + 2 * 32 * 32)
    assert hadamard.multiplications == 4 * (784 + 1024 * 64)
    sparse = SparseBinary(784, 7840, seed=0)
    assert sparse.memory_bytes == 4 * 7 * 7840
    assert sparse.multiplications == 7 * 7840
    assert "784 -> 4096" in repr(gaussian)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize(("inputs", "outputs"), [(0, 3), (3, 0), (-1, 3)])
def test_impossible_sizes_are_refused(kind: Kind, inputs: int, outputs: int) -> None:
    with pytest.raises(ConfigError, match=r"must be at least 1, got"):
        kind(inputs, outputs, seed=0)


def test_kinds_have_names() -> None:
    assert isinstance(make("gaussian", 4, 4, seed=0), Gaussian)
    assert isinstance(make("hadamard", 4, 4, seed=0), Hadamard)
    with pytest.raises(ConfigError, match='"dense": choose one of gaussian, hadamard'):
        make("dense", 4, 4, seed=0)


@pytest.mark.parametrize("kind", [Gaussian, Hadamard])
def test_weights_follow_the_precision_they_are_moved_to(kind: Kind) -> None:
    made = kind(6, 9, seed=0).to(torch.float64)
    x = normal(2, 6).double()
    assert made.dense().dtype == torch.float64
    assert torch.allclose(made(x), x @ made.dense().T)
