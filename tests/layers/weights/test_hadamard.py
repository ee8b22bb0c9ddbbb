"""Hadamard weights: their formula for any size, and the size of Gaussian entries."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crwn.layers.weights import (
    Hadamard,
    hadamard_matrix,
)
from draws import normal

sizes = st.integers(1, 70)


@pytest.mark.parametrize("size", [1, 2, 8, 64])
def test_hadamard_matrix_is_orthonormal_with_equal_entries(size: int) -> None:
    matrix = hadamard_matrix(size)
    assert torch.allclose(matrix @ matrix.T, torch.eye(size), atol=1e-6)
    assert torch.allclose(matrix.abs(), torch.full((size, size), 1 / math.sqrt(size)))


@settings(max_examples=60)
@given(in_features=sizes, out_features=st.integers(1, 200), seed=st.integers(0, 9))
def test_hadamard_is_its_formula_for_any_size(in_features: int, out_features: int, seed: int) -> None:
    made = Hadamard(in_features, out_features, seed=seed)
    n = 1 << (in_features - 1).bit_length()
    blocks = math.ceil(out_features / n)
    c = math.sqrt(2) * math.sqrt(n / in_features)
    written = torch.cat([c * hadamard_matrix(n)[:, :in_features] * made.signs[b] for b in range(blocks)])
    assert torch.allclose(made.dense(), written[:out_features], atol=1e-5)
    x = normal(3, in_features)
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
