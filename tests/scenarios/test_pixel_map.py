import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from crwn.data import ImageSet
from crwn.scenarios.pixel_map import PixelMap, rotation


def image_set(x: np.ndarray, mean: tuple[float, ...] = (0.25,), std: tuple[float, ...] = (0.5,)) -> ImageSet:
    tensor, y = torch.from_numpy(x), torch.zeros(len(x), dtype=torch.int64)
    return ImageSet("some", (0, 1), tuple(x.shape[1:]), tensor, y, tensor, y, mean, std)


def moved(x: np.ndarray, pixels: torch.Tensor) -> np.ndarray:
    """Pixels moved as the map says, by hand."""
    flat = np.concatenate([x.reshape(len(x), -1), np.zeros((len(x), 1), dtype=x.dtype)], axis=1)
    return flat[:, pixels.numpy()].reshape(x.shape)


@pytest.mark.parametrize("angle", range(0, 360, 10))
def test_rotations_equal_pillows_on_real_digits_and_noise(mnist: ImageSet, angle: int) -> None:
    noise = np.random.default_rng(angle).integers(0, 256, (20, 28, 28), dtype=np.uint8)
    images = np.concatenate([mnist.x_test[:50].numpy(), noise])
    expected = np.stack([np.asarray(Image.fromarray(image).rotate(angle)) for image in images])
    pixels = rotation((28, 28), angle)
    assert np.array_equal(moved(images, pixels), expected)
    inputs = PixelMap(mnist, pixels)(torch.from_numpy(images))
    normalised = (torch.from_numpy(expected).flatten(1) / 255 - 0.1307) / 0.3081
    assert torch.allclose(inputs, normalised, atol=1e-6)


@settings(max_examples=60)
@given(
    height=st.integers(1, 20),
    width=st.integers(1, 20),
    angle=st.floats(-720, 720, allow_nan=False),
    seed=st.integers(0, 999),
)
def test_rotations_of_any_size_and_angle_equal_pillows(height: int, width: int, angle: float, seed: int) -> None:
    image = np.random.default_rng(seed).integers(1, 256, (3, height, width), dtype=np.uint8)
    colour = Image.fromarray(np.ascontiguousarray(image.transpose(1, 2, 0))).rotate(angle)
    turned = moved(image[None], rotation((3, height, width), angle))[0]
    assert np.array_equal(turned, np.asarray(colour).transpose(2, 0, 1))


def test_channels_keep_their_own_mean_and_deviation() -> None:
    x = np.random.default_rng(0).integers(0, 256, (5, 3, 4, 4), dtype=np.uint8)
    mean, std = (0.1, 0.2, 0.3), (0.4, 0.5, 0.6)
    inputs = PixelMap(image_set(x, mean, std), rotation((3, 4, 4), 45), shape=(3, 4, 4))(torch.from_numpy(x))
    turned = torch.from_numpy(moved(x, rotation((3, 4, 4), 45))) / 255
    expected = (turned - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)
    assert inputs.shape == (5, 3, 4, 4)
    assert torch.allclose(inputs, expected, atol=1e-6)


def test_permuted_columns_of_a_table_take_their_statistics_along() -> None:
    x = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    inputs = PixelMap(image_set(x, (1.0, 2.0, 3.0), (1.0, 2.0, 4.0)), torch.tensor([2, 0, 1]))(torch.from_numpy(x))
    plain = (torch.from_numpy(x) - torch.tensor([1.0, 2.0, 3.0])) / torch.tensor([1.0, 2.0, 4.0])
    assert torch.allclose(inputs, plain[:, [2, 0, 1]], atol=1e-6)


def test_raw_rows_are_left_as_they_are() -> None:
    x = np.ones((2, 3), dtype=np.float32)
    raw = torch.from_numpy(x)
    PixelMap(image_set(x))(raw)
    assert torch.equal(raw, torch.ones(2, 3))
