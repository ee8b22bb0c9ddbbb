"""Frozen weights: the same numbers from the same seed for ever, the fast forms equal to the dense ones."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.func import vmap

from crwn.errors import ConfigError
from crwn.weights import (
    FrozenWeights,
    Gaussian,
    Hadamard,
    Patches,
    SparseBinary,
    hadamard_matrix,
    integers,
    make,
    uniform,
)

ALL = [Gaussian, Hadamard, SparseBinary]
sizes = st.integers(1, 70)


def rows(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# Pinned: a change of any of these makes every model folder unreadable that was ever saved.
def test_the_stream_of_integers_never_changes() -> None:
    assert integers(4, seed=0, name="a").tolist() == [55181, 37290, 46044, 49318]
    assert integers(3, seed=1, name="a", bits=32).tolist() == [612810769, 2261867055, 3281767546]
    assert integers(3, seed=0, name="b", bits=8).tolist() == [227, 214, 195]
    assert integers(5, seed=0, name="a").tolist()[:4] == integers(4, seed=0, name="a").tolist()


def test_first_values_and_fingerprints_never_change() -> None:
    gaussian = Gaussian(5, 3, seed=7)
    assert gaussian.weight[0, :3].tolist() == pytest.approx(
        [0.9936453104019165, -0.5365349650382996, -0.06619694828987122], rel=1e-6
    )
    assert gaussian.fingerprint[:16] == "c4f3b3738f32927d"
    hadamard = Hadamard(5, 12, seed=7)
    assert hadamard.signs.to(int).tolist() == [[1, 1, 1, -1, 1], [1, 1, -1, -1, -1]]
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
def test_seed_and_name_make_the_weights(kind: type[FrozenWeights]) -> None:
    made = kind(16, 32, seed=0)
    assert torch.equal(made.dense(), kind(16, 32, seed=0).dense())
    prints = {made.fingerprint, kind(16, 32, seed=1).fingerprint, kind(16, 32, seed=0, name="layers.1").fingerprint}
    assert len(prints) == 3


def test_gaussian_has_mean_0_and_variance_2_over_inputs() -> None:
    weight = Gaussian(200, 500, seed=3).weight.double()
    assert float(weight.mean()) == pytest.approx(0.0, abs=4 * math.sqrt(0.01 / 1e5))
    assert float(weight.var()) == pytest.approx(0.01, rel=0.02)
    normal = weight.flatten() / 0.1
    assert float((normal**4).mean()) == pytest.approx(3.0, rel=0.05)
    assert float((normal.abs() < 1).double().mean()) == pytest.approx(0.6827, abs=0.006)
    assert abs(float(torch.corrcoef(weight[:2])[0, 1])) < 0.25


def test_uniform_fills_its_interval() -> None:
    drawn = uniform((20_000,), seed=0, name="v", bound=0.5)
    assert float(drawn.abs().max()) <= 0.5
    assert float(drawn.min()) < -0.499
    assert float(drawn.max()) > 0.499
    assert float(drawn.mean()) == pytest.approx(0.0, abs=0.01)
    assert float(drawn.var()) == pytest.approx(1 / 12, rel=0.02)


@pytest.mark.parametrize("size", [1, 2, 8, 64])
def test_hadamard_matrix_is_orthonormal_with_equal_entries(size: int) -> None:
    matrix = hadamard_matrix(size)
    assert torch.allclose(matrix @ matrix.T, torch.eye(size), atol=1e-6)
    assert torch.allclose(matrix.abs(), torch.full((size, size), 1 / math.sqrt(size)))


@settings(max_examples=60, deadline=None)
@given(in_features=sizes, out_features=st.integers(1, 200), seed=st.integers(0, 9))
def test_hadamard_is_its_formula_for_any_size(in_features: int, out_features: int, seed: int) -> None:
    made = Hadamard(in_features, out_features, seed=seed)
    n = 1 << (in_features - 1).bit_length()
    blocks = math.ceil(out_features / n)
    c = math.sqrt(2) * math.sqrt(n / in_features)
    written = torch.cat([c * hadamard_matrix(n)[:, :in_features] * made.signs[b] for b in range(blocks)])
    assert torch.allclose(made.dense(), written[:out_features], atol=1e-5)
    x = rows(3, in_features)
    assert torch.allclose(made(x), x @ made.dense().T, atol=1e-4)


@pytest.mark.parametrize(("inputs", "outputs"), [(784, 4096), (784, 100), (4096, 4096), (3, 5), (64, 64)])
def test_hadamard_entries_have_the_gaussian_size(inputs: int, outputs: int) -> None:
    made = Hadamard(inputs, outputs, seed=0)
    few = made(torch.eye(inputs)[:3])
    assert torch.allclose(few.abs(), torch.full_like(few, math.sqrt(2 / inputs)), rtol=1e-4)


def test_blocks_have_signs_of_their_own_and_no_unit_repeats() -> None:
    made = Hadamard(784, 4096, seed=0)
    assert made.signs.shape == (4, 784)
    alike = (made.signs @ made.signs.T / 784).fill_diagonal_(0).abs().max()
    assert float(alike) < 0.2
    small = Hadamard(6, 32, seed=0).dense()
    assert len({tuple(row) for row in small.sign().int().tolist()}) > 24


@settings(max_examples=30, deadline=None)
@given(in_features=sizes, out_features=sizes, data=st.data())
def test_sparse_nodes_add_distinct_inputs(in_features: int, out_features: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, in_features))
    made = SparseBinary(in_features, out_features, seed=0, inputs_per_node=count)
    assert all(len(set(node)) == count for node in made.chosen.tolist())
    dense = made.dense()
    assert set(dense.unique().tolist()) <= {0.0, 1.0}
    assert dense.sum(dim=1).tolist() == [count] * out_features
    x = rows(4, in_features)
    assert torch.allclose(made(x), x @ dense.T, atol=1e-5)


def test_sparse_inputs_are_chosen_evenly() -> None:
    often = torch.bincount(SparseBinary(50, 10_000, seed=0, inputs_per_node=7).chosen.flatten().long(), minlength=50)
    assert float(often.min()) > 1400 * 0.88
    assert float(often.max()) < 1400 * 1.12


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("outputs", [2, 40])
def test_one_gain_per_task_and_one_per_row(kind: type[FrozenWeights], outputs: int) -> None:
    made = kind(12, outputs, seed=0)
    gains, x = rows(5, 12, seed=1), rows(5, 9, 12)
    expected = torch.stack([(x[k] * gains[k]) @ made.dense().T for k in range(5)])
    assert torch.allclose(vmap(made)(x, gains), expected, atol=1e-5)
    assert torch.allclose(vmap(made, in_dims=(None, 0))(x[0], gains)[0], expected[0], atol=1e-5)
    assert torch.allclose(torch.stack([made(x[k], gains[k]) for k in range(5)]), expected, atol=1e-5)
    per_row = vmap(lambda row, gain: made(row[None], gain)[0])(x[:, 0], gains)
    assert torch.allclose(per_row, expected[:, 0], atol=1e-5)


def test_few_outputs_and_many_rows_take_the_other_form_with_the_same_result() -> None:
    made, x, gain = Gaussian(30, 3, seed=0), rows(50, 30), rows(30, seed=1)
    assert torch.allclose(made(x, gain), (x * gain) @ made.weight.T, atol=1e-5)


@pytest.mark.parametrize("kind", ALL)
def test_frozen_things_are_no_parameters_and_are_not_saved(kind: type[FrozenWeights]) -> None:
    made = kind(12, 20, seed=0)
    assert list(made.parameters()) == []
    assert made.state_dict() == {}
    assert all(not buffer.requires_grad for buffer in made.buffers())


@pytest.mark.parametrize("kind", [Gaussian, Hadamard])
def test_gradient_reaches_the_gain_and_is_that_of_the_dense_product(kind: type[FrozenWeights]) -> None:
    made, x = kind(12, 20, seed=0), rows(6, 12)
    one, two = rows(12, seed=2).requires_grad_(), rows(12, seed=2).requires_grad_()
    made(x, one).square().sum().backward()
    ((x * two) @ made.dense().T).square().sum().backward()
    assert one.grad is not None
    assert two.grad is not None
    assert torch.allclose(one.grad, two.grad, rtol=1e-4, atol=1e-4)


def test_the_encoder_gives_no_gradient() -> None:
    made = SparseBinary(12, 20, seed=0)
    assert not made(rows(2, 12).requires_grad_()).requires_grad


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
def test_impossible_sizes_are_refused(kind: type[FrozenWeights], inputs: int, outputs: int) -> None:
    with pytest.raises(ConfigError, match=r"must be at least 1, got"):
        kind(inputs, outputs, seed=0)


@pytest.mark.parametrize("count", [0, 6])
def test_a_node_cannot_add_more_inputs_than_there_are(count: int) -> None:
    with pytest.raises(ConfigError, match=rf"between 1 and the number of inputs \(5\), got {count}"):
        SparseBinary(5, 3, seed=0, inputs_per_node=count)


def test_kinds_have_names() -> None:
    assert isinstance(make("gaussian", 4, 4, seed=0), Gaussian)
    assert isinstance(make("hadamard", 4, 4, seed=0), Hadamard)
    with pytest.raises(ConfigError, match='"dense": choose one of gaussian, hadamard'):
        make("dense", 4, 4, seed=0)


@pytest.mark.parametrize("kind", [Gaussian, Hadamard])
def test_weights_follow_the_precision_they_are_moved_to(kind: type[FrozenWeights]) -> None:
    made = kind(6, 9, seed=0).to(torch.float64)
    x = rows(2, 6).double()
    assert made.dense().dtype == torch.float64
    assert torch.allclose(made(x), x @ made.dense().T)


def test_patches_are_rectangles_with_the_gaussian_size() -> None:
    patches = Patches(784, 2000, seed=0)
    images = patches.weight.reshape(2000, 28, 28) != 0
    heights, widths = images.any(dim=2).sum(dim=1), images.any(dim=1).sum(dim=1)
    assert (images.sum(dim=(1, 2)) == heights * widths).all(), "nothing but the rectangle, and all of it"
    assert {*heights.tolist()} == {*widths.tolist()} == set(range(7, 15))
    assert images[:, 0, :].any()
    assert images[:, -1, -1].any(), "corners are seen too"
    squares = patches.weight.square().sum(dim=1)
    assert float(squares.mean()) == pytest.approx(2.0, rel=0.01)
    torch.testing.assert_close(patches(rows(3, 784)), rows(3, 784) @ patches.dense().T)


@pytest.mark.parametrize("features", [783, 36, 1])
def test_patches_need_a_square_image(features: int) -> None:
    with pytest.raises(ConfigError, match=f"square images of at least 7 x 7 pixels, got rows of {features} numbers"):
        Patches(features, 4, seed=0)
