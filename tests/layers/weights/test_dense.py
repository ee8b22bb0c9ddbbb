"""Dense frozen weights: Gaussian ones, and patches of images."""

import math

import pytest
import torch

from crwn.errors import ConfigError
from crwn.layers.weights import (
    Gaussian,
    Patches,
)
from draws import normal


def test_gaussian_has_mean_0_and_variance_2_over_inputs() -> None:
    weight = Gaussian(200, 500, seed=3).weight.double()
    assert float(weight.mean()) == pytest.approx(0.0, abs=4 * math.sqrt(0.01 / 1e5))
    assert float(weight.var()) == pytest.approx(0.01, rel=0.02)
    normal = weight.flatten() / 0.1
    assert float((normal**4).mean()) == pytest.approx(3.0, rel=0.05)
    assert float((normal.abs() < 1).double().mean()) == pytest.approx(0.6827, abs=0.006)
    assert abs(float(torch.corrcoef(weight[:2])[0, 1])) < 0.25


def test_few_outputs_and_many_rows_take_the_other_form_with_the_same_result() -> None:
    made, x, gain = Gaussian(30, 3, seed=0), normal(50, 30), normal(30, seed=1)
    assert torch.allclose(made(x, gain), (x * gain) @ made.weight.T, atol=1e-5)


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
    torch.testing.assert_close(patches(normal(3, 784)), normal(3, 784) @ patches.dense().T)


@pytest.mark.parametrize("features", [783, 36, 1])
def test_patches_need_a_square_image(features: int) -> None:
    with pytest.raises(ConfigError, match=f"square images of at least 7 x 7 pixels, got rows of {features} features"):
        Patches(features, 4, seed=0)
