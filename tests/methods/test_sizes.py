"""Sizes as they are given on the command line."""

from __future__ import annotations

import pytest
import torch

from crwn.data.dataset import Rows
from crwn.errors import ConfigError
from crwn.methods import make_method
from crwn.methods.sizes import flat_features, has_images, multiple, resnet_shape, width
from crwn.scenarios import Scenario, Task


def shaped(*shape: int) -> Scenario:
    rows = Rows(torch.zeros(2, *shape), torch.tensor([0, 1]))
    return Scenario("shaped", [Task("t", rows, rows, (0, 1))], seed=0, input_shape=shape, budget={"batches": 1})


def test_width_and_multiple() -> None:
    assert width("256", method="stl") == 256
    assert multiple("10d", method="flynet") == 10
    for wrong in ("", "0", "-4", "10d", "2.5", "\u0663"):  # the last is a digit that is not ASCII
        with pytest.raises(ConfigError, match="stl has no size"):
            width(wrong, method="stl")
    for wrong in ("", "d", "0d", "-1d", "256", "1.5d"):
        with pytest.raises(ConfigError, match="flynet has no size"):
            multiple(wrong, method="flynet")


def test_flat_rows_and_images() -> None:
    assert not has_images(shaped(6))
    assert has_images(shaped(3, 16, 16))
    assert flat_features(shaped(6), method="flynet") == 6
    with pytest.raises(ConfigError, match=r"flynet takes flat rows, but inputs of shaped have the shape \(3, 16, 16\)"):
        flat_features(shaped(3, 16, 16), method="flynet")


@pytest.mark.parametrize(
    ("shape", "size", "expected"),
    [
        ((3, 32, 32), "1d", {"width": 10, "stem": "small", "channels": 3}),
        ((1, 16, 63), "4d", {"width": 40, "stem": "small", "channels": 1}),
        ((3, 84, 84), "1d", {"width": 64, "stem": "standard", "channels": 3}),
        ((3, 64, 200), "2d", {"width": 128, "stem": "standard", "channels": 3}),
    ],
)
def test_resnet_shapes(shape: tuple[int, ...], size: str, expected: dict[str, object]) -> None:
    assert resnet_shape(shaped(*shape), size, method="stl") == expected


@pytest.mark.parametrize(
    ("shape", "size", "message"),
    [
        ((3, 16, 16), "256", 'stl has no size "256" for images'),
        ((3, 8, 8), "1d", "have 8 x 8 pixels, ResNet-18 needs 16 x 16"),
        ((3, 16), "1d", r"stl takes images, but inputs of shaped have the shape \(3, 16\)"),
    ],
)
def test_what_resnet_cannot_take_is_an_error(shape: tuple[int, ...], size: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_method("stl", shaped(*shape), size=size)
